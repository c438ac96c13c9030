"""Models that contradict themselves: refused before anything is rewritten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuser.errors import ModelError
from fuser.passes.site import BATCHNORM

if TYPE_CHECKING:
    from fuser.engine.graph import Graph
    from fuser.engine.node import Node

PARAMETERS = ("scale", "B", "mean", "var")


def check(graph: Graph) -> None:
    """Refuse a BatchNormalization with other than its Conv's channels.

    Only what weights say counts: value_info may be stale.

    Raises:
        ModelError: says which node, how many channels each has, and what to do.
    """
    for node in graph.live_nodes():
        if node.kind == BATCHNORM:
            channels = _channels_of_anchor(graph, node.inputs[0])
            if channels is not None:
                _check_node(graph, node, channels)


def _check_node(graph: Graph, node: Node, channels: int) -> None:
    spatial = node.attributes.get("spatial")
    if spatial is not None and spatial.i == 0:
        return  # before opset 9: one parameter for each element, not for each channel
    for name, value in zip(PARAMETERS, node.inputs[1:5], strict=False):
        home = graph.home(value)
        tensor = home.initializers.get(value) if home is not None else None
        if tensor is not None and tensor.dims[:] != [channels]:
            conv = graph.producer[node.inputs[0]]
            raise ModelError(
                f"the model contradicts itself: {node!r} has {name} {value!r} of shape {list(tensor.dims)}, but its input "
                f"from {conv!r} has {channels} channels; export the model again"
            )


def _channels_of_anchor(graph: Graph, value: str) -> int | None:
    """How many channels the Conv or ConvTranspose that makes the value has, by its weight."""
    node = graph.producer.get(value)
    if node is None or node.kind not in (("", "Conv"), ("", "ConvTranspose")) or len(node.inputs) < 2:
        return None
    home = graph.home(node.inputs[1])
    weight = home.initializers.get(node.inputs[1]) if home is not None else None
    if weight is None or len(weight.dims) < 3:
        return None
    if node.op_type == "Conv":
        return weight.dims[0]
    group = graph.attribute(node, "group")
    return weight.dims[1] * (group.i if group is not None else 1)
