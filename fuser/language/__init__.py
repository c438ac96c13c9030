"""The pattern language: rules as ONNX functions, loaded whole or refused, and proved by running them."""

from fuser.language.rule import Body, Ref, RewriteRule, RuleNode, builtin_folder, builtin_rules, load_rules

__all__ = ["Body", "Ref", "RewriteRule", "RuleNode", "builtin_folder", "builtin_rules", "load_rules"]
