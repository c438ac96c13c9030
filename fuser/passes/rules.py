"""The rules sorted by what they do, which their own content says: no list to keep in step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from fuser.engine.compiled import INTERNAL, CompiledRule, compile_rule

if TYPE_CHECKING:
    from fuser.engine.node import Kind
    from fuser.language import RewriteRule

LEAKY = ("", "LeakyRelu")
ByRoot = Mapping["Kind", tuple[CompiledRule, ...]]


@dataclass(frozen=True)
class Rules:
    """Compiled rules by pass and by the operator that their pattern ends with.

    spell: other spellings become standard operators. affine: an operator becomes fuser.Affine. fold: an Affine, or a
    BatchNormalization straight away, joins an anchor. fuse: an operator of domain fuser takes the pattern's place. hoist,
    sink: an operator moves up or down past another on its way to an anchor.
    """

    all: tuple[CompiledRule, ...]
    spell: ByRoot
    affine: ByRoot
    fold: ByRoot
    fuse: ByRoot
    hoist: ByRoot
    sink: ByRoot

    @cached_property
    def anchors(self) -> frozenset[Kind]:
        """The operators that an Affine can be folded into."""
        return frozenset(map(_anchor, _flat(self.fold)))

    @cached_property
    def affine_goes_up_past(self) -> frozenset[Kind]:
        """The operators that an Affine below them can move above."""
        return _passed(self.hoist)

    @cached_property
    def affine_goes_down_past(self) -> frozenset[Kind]:
        """The operators that an Affine above them can move below."""
        return _passed(self.sink)


def sort_rules(rules: Iterable[RewriteRule]) -> Rules:
    """Compile the rules and sort them; within a pass they keep their order."""
    compiled = tuple(map(compile_rule, rules))
    groups: dict[str, list[CompiledRule]] = {
        k: [] for k in ("spell", "affine", "fold", "fuse", "hoist", "sink")
    }
    for rule in compiled:
        groups[_group(rule)].append(rule)
    return Rules(compiled, **{name: _by_root(group) for name, group in groups.items()})


def _anchor(rule: CompiledRule) -> Kind:
    """What is folded into: what the pattern's last operator follows, else, where that is the Affine, the last itself."""
    root, producer = rule.pattern.root, rule.pattern.producer
    above = producer[root.inputs[0]][0].kind if root.inputs[0] in producer else INTERNAL
    return root.kind if above == INTERNAL else above


def _group(rule: CompiledRule) -> str:
    if rule.name in ("Hoist", "Sink"):
        return rule.name.lower()
    if INTERNAL in rule.finds or rule.name == "Fold":
        return "fold"
    if INTERNAL in rule.makes:
        return "affine"
    return "fuse" if rule.makes else "spell"


def _by_root(rules: Iterable[CompiledRule]) -> ByRoot:
    out: dict[Kind, tuple[CompiledRule, ...]] = {}
    for rule in rules:
        kind = rule.pattern.root.kind
        out[kind] = (*out.get(kind, ()), rule)
    return out


def _passed(rules: ByRoot) -> frozenset[Kind]:
    return frozenset(k for r in _flat(rules) if INTERNAL in r.finds for k in r.finds if k != INTERNAL)


def _flat(rules: ByRoot) -> Iterable[CompiledRule]:
    return (r for group in rules.values() for r in group)
