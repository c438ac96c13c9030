"""The built-in rules: each proves itself, and none survives an edit of its rewrite."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from fuser.errors import PatternError
from fuser.language import RewriteRule, builtin_folder, load_rules
from fuser.language.bench import prove

FILES = sorted(builtin_folder().glob("*.onnxtxt"))
OTHER = {
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Div",
    "Div": "Mul",
    "Sqrt": "Abs",
    "LeakyRelu": "Elu",
    "Max": "Min",
}
# The bias that main gives has every channel already, so to how many it is expanded does not show.
UNSEEN = {("Fold:conv_transpose", "channels")}


def test_there_are_built_in_rules() -> None:
    """In the checkout, and under one id each."""
    rules = load_rules(builtin_folder())
    assert len({rule.id for rule in rules}) == len(rules) > 0


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_built_in_rule_proves_itself(file: Path) -> None:
    """With room to the tolerance."""
    for proof in prove(load_rules(file)):
        assert proof.passed, proof
        assert proof.draws >= 5, proof
        assert proof.difference < 3e-6, proof


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_edit_of_one_operator_in_a_rewrite_passes(file: Path, tmp_path: Path) -> None:
    """Add for Sub, Mul for Div …, one node of one rewrite at a time: refused at load, or by the bench."""
    rows = file.read_text(encoding="utf-8").split("\n")
    copy = tmp_path / file.name
    mutants: dict[str, RewriteRule] = {}
    for rule in load_rules(file):
        for node in rule.rewrite.nodes:
            if node.op_type not in OTHER or node.domain or (rule.id, node.outputs[0]) in UNSEEN:
                continue
            row = rows[node.line - 1]
            edited = re.sub(rf"(\b{node.outputs[0]} = ){node.op_type}\b", rf"\1{OTHER[node.op_type]}", row)
            assert edited != row
            copy.write_text("\n".join([*rows[: node.line - 1], edited, *rows[node.line :]]), encoding="utf-8")
            with contextlib.suppress(PatternError):
                mutants[edited] = next(mutant for mutant in load_rules(copy) if mutant.id == rule.id)
    for edited, proof in zip(mutants, prove(mutants.values()), strict=True):
        assert not proof.passed, f"{proof.rule} passes with {edited}"
