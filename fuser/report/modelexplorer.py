"""Node data for Google's Model Explorer: which nodes were fused, folded or nearly fused, in colour.

The file is loaded beside the model, before or after fusion ("Add per-node data"). Keys are node names, which
are what Model Explorer's ONNX adapter uses, or the names of values where a node has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]
FUSED, FOLDED, NEAR = "fused", "folded into weights", "near miss"
COLOURS = {FUSED: "#b7d4f5", FOLDED: "#c9ead3", NEAR: "#ffd9b0"}


def node_data(report: Json) -> dict[str, Any]:
    """Model Explorer's GraphNodeData of the main graph.

    What stands in bodies and functions is not in it: Model Explorer shows those as graphs of their own.
    """
    found: dict[str, str] = {}
    for declined in report["declined"]:
        if not declined["graph"]:
            found[declined["node"]] = NEAR
    for fusion in report["fusions"]:
        if fusion["graph"]:
            continue
        for name in fusion["nodes"]:
            found[name] = FOLDED if name in fusion["folded"] else FUSED
        found[fusion["name"] or fusion["output"]] = FUSED
    results = {
        name: {"value": value, "bgColor": COLOURS[value], "textColor": "#111111"}
        for name, value in sorted(found.items())
    }
    return {"name": "onnx-fuser", "results": results}
