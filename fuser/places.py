"""The places where a model was changed, as parity cuts them out and checks them alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuser.parity.result import ANCHORS, Site

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx import ModelProto

    from fuser.report import Fusion, Rewrite

FOLD = "fold"
"""The pass that changes an anchor's weights."""


def changed_places(
    before: ModelProto, after: ModelProto, fusions: Sequence[Fusion], rewrites: Sequence[Rewrite]
) -> tuple[Site, ...]:
    """The fused places, and those of the main graph where something was only folded between values that both models have."""
    fused = [Site(f.graph, f.output, f.inputs, f.op, f.nodes) for f in fusions]
    taken = {site.output for site in fused if not site.graph}
    nodes: dict[str, list[str]] = {}
    for r in rewrites:
        if r.pass_name == FOLD and not r.graph and r.output not in taken:
            nodes.setdefault(r.output, []).extend(r.nodes)
    known = {o for node in before.graph.node for o in node.output} | {v.name for v in before.graph.input}
    folded = [
        Site("", node.output[0], (node.input[0],), node.op_type, tuple(dict.fromkeys(nodes[node.output[0]])))
        for node in after.graph.node
        if node.domain in ("", "ai.onnx")
        and node.op_type in ANCHORS
        and node.output[0] in nodes
        and known.issuperset((node.input[0], node.output[0]))
    ]
    return (*fused, *folded)
