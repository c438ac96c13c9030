"""A model under check: the file the engines load, and its graph to look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from fuser.errors import ModelError
from fuser.parity.compare import TOLERANCES

Dim = int | str | None  # fixed, a symbol, or anonymous
Array = np.ndarray[Any, np.dtype[Any]]

_FLOATS = {
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
    """``proto`` holds no external data; ``path`` is the whole model."""

    label: str
    path: Path
    proto: ModelProto

    @property
    def nbytes(self) -> int:
        """Size of the model, external data included."""
        external = {
            entry.value
            for tensor in self.proto.graph.initializer
            for entry in tensor.external_data
            if entry.key == "location"
        }
        files = [self.path, *(self.path.parent / name for name in external)]
        return sum(file.stat().st_size for file in files if file.exists())

    def values(self, tensor: TensorProto) -> Array:
        """The tensor as an array, read from beside the model if it is external."""
        return numpy_helper.to_array(tensor, str(self.path.parent))

    def inline(self, tensor: TensorProto) -> TensorProto:
        """A copy that holds its own data."""
        copy = TensorProto()
        copy.CopyFrom(tensor)
        if tensor.data_location == TensorProto.EXTERNAL:
            onnx.external_data_helper.load_external_data_for_tensor(copy, str(self.path.parent))
            copy.data_location = TensorProto.DEFAULT
            del copy.external_data[:]
        return copy


def open_model(model: str | Path | ModelProto, label: str, folder: Path) -> Source:
    """Take a path as it is; write a model in memory to ``folder``. Raises ModelError when it can't be read."""
    if isinstance(model, ModelProto):
        path = folder / f"{label}.onnx"
        save(model, path)
        return Source(label, path, model)
    path = Path(model)
    try:
        proto = onnx.load(path, load_external_data=False)
    except FileNotFoundError:
        raise ModelError(f"{path} does not exist: check the path") from None
    except OSError as error:
        raise ModelError(f"{path} can't be read: {error.strerror}") from None
    except DecodeError:
        raise ModelError(f"{path} is no ONNX model, or only a part of one: export or copy it again") from None
    if not proto.HasField("graph"):
        raise ModelError(f"{path} holds no graph: give an ONNX model")
    return Source(label, path, proto)


def save(model: ModelProto, path: Path) -> None:
    """Write ``model`` without changing it; weights go to a file beside it where it would pass protobuf's 2 GiB."""
    if model.ByteSize() < onnx.checker.MAXIMUM_PROTOBUF:
        path.write_bytes(model.SerializeToString())
        return
    copy = ModelProto()
    copy.CopyFrom(model)
    onnx.save(copy, path, save_as_external_data=True, location=f"{path.name}.data")


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


def all_graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph and the bodies in it."""
    yield graph
    for node in graph.node:
        for _, body in subgraphs(node):
            yield from all_graphs(body)


def base_tolerance(model: ModelProto) -> float:
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


def interface_difference(a: ModelProto, b: ModelProto) -> str:
    """How B's inputs and outputs differ from A's for who calls it; "" when they don't."""
    wanted, got = {v.name: v for v in a.graph.input}, {v.name: v for v in b.graph.input}
    required_a = [s.name for s in input_specs(a.graph)[0]] + input_specs(a.graph)[1]
    required_b = [s.name for s in input_specs(b.graph)[0]] + input_specs(b.graph)[1]
    if sorted(required_a) != sorted(required_b):
        return f"A takes the inputs {_list(required_a)}, B takes {_list(required_b)}"
    # Before IR version 4 an initializer could not be overridden by the caller.
    lost = [name for name in wanted if name not in got] if a.ir_version >= 4 else []
    if lost:
        return f"callers of A may override {_list(lost)}, which B does not take"
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
        tensor.name: source.values(tensor)
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
    fixed = [(x, y) for x, y in zip(dims_a, dims_b, strict=False) if isinstance(x, int) and isinstance(y, int)]
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
