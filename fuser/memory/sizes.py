"""Bytes of the values of a model, once its inputs have shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from onnx import GraphProto, ModelProto, TensorProto, TypeProto, helper, inliner, shape_inference

from fuser.engine.context import FUSED
from fuser.parity.shapes import BATCHES, Setting, check_given, resolve
from fuser.parity.source import Dim, InputSpec, input_specs

_BITS: dict[int, int] = {TensorProto.INT4: 4, TensorProto.UINT4: 4, TensorProto.FLOAT4E2M1: 4}
_ITEMS = {
    number: _BITS.get(number, helper.tensor_dtype_to_np_dtype(number).itemsize * 8)
    for number in TensorProto.DataType.values()
    if number not in (TensorProto.UNDEFINED, TensorProto.STRING)
}


def tensor_bytes(elem_type: int, dims: Sequence[int]) -> int | None:
    """Bytes of a tensor, sub-byte types packed; None for strings and types that do not exist."""
    bits = _ITEMS.get(elem_type)
    return None if bits is None else -(-prod(dims) * bits // 8)


def input_shapes(
    model: ModelProto, given: Mapping[str, Sequence[int]]
) -> tuple[dict[str, tuple[int, ...]], str]:
    """A shape for every input: the given ones, a free batch being 1; or the sentence that says which to give.

    Raises:
        ConfigError: a shape is given that an input can't have.
    """
    specs, _ = input_specs(model.graph)
    known = [spec.name for spec in specs]
    given = {name: shape for name, shape in given.items() if name in known}
    check_given(specs, given)
    open_spec = _still_open(specs, given)
    if open_spec is not None:
        name, dims = open_spec.name, open_spec.dims
        is_now = "of no known rank" if dims is None else f"[{', '.join(str(d or '?') for d in dims)}]"
        fixed = ["1", "3", "64", "64"] if dims is None else _example(dims)
        return {}, f"input {name!r} is {is_now}: give its shape, such as --shape {name}:{'x'.join(fixed)}"
    return resolve(specs, given, Setting(BATCHES[0], 1, 4, "small")), ""


def _still_open(specs: Sequence[InputSpec], given: Mapping[str, Sequence[int]]) -> InputSpec | None:
    """An input with a free dim that is no batch and that no given shape settles."""
    ones, twos = (resolve(specs, given, Setting(1, size, 4, "small")) for size in (1, 2))
    for spec in specs:
        if (spec.dims is None and spec.name not in given) or ones[spec.name] != twos[spec.name]:
            return spec
    return None


def _example(dims: Sequence[Dim]) -> list[str]:
    return [str(d) if isinstance(d, int) else "1" if not i else "64" for i, d in enumerate(dims)]


def prepared(model: ModelProto, shapes: Mapping[str, Sequence[int]]) -> ModelProto:
    """A copy with these input shapes, the model's own functions inlined, and the types that onnx infers.

    The fused operators stay what they are. Stale value_info does not count.

    Raises:
        Exception: onnx can't inline the model's functions, or can't read the model.
    """
    local = [(f.domain, f.name) for f in model.functions if f.domain != FUSED]
    copy = ModelProto()
    copy.CopyFrom(inliner.inline_selected_functions(model, local) if local else model)
    del copy.graph.value_info[:]
    for value in copy.graph.input:
        if value.name in shapes:
            dims = value.type.tensor_type.shape.dim
            del dims[:]
            for d in shapes[value.name]:
                dims.add().dim_value = d
    for value in copy.graph.output:
        value.type.tensor_type.ClearField("shape")
    for node in copy.graph.node:
        if node.op_type == "BatchNormalization" and len(node.output) == 1:
            # In training mode onnx wants more outputs, and infers nothing behind one that has none.
            kept = [a for a in node.attribute if a.name != "training_mode"]
            del node.attribute[:]
            node.attribute.extend(kept)
    return shape_inference.infer_shapes(copy, data_prop=True)


def sizes_of(graph: GraphProto) -> dict[str, int | None]:
    """Bytes of the values that the graph itself names; None where the type or a dim is not known."""
    sizes = {t.name: tensor_bytes(t.data_type, t.dims) for t in graph.initializer}
    for values in (graph.value_info, graph.output, graph.input):
        sizes.update((v.name, type_bytes(v.type)) for v in values if v.name not in sizes)
    return sizes


def type_bytes(kind: TypeProto) -> int | None:
    """Bytes of a value of this type, None where a dim is not known or it is no tensor."""
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = [d.dim_value if d.HasField("dim_value") else -1 for d in kind.tensor_type.shape.dim]
    return None if min(dims, default=0) < 0 else tensor_bytes(kind.tensor_type.elem_type, dims)
