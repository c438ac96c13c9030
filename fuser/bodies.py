"""The graphs inside nodes: the branches of If, the bodies of Loop and Scan."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import AttributeProto, GraphProto, NodeProto

GRAPH, GRAPHS = AttributeProto.GRAPH, AttributeProto.GRAPHS  # looking these up in their message is slow


def bodies(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs that a node holds, in the order of its attributes."""
    for a in node.attribute[:]:  # a slice: iterating takes three times as long
        kind = a.type
        if kind == GRAPH:
            yield a.g
        elif kind == GRAPHS:
            yield from a.graphs
