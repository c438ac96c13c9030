"""Graph inputs as ATC sees them, and the options that give it the sizes the model leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx import TensorProto

from fuser.targets.atc.facts import INPUT_DTYPES
from fuser.targets.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from onnx import GraphProto, TypeProto

Dim = int | str | None  # a size, a symbol, or nothing said


@dataclass(frozen=True)
class Input:
    """A value the caller provides. ``dims`` is None where the model says no rank."""

    name: str
    dtype: int
    dims: tuple[Dim, ...] | None

    @property
    def open_axes(self) -> tuple[int, ...]:
        """The axes whose size the model leaves open."""
        return tuple(i for i, dim in enumerate(self.dims or ()) if not isinstance(dim, int) or dim < 0)

    @property
    def is_open(self) -> bool:
        """Whether ATC must be told this input's shape."""
        return self.dims is None or bool(self.open_axes)


@dataclass(frozen=True)
class ShapeAdvice:
    """Options for open sizes: one shape, or several profiles. Both may hold <placeholders>."""

    fixed: str
    dynamic: str


def graph_inputs(graph: GraphProto) -> tuple[Input, ...]:
    """Inputs of a graph without those that are initializers, which ATC takes for constants."""
    constants = {tensor.name for tensor in graph.initializer}
    return tuple(
        Input(value.name, value.type.tensor_type.elem_type, _dims(value.type.tensor_type))
        for value in graph.input
        if value.name not in constants
    )


def _dims(tensor_type: TypeProto.Tensor) -> tuple[Dim, ...] | None:
    if not tensor_type.HasField("shape"):
        return None
    return tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor_type.shape.dim
    )


def shape_advice(inputs: Sequence[Input]) -> ShapeAdvice | None:
    """What to pass to atc for the open sizes, or None where every size is given.

    An open first axis is the batch: 1 when fixed, profiles 1 to 8 when dynamic. Sizes nobody can guess are
    placeholders like ``<H>``.
    """
    if not any(item.is_open for item in inputs):
        return None
    fixed = _input_shape(inputs, lambda item, axis: "1" if axis == 0 else f"<{_symbol(item, axis)}>")
    moving = _input_shape(inputs, lambda _item, _axis: "-1")
    if any(item.dims is None for item in inputs):
        return ShapeAdvice(fixed, moving)
    axes = {axis for item in inputs for axis in item.open_axes}
    images = [item for item in inputs if item.open_axes]
    if axes == {0}:
        return ShapeAdvice(fixed, f'{moving} --dynamic_batch_size="1,2,4,8"')
    if axes == {2, 3} and all(len(item.dims or ()) == 4 for item in images):
        return ShapeAdvice(fixed, f'{moving} --dynamic_image_size="<H1>,<W1>;<H2>,<W2>"')
    width = sum(len(item.open_axes) for item in inputs)
    profiles = ";".join(",".join(f"<p{p}.{i + 1}>" for i in range(width)) for p in (1, 2))
    return ShapeAdvice(fixed, f'--input_format=ND {moving} --dynamic_dims="{profiles}"')


def input_shape(inputs: Sequence[Input], given: Mapping[str, Sequence[int]]) -> str | None:
    """The value of --input_shape; None where the model's sizes are not open and no others are given."""
    if not given and not any(item.is_open for item in inputs):
        return None
    shapes = {item.name: given.get(item.name, item.dims or ()) for item in inputs}
    return ";".join(f"{name}:{','.join(map(str, dims))}" for name, dims in shapes.items())


def _symbol(item: Input, axis: int) -> str:
    dim = (item.dims or ())[axis]
    return dim if isinstance(dim, str) and dim else f"{item.name}.{axis}"


def _input_shape(inputs: Sequence[Input], size: Callable[[Input, int], str]) -> str:
    parts = []
    for item in inputs:
        if item.dims is None:
            parts.append(f"{item.name}:<shape>")
            continue
        open_axes = set(item.open_axes)
        dims = [size(item, i) if i in open_axes else str(d) for i, d in enumerate(item.dims)]
        parts.append(f"{item.name}:{','.join(dims)}")
    return f'--input_shape="{";".join(parts)}"'


def check_inputs(graph: GraphProto) -> Iterator[Finding]:
    """No inputs, sizes of zero, element types ATC does not take, open sizes and what gives them."""
    if not graph.input:
        yield Finding("E16001", "error", "", "the graph has no input", "keep at least one input", "no-input")
    inputs = graph_inputs(graph)
    for item in inputs:
        if 0 in (item.dims or ()):
            message = f"input {item.name!r} has the shape {list(item.dims or ())}; ATC takes no size of 0"
            yield Finding(None, "error", item.name, message, "export with the real size", "zero-dim")
        if item.dtype not in INPUT_DTYPES:
            known = item.dtype in TensorProto.DataType.values()
            dtype = TensorProto.DataType.Name(item.dtype) if known else str(item.dtype)
            message = f"input {item.name!r} is {dtype}; ATC documents FLOAT, FLOAT16 and, with AIPP, UINT8"
            yield Finding(None, "warning", item.name, message, "export with a float input", "input-dtype")
    advice = shape_advice(inputs)
    if advice is not None:
        names = ", ".join(item.name for item in inputs if item.is_open)
        yield Finding(
            "E10001",
            "warning",
            "",
            f"the model leaves sizes of {names} open, and ATC compiles for sizes that are given",
            f"pass {advice.fixed}, or {advice.dynamic}",
            "open-dims",
        )
