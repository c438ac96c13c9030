"""A model under check: the file the engines load, and its graph to look at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from fuser import storage
from fuser.parity.compare import TOLERANCES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fuser.storage import StoredModel

Dim = int | str | None  # fixed, a symbol, or anonymous
Array = np.ndarray[Any, np.dtype[Any]]

STANDARD = frozenset({"", "ai.onnx"})
M = TypeVar("M", NodeProto, TensorProto)
_FLOATS: dict[int, str] = {
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT: "float32",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
}


@dataclass(frozen=True)
class InputSpec:
    """One input a caller has to give; ``dims`` is None when not even the rank is known."""

    name: str
    elem_type: int
    dims: tuple[Dim, ...] | None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Strings are objects."""
        if self.elem_type == TensorProto.STRING:
            return np.dtype(object)
        return np.dtype(helper.tensor_dtype_to_np_dtype(self.elem_type))


@dataclass(frozen=True)
class Source:
    """``path`` is the whole model, ``stored`` what is looked at."""

    label: str
    path: Path
    stored: StoredModel

    @property
    def proto(self) -> ModelProto:
        """The skeleton: large tensors are marked, and found through ``stored.weights``."""
        return self.stored.proto

    @property
    def nbytes(self) -> int:
        """Size of the model, external data included."""
        return self.path.stat().st_size + sum(file.nbytes for file in self.stored.weights.sources.values())

    def inline(self, node_or_tensor: M) -> M:
        """A copy that holds all of its data."""
        copy: M = type(node_or_tensor)()
        copy.CopyFrom(node_or_tensor)
        inside = [*_attribute_tensors(cast("NodeProto", copy))] if isinstance(copy, NodeProto) else [copy]
        for tensor in inside:
            payload = self.stored.weights.payload(tensor)
            if payload is not None:
                self.stored.weights.detach(tensor)
                tensor.raw_data = b"".join(payload.chunks())
        return copy


def open_model(model: str | Path | ModelProto, label: str, folder: Path) -> Source:
    """Take a path as it is; write a model in memory to ``folder``. Raises ModelError for what is no model."""
    if not isinstance(model, ModelProto):
        return Source(label, Path(model), storage.load(model))
    stored = storage.from_proto(model)
    path = folder / f"{label}.onnx"
    with path.open("wb") as file:
        file.writelines(stored.source.chunks())
    return Source(label, path, stored)


def variant(source: Source, proto: ModelProto, path: Path) -> Source:
    """The model with another graph, written to ``path``; its weights are streamed from where they are."""
    stored = replace(source.stored, proto=proto)
    storage.save(stored, path, digest=False)
    return Source(source.label, path, stored)


def write_part(model: ModelProto, label: str, path: Path) -> Source:
    """Write a model that holds its own data, a part of a larger one, to ``path``."""
    path.write_bytes(model.SerializeToString())
    return Source(label, path, storage.from_proto(model))


def _attribute_tensors(node: NodeProto) -> Iterator[TensorProto]:
    for inner in all_nodes([node]):
        for attribute in inner.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from attribute.g.initializer


def input_specs(graph: GraphProto) -> tuple[list[InputSpec], list[str]]:
    """The inputs without an initializer; and the names of those that are no tensors."""
    given = {tensor.name for tensor in graph.initializer}
    given.update(sparse.values.name for sparse in graph.sparse_initializer)
    specs, others = [], []
    for value in graph.input:
        if value.name in given:
            continue
        if value.type.HasField("tensor_type") and value.type.tensor_type.elem_type:
            specs.append(InputSpec(value.name, value.type.tensor_type.elem_type, dims_of(value.type)))
        else:
            others.append(value.name)
    return specs, others


def dims_of(type_proto: onnx.TypeProto) -> tuple[Dim, ...] | None:
    """The dimensions a type declares. -1 is how some exporters say that a dimension is free."""
    tensor = type_proto.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(
        d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or None
        for d in tensor.shape.dim
    )


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The bodies a node holds, by attribute; the members of a list as ``name[i]``."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for i, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{i}]", graph


def all_nodes(nodes: Sequence[NodeProto]) -> Iterator[NodeProto]:
    """The nodes and those of their bodies."""
    for node in nodes:
        yield node
        for _, graph in subgraphs(node):
            yield from all_nodes(graph.node)


def standard_nodes(model: ModelProto) -> Iterator[tuple[int, NodeProto]]:
    """Every node of ONNX's own domain, those in bodies and functions included, with its opset."""
    for imports, nodes in (
        (model.opset_import, model.graph.node),
        *((function.opset_import, function.node) for function in model.functions),
    ):
        opset = max((o.version for o in imports if o.domain in STANDARD), default=1)
        for node in all_nodes(nodes):
            if node.domain in STANDARD:
                yield opset, node


