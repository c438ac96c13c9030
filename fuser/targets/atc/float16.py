"""A model as it computes in float16: every weight and every value between two operators rounded to it.

Inside an operator numbers stay float32, as the device's matrix unit sums products of float16 numbers in
float32. Written with Cast to float16 and back, so it runs wherever the model does, with or without float16
kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, helper

from fuser.targets.atc.names import all_graphs
from fuser.targets.atc.values import inferred

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from onnx import NodeProto

    from fuser.storage import StoredModel, Weights

_BLOCK = 1 << 20  # elements rounded at a time

# Of these only the first input is computed with; the others say where, and stay float32 on the device too.
_DATA_FIRST = {"Resize", "Upsample"}


def float16_copy(stored: StoredModel) -> StoredModel:
    """A copy that rounds, its weights when it is written. Inputs and outputs keep their names and types."""
    proto = ModelProto()
    proto.CopyFrom(stored.proto)
    graphs = tuple(all_graphs(proto.graph))
    fresh = _fresh({name for graph in graphs for name in _names(graph)})
    types = inferred(proto)
    floats = {name for name, kind in types.items() if kind.tensor_type.elem_type == TensorProto.FLOAT}
    entry, inputs = _round_inputs(proto.graph, fresh)
    for graph in reversed(graphs):  # inner ones first: outer ones are rebuilt of copies
        for node in graph.node:
            node.input[:] = [inputs.get(name, name) for name in node.input]
        weights = [*_round_weights(graph, stored.weights, fresh)]
        nodes = [new for node in graph.node for new in _rounded(node, floats, fresh)]
        rebuilt = GraphProto(node=[*(entry if graph is graphs[0] else ()), *weights, *nodes])
        del graph.node[:]
        graph.node.extend(rebuilt.node)
    return replace(stored, proto=proto)


def _names(graph: GraphProto) -> Iterator[str]:
    for part in (graph.input, graph.initializer, graph.node):
        yield from (item.name for item in part)
    for node in graph.node:
        yield from node.output


def _fresh(taken: set[str]) -> Callable[[str], str]:
    def fresh(name: str) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    return fresh


def _round_inputs(graph: GraphProto, fresh: Callable[[str], str]) -> tuple[list[NodeProto], dict[str, str]]:
    """Nodes that round the model's inputs, and the names of the rounded ones."""
    constants = {tensor.name for tensor in graph.initializer}
    floats = [v.name for v in graph.input if v.type.tensor_type.elem_type == TensorProto.FLOAT]
    names = {name: fresh(f"{name}/rounded") for name in floats if name not in constants}
    return [cast for name, rounded in names.items() for cast in _casts(name, rounded, fresh)], names


def _rounded(node: NodeProto, floats: Collection[str], fresh: Callable[[str], str]) -> Iterator[NodeProto]:
    """The node, and what rounds its outputs, which keep their names."""
    casts: list[NodeProto] = []
    for i, name in enumerate(node.output):
        if name in floats:
            node.output[i] = fresh(f"{name}/exact")
            casts += _casts(node.output[i], name, fresh)
    yield node
    yield from casts


def _casts(value: str, rounded: str, fresh: Callable[[str], str]) -> tuple[NodeProto, NodeProto]:
    between = fresh(f"{rounded}/float16")
    return _cast(value, between, TensorProto.FLOAT16), _cast(between, rounded, TensorProto.FLOAT)


def _cast(value: str, result: str, to: int) -> NodeProto:
    return helper.make_node("Cast", [value], [result], to=to)


def _round_weights(graph: GraphProto, weights: Weights, fresh: Callable[[str], str]) -> Iterator[NodeProto]:
    """Store the graph's float32 weights as float16, in place; the nodes make what they were of them."""
    exact = {name for node in graph.node if node.op_type in _DATA_FIRST for name in node.input[1:]}
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and tensor.name not in exact:
            was = TensorProto()
            was.CopyFrom(tensor)
            tensor.Clear()
            tensor.name = fresh(f"{was.name}/float16")
            tensor.data_type = TensorProto.FLOAT16
            tensor.dims.extend(was.dims)
            weights.attach(tensor, _Halved(was, weights))
            yield _cast(tensor.name, was.name, TensorProto.FLOAT)


@dataclass(frozen=True, eq=False)
class _Halved:
    """The bytes of a float32 tensor rounded to float16; beyond 65504 that is infinity."""

    tensor: TensorProto
    weights: Weights

    @property
    def nbytes(self) -> int:
        """Two for each element."""
        return 2 * prod(self.tensor.dims)

    def chunks(self) -> Iterator[bytes]:
        """Read the tensor and round it block by block."""
        values = self.weights.read(self.tensor).reshape(-1)
        with np.errstate(over="ignore"):
            for start in range(0, len(values), _BLOCK):
                yield values[start : start + _BLOCK].astype("<f2").tobytes()
