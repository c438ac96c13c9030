"""Leftover: a reason for each BatchNormalization and activation that stays and that no rule came near."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from fuser.engine.mismatch import Mismatch
from fuser.engine.node import str_name
from fuser.passes.site import BATCHNORM, FARTHEST

if TYPE_CHECKING:
    from fuser.engine.node import Node
    from fuser.passes.site import Work

ACTIVATIONS = frozenset({("", "LeakyRelu"), ("", "PRelu")})
BETWEEN = frozenset(
    {"Add", "AveragePool", "BatchNormalization", "Cast", "Clip", "Concat", "DequantizeLinear", "Div", "Dropout", "Flatten",
     "Identity", "LeakyRelu", "MaxPool", "Mul", "PRelu", "QuantizeLinear", "Relu", "Reshape", "Squeeze", "Sub", "Transpose",
     "Unsqueeze"}
)  # fmt: skip
"""Operators that an anchor's value is followed through when looking for one within reach."""


def leftover(work: Work) -> None:
    """Say what stands before each BatchNormalization or activation that is left without a reason."""
    told = {node for _, subject in work.declined for node in (subject, *subject.origin.nodes)}
    for node in work.graph.live_nodes():
        if node.kind != BATCHNORM and node.kind not in ACTIVATIONS:
            continue
        above = work.graph.producer.get(node.inputs[0])
        if told.intersection((node, *node.origin.nodes)) or above in told:
            continue  # it has its reason, or the BatchNormalization before it has
        if _anchor_within_reach(work, node):
            work.decline(_reason(work, node, above), node)
            told.add(node)


def _anchor_within_reach(work: Work, node: Node) -> bool:
    """Whether a Conv, ConvTranspose or Gemm lies above or, for what scales and shifts, below: at most FARTHEST operators away."""
    graph = work.graph

    def above(step: Node) -> Iterator[Node]:
        return (graph.producer[v] for v in step.inputs if v in graph.producer)

    def below(step: Node) -> Iterator[Node]:
        return (reader for v in step.outputs for reader in graph.readers_of(v))

    return any(_reaches(work, node, way) for way in ((above, below) if node.kind == BATCHNORM else (above,)))


def _reaches(work: Work, node: Node, way: Callable[[Node], Iterator[Node]]) -> bool:
    seen = [node]
    for step in seen:
        for other in islice(way(step), FARTHEST):
            if other.kind in work.rules.anchors or other.kind[0] == "fuser" or other.op_type == "QLinearConv":
                return True
            if other.op_type in BETWEEN and len(seen) < FARTHEST and other not in seen:
                seen.append(other)
    return False


def _reason(work: Work, node: Node, above: Node | None) -> Mismatch:
    graph, value = work.graph, node.inputs[0]
    label = "bn" if node.kind == BATCHNORM else "act"
    parts: tuple[str, ...] = (value,)
    other = next((r for r in graph.readers_of(value) if r is not node), None)
    if above is None:
        fact = "reads {!r}, which no operator of this graph makes; the pattern needs Conv, ConvTranspose or Gemm there"
    elif above.kind in work.rules.anchors and other is not None:
        fact = "its input {!r} is also read by {} {!r}; the pattern needs no other reader"
        parts = (value, other.op_type, str_name(other))
    elif above.kind in work.rules.anchors and value in graph.outputs:
        fact = "its input {!r} is an output of the graph; the pattern needs it inside"
    else:
        fact = "reads {!r} of {} {!r}; the pattern needs Conv, ConvTranspose or Gemm there"
        parts = (value, above.op_type, str_name(above))
        if node.kind == BATCHNORM:
            fact += ", or a Conv without padding that alone reads it"
        if above.op_type == "DequantizeLinear":
            fact += ". What rounds in between stays: optimize the float model with --fused-as standard, then quantize it"
    rule = "Affine:batchnorm" if node.kind == BATCHNORM else "ConvLeakyRelu"
    return Mismatch(rule, graph, node, label, node, fact, parts)
