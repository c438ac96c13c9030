"""What is known of a model's values without running it, and nodes put in place of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import ModelProto, helper, shape_inference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from onnx import GraphProto, NodeProto, TensorProto, TypeProto

    from fuser.targets.atc.geometry import Shape


def has_values(tensor: TensorProto) -> bool:
    """Whether the tensor's values are in it, not in a file or, as a skeleton's weights are, elsewhere."""
    return not tensor.external_data


def weight_shapes(graphs: Iterable[GraphProto]) -> dict[str, Shape]:
    """Shapes of all initializers."""
    return {tensor.name: tuple(tensor.dims) for graph in graphs for tensor in graph.initializer}


def element_types(graphs: Sequence[GraphProto]) -> dict[str, int]:
    """Element types that the model itself declares: value → TensorProto.DataType."""
    types: dict[str, int] = {}
    for graph in graphs:
        for values in (graph.value_info, graph.input, graph.output):
            types.update((v.name, v.type.tensor_type.elem_type) for v in values)
        types.update((tensor.name, tensor.data_type) for tensor in graph.initializer)
    return types


def inferred(model: ModelProto) -> dict[str, TypeProto]:
    """Types of all values that can be inferred: the main graph's and those of branches."""
    copy = ModelProto()
    copy.CopyFrom(model)
    _weights_to_inputs(copy.graph)
    try:
        copy = shape_inference.infer_shapes(copy, data_prop=True)
    except (shape_inference.InferenceError, ValueError):
        return {}  # what contradicts itself has no shapes worth trusting
    types: dict[str, TypeProto] = {}
    _collect(copy.graph, types)
    return types


def _weights_to_inputs(graph: GraphProto) -> None:
    """Take weights whose values are not at hand for inputs: shape inference needs their types only."""
    away = [tensor for tensor in graph.initializer if not has_values(tensor)]
    listed = {value.name for value in graph.input}
    for tensor in away:
        if tensor.name not in listed:
            graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
        graph.initializer.remove(tensor)


def _collect(graph: GraphProto, types: dict[str, TypeProto]) -> None:
    for values in (graph.value_info, graph.input, graph.output):
        types.update((value.name, value.type) for value in values)
    for tensor in graph.initializer:
        types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _collect(attribute.g, types)


def replace_nodes(graph: GraphProto, new: Mapping[int, Sequence[NodeProto]]) -> None:
    """Put nodes in the places of others, given by index. Nodes that stay are not copied: references hold."""
    if not new:
        return
    ranks: list[tuple[int, int, int]] = [(i in new, i, 0) for i in range(len(graph.node))]
    for i, nodes in new.items():
        graph.node.extend(nodes)
        ranks.extend((False, i, k) for k in range(len(nodes)))
    order = iter(ranks)
    graph.node.sort(key=lambda _node: next(order))  # deleting from the middle would be quadratic
    del graph.node[len(graph.node) - len(new) :]