def all_graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph and the bodies in it."""
    yield graph
    for node in graph.node:
        for _, body in subgraphs(node):
            yield from all_graphs(body)


def weight_tolerance(model: ModelProto) -> float:
    """The tolerance of the coarsest floating-point type that weights, or values on their way, pass through.

    A Cast whose result is a graph output does not count: there the output's own type does.
    """
    outputs = {value.name for value in model.graph.output}
    types = {tensor.data_type for graph in all_graphs(model.graph) for tensor in graph.initializer}
    bodies = [model.graph.node, *(f.node for f in model.functions if f.domain != "fuser")]
    for node in (node for body in bodies for node in all_nodes(body)):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                types.add(attribute.t.data_type)
            elif node.op_type == "Cast" and attribute.name == "to" and node.output[0] not in outputs:
                types.add(attribute.i)
    known = [TOLERANCES[_FLOATS[elem_type]] for elem_type in types if elem_type in _FLOATS]
    if not known:
        declared = {value.type.tensor_type.elem_type for value in model.graph.input}
        known = [TOLERANCES[_FLOATS[elem_type]] for elem_type in declared if elem_type in _FLOATS]
    return max(known, default=TOLERANCES["float32"])


def interface_difference(a: ModelProto, b: ModelProto, *, freeze_inputs: bool) -> str:
    """How B's inputs and outputs differ from A's for who calls it; "" when they don't.

    ``freeze_inputs``: nobody overrides an initializer, so B need not take it.
    """
    wanted, got = {v.name: v for v in a.graph.input}, {v.name: v for v in b.graph.input}
    required_a = [s.name for s in input_specs(a.graph)[0]] + input_specs(a.graph)[1]
    required_b = [s.name for s in input_specs(b.graph)[0]] + input_specs(b.graph)[1]
    if sorted(required_a) != sorted(required_b):
        return f"A takes the inputs {_list(required_a)}, B takes {_list(required_b)}"
    # Before IR version 4 an initializer could not be overridden by the caller.
    lost = [] if freeze_inputs or a.ir_version < 4 else [name for name in wanted if name not in got]
    if lost:
        return (
            f"callers of A may override {_list(lost)}, which B does not take; "
            "if none does, say so with --freeze-inputs"
        )
    for name in required_a:
        types = wanted[name].type, got[name].type
        if _conflict(types[0], types[1]):
            return f"input {name!r} is {_type(types[0])} in A and {_type(types[1])} in B"
    names_a, names_b = [v.name for v in a.graph.output], [v.name for v in b.graph.output]
    if names_a != names_b:
        return f"A gives the outputs {_list(names_a)}, B gives {_list(names_b)}"
    for one, other in zip(a.graph.output, b.graph.output, strict=True):
        elem_types = one.type.tensor_type.elem_type, other.type.tensor_type.elem_type
        if all(elem_types) and elem_types[0] != elem_types[1]:
            return f"output {one.name!r} is {_type(one.type)} in A and {_type(other.type)} in B"
    return ""


def overridable(source: Source) -> Mapping[str, Array]:
    """Floating-point initializers a caller may override, by name, with their default values."""
    if source.proto.ir_version < 4:
        return {}
    declared = {value.name for value in source.proto.graph.input}
    return {
        tensor.name: source.stored.weights.read(tensor)
        for tensor in source.proto.graph.initializer
        if tensor.name in declared and tensor.data_type in _FLOATS
    }


def _conflict(a: onnx.TypeProto, b: onnx.TypeProto) -> bool:
    if a.WhichOneof("value") != b.WhichOneof("value"):
        return True
    if a.tensor_type.elem_type != b.tensor_type.elem_type:
        return True
    dims_a, dims_b = dims_of(a), dims_of(b)
    if dims_a is None or dims_b is None:
        return False
    fixed = [
        (x, y) for x, y in zip(dims_a, dims_b, strict=False) if isinstance(x, int) and isinstance(y, int)
    ]
    return len(dims_a) != len(dims_b) or any(x != y for x, y in fixed)


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8]) or "none"
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"


def _type(type_proto: onnx.TypeProto) -> str:
    kind = type_proto.WhichOneof("value")
    if kind != "tensor_type":
        return kind or "of no type"
    name = TensorProto.DataType.Name(type_proto.tensor_type.elem_type).lower()
    dims = dims_of(type_proto)
    return name if dims is None else f"{name}[{','.join('?' if d is None else str(d) for d in dims)}]"
