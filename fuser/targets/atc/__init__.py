"""Ascend's ATC: what it would refuse in a model, the form it accepts, and what lies beside it."""

from fuser.targets.atc.bundle import Conversion, bundle
from fuser.targets.atc.form import to_atc_form
from fuser.targets.atc.lint import lint
from fuser.targets.atc.nodeform import fused_functions, with_definitions
from fuser.targets.atc.plugin import plugin_files

__all__ = [
    "Conversion",
    "bundle",
    "fused_functions",
    "lint",
    "plugin_files",
    "to_atc_form",
    "with_definitions",
]
