"""Slopes of LeakyRelu, alone or in a fused operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fuser.advice.note import Note
from fuser.engine.context import FUSED
from fuser.report.facts import name_of, nodes_of

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

DEFAULT = 0.01
"""ONNX's default for LeakyRelu's alpha."""


class Slope(NamedTuple):
    """One activation: the node, and its slope for negative values."""

    node: str
    value: float


def slope_notes(model: ModelProto) -> Iterator[Note]:
    """Notes on each slope by itself and next to its neighbours."""
    slopes = [Slope(name_of(node), value) for node in nodes_of(model) for value in _slope(node)]
    for i, slope in enumerate(slopes):
        yield from _by_itself(slope)
        yield from _among(slopes, i)


def _slope(node: NodeProto) -> Iterator[float]:
    if node.domain == FUSED:
        name, default = "negative_slope", None
    elif node.op_type == "LeakyRelu" and node.domain in ("", "ai.onnx"):
        name, default = "alpha", DEFAULT
    else:
        return
    given = next((a for a in node.attribute if a.name == name), None)
    if given is None and default is not None:
        yield default
    elif given is not None and not given.ref_attr_name and np.isfinite(given.f):
        # The shortest decimal that is this float32, as the exporter's source had it.
        yield float(str(np.float32(given.f)))


def _by_itself(slope: Slope) -> Iterator[Note]:
    numbers = (("slope", slope.value),)
    if slope.value == 0:
        yield Note(
            "slope-zero",
            slope.node,
            "the slope is 0, which is Relu: no gradient flows for negative values",
            "export it as Relu if it is meant, or give it a slope such as 0.2",
            numbers,
        )
    elif not 0 < slope.value < 1:
        what = "the identity" if slope.value == 1 else "negative" if slope.value < 0 else "steeper than 1"
        yield Note(
            "slope-outside",
            slope.node,
            f"the slope {slope.value:g} is {what}, outside of (0, 1)",
            "check that the exporter did not swap the slope and its complement",
            numbers,
        )


def _among(slopes: Sequence[Slope], i: int) -> Iterator[Note]:
    """The two nearest neighbours agree, and this one does not."""
    if len(slopes) < 3:
        return
    first = min(max(i - 1, 0), len(slopes) - 3)
    near = [slopes[k] for k in range(first, first + 3) if k != i]
    if near[0].value == near[1].value != slopes[i].value:
        yield Note(
            "slope-unlike",
            slopes[i].node,
            f"the slope is {slopes[i].value:g}, and that of its neighbours "
            f"{near[0].node!r} and {near[1].node!r} is {near[0].value:g}",
            "check that it is meant",
            (("slope", slopes[i].value), ("neighbours' slope", near[0].value)),
        )
