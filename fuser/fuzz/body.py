"""The body of a drawn model: nodes, their weights, and the value that the next node reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from fuser.fuzz.choices import Choices

Shape = tuple[int, ...]


@dataclass
class Body:
    """What has been drawn so far. ``value`` of ``shape`` and ``dtype`` is the end of the line."""

    choices: Choices
    opset: int
    dtype: int
    shape: Shape
    value: str = "x"
    nodes: list[NodeProto] = field(default_factory=list)
    weights: dict[str, TensorProto] = field(default_factory=dict)
    seen: list[tuple[str, Shape, int]] = field(default_factory=list)
    named: str = "label"
    constants: tuple[str, ...] = ("initializer",)
    fixed_batch: bool = False
    quantized: bool = False
    start: tuple[Shape, int] = ((), 0)

    def __post_init__(self) -> None:
        self.start = self.shape, self.dtype

    def op(
        self,
        op_type: str,
        inputs: Sequence[str],
        shape: Shape | None = None,
        *,
        outputs: int = 1,
        **attributes: Any,
    ) -> str:
        """Append a node and give its first output; with a shape it becomes the end of the line."""
        k = len(self.nodes)
        names = [f"v{k}" if i == 0 else f"v{k}_{i}" for i in range(outputs)]
        label = {"label": f"{op_type.lower()}{k}", "none": "", "same": "node"}[self.named]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, name=label, **attributes))
        if shape is not None:
            self.become(names[0], shape)
        return names[0]

    def become(self, value: str, shape: Shape, dtype: int | None = None) -> None:
        """The value is the end of the line from now on."""
        self.value, self.shape = value, shape
        self.dtype = self.dtype if dtype is None else dtype
        self.seen.append((value, shape, self.dtype))

    def constant(self, values: ArrayLike, dtype: int | None = None, *, share: bool = False) -> str:
        """A constant of the line's type, kept or computed in one of the ways that models do it.

        It may be another's of its shape where any values do: ``share``, or more than one dim.
        """
        kind = self.dtype if dtype is None else dtype
        array = np.asarray(values).astype(helper.tensor_dtype_to_np_dtype(kind))
        other = next(
            (n for n, t in self.weights.items() if t.data_type == kind and tuple(t.dims) == array.shape), ""
        )
        if other and (share or array.ndim > 1) and self.choices.once_in(8):
            return other
        how = self.choices.pick(self.constants) if self.opset >= 9 else "initializer"
        return self._computed(array, kind, how) or self._initializer(array)

    def _computed(self, array: NDArray[Any], kind: int, how: str) -> str:
        """The constant as nodes; "" where it can't be written so."""
        floats = kind in (TensorProto.FLOAT, TensorProto.FLOAT16)
        held = self._initializer
        if how == "node":
            return self.op("Constant", [], value=numpy_helper.from_array(array))
        if how == "identity":
            return self.op("Identity", [held(array)])
        if how == "cast" and floats:
            return self.op("Cast", [held(array.astype(np.float16))], to=kind)
        if how == "like" and floats and kind == self.dtype and self.opset >= 15:
            return self.op("CastLike", [held(array.astype(np.float32)), self.value])
        if how == "reshape" and array.ndim:
            return self.op("Reshape", [held(array.reshape(-1)), held(np.asarray(array.shape, np.int64))])
        if how == "transpose" and array.ndim > 1:
            return self.op("Transpose", [held(np.ascontiguousarray(array.T))])
        if how == "halved" and floats:
            two = held(np.asarray(2, array.dtype))
            return self.op(
                "Div", [self.op("Mul", [held(array), two]), self.op("Sqrt", [self.op("Mul", [two, two])])]
            )
        if how == "product" and floats and array.ndim == 2:
            return self.op("MatMul", [held(array), held(np.eye(array.shape[1], dtype=array.dtype))])
        if how == "expand" and array.size and (array == array.flat[0]).all():
            return self.op(
                "Expand", [held(np.asarray(array.flat[0])), held(np.asarray(array.shape, np.int64))]
            )
        return ""

    def _initializer(self, array: NDArray[Any]) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = numpy_helper.from_array(array, name)
        return name

    def axes(self, op_type: str, axes: Sequence[int], shape: Shape) -> str:
        """Squeeze or Unsqueeze, whose axes became an input at opset 13."""
        if self.opset < 13:
            return self.op(op_type, [self.value], shape, axes=list(axes))
        return self.op(op_type, [self.value, self._initializer(np.asarray(axes, np.int64))], shape)
