"""What folding and fusing compute, one line per step of a kind of site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

Json = Mapping[str, Any]
ANCHORS = {"Conv": "∗", "ConvTranspose": "∗ᵀ", "Gemm": "·", "MatMul": "·"}
ACTIVATION = Markup("<var>y</var> = max(<var>z</var>, 0) + <var>α</var> · min(<var>z</var>, 0)")


def steps(fusion: Json, docs: Mapping[str, str]) -> list[tuple[str, Markup | str]]:
    """What each rule says of itself that led to the operator, and what the operator computes."""
    rules = [rule for rule in fusion["rules"] if docs.get(rule) and rule.split(":")[0] != fusion["op"]]
    lines: list[tuple[str, Markup | str]] = [(rule, docs[rule]) for rule in rules]
    sign = next((ANCHORS[op] for op in fusion["ops"] if op in ANCHORS), None)
    if sign is not None and fusion["negative_slope"] is not None:
        made = Markup("<var>z</var> = <var>x</var> {} <var>W</var> + <var>b</var>, &ensp; {}")
        lines.append((fusion["op"], made.format(sign, ACTIVATION)))
    return lines
