"""The rules find their passes by their content, and the passes stand in an order that has reasons."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from fuser.engine.compiled import CompiledRule
from fuser.language import builtin_folder, load_rules
from fuser.passes import PASSES, sort_rules

RULES = load_rules(builtin_folder())
SORTED = sort_rules(RULES)


def ids(rules: Iterable[tuple[CompiledRule, ...]]) -> set[str]:
    """The ids of a group of rules."""
    return {rule.id for group in rules for rule in group}


GROUPS = {
    "spell": {"LeakyRelu:max", "LeakyRelu:where_greater", "LeakyRelu:prelu"},
    "affine": {"Affine:batchnorm", "Affine:mul", "Affine:add", "Affine:sub", "Affine:sub_from", "Affine:div"},
    "fold": {"Fold:conv", "Fold:conv_transpose", "Fold:gemm", "Fold:gemm_trans_b"},
    "fuse": {"ConvLeakyRelu", "ConvTransposeLeakyRelu", "GemmLeakyRelu"},
    "hoist": {"Hoist:affine_identity", "Hoist:affine_transpose", "Hoist:leaky_identity"},
}


@pytest.mark.parametrize(("group", "members"), GROUPS.items(), ids=GROUPS)
def test_a_rule_is_where_its_content_puts_it(group: str, members: set[str]) -> None:
    """Nobody lists the rules of a pass."""
    assert members <= ids(getattr(SORTED, group).values())


def test_no_rule_is_in_two_groups_and_none_in_no_group() -> None:
    """Each rule is tried by exactly one pass."""
    found = [i for group in (*GROUPS, "sink") for i in ids(getattr(SORTED, group).values())]
    assert sorted(found) == sorted({r.id for r in SORTED.all})
    assert {r.id for r in SORTED.all} == {r.id for r in RULES}


def test_rules_stand_under_the_operator_their_pattern_ends_with() -> None:
    """So that a node is looked at by the rules that may match there."""
    for kind, rules in SORTED.fold.items():
        assert all(rule.pattern.root.kind == kind for rule in rules)


def test_anchors_are_what_can_be_folded_into() -> None:
    """Of the rules themselves."""
    assert {op for _, op in SORTED.anchors} == {"Conv", "ConvTranspose", "Gemm", "MatMul"}


def test_the_passes_stand_in_order() -> None:
    """Spelling before folding, folding before fusing, the form that was asked for last."""
    names = [p.name for p in PASSES]
    assert [n for n in names if n in ("spell", "fold", "fuse", "emit")] == ["spell", "fold", "fuse", "emit"]


def test_rules_keep_their_order_within_a_group() -> None:
    """A user's own rules come first because they are given first."""
    backwards = sort_rules(tuple(reversed(RULES)))
    for kind, rules in SORTED.spell.items():
        assert [r.id for r in backwards.spell[kind]] == [r.id for r in reversed(rules)]
