"""The graphs inside nodes: the branches of If, the bodies of Loop and Scan."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import AttributeProto, GraphProto, NodeProto


def bodies(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs that a node holds, in the order of its attributes."""
    for a in node.attribute:
        if a.type == AttributeProto.GRAPH:
            yield a.g
        elif a.type == AttributeProto.GRAPHS:
            yield from a.graphs
