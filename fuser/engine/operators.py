"""The ONNX operators that rules compute with, on constants: floats in float64, integers in their own type.

Each function takes the inputs (None where absent) and the attributes' Python values, and gives one array. ``Undecided``
says why it can't be computed, as the end of a sentence. Formulas: the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Attributes = Mapping[str, Any]
Operator = Callable[[Sequence[Any], Attributes], Array]


class Undecided(Exception):  # noqa: N818  (a fact about the model, not an error)
    """The value depends on something that is not known."""


def _ints(values: Any, what: str) -> list[int]:
    """A list of whole numbers; dims that are not known are NaN."""
    array = np.asarray(values)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise Undecided(f"the {what} depends on a dimension that is not known")
    return [int(v) for v in array.reshape(-1)]


def _reshape(i: Sequence[Any], a: Attributes) -> Array:
    x = i[0]
    shape = _ints(i[1], "shape")
    if not a.get("allowzero"):
        shape = [x.shape[k] if d == 0 else d for k, d in enumerate(shape)]
    return np.reshape(x, shape)


def _axes(i: Sequence[Any], a: Attributes, at: int = 1) -> list[int] | None:
    """The axes: an input from opset 13 or 18 on, an attribute before."""
    given = i[at] if len(i) > at and i[at] is not None else a.get("axes")
    return None if given is None else _ints(given, "axes")


def _unsqueeze(i: Sequence[Any], a: Attributes) -> Array:
    return np.expand_dims(i[0], tuple(_axes(i, a) or ()))


def _squeeze(i: Sequence[Any], a: Attributes) -> Array:
    axes = _axes(i, a)
    return np.asarray(np.squeeze(i[0], None if axes is None else tuple(axes)))


def _flatten(i: Sequence[Any], a: Attributes) -> Array:
    axis = a.get("axis", 1)
    axis += i[0].ndim if axis < 0 else 0
    return np.reshape(i[0], (int(np.prod(i[0].shape[:axis])), -1))


def _divide(i: Sequence[Any], a: Attributes) -> Array:
    x, y = np.asarray(i[0]), np.asarray(i[1])
    if x.dtype.kind in "iu" and y.dtype.kind in "iu":
        if not y.all():
            raise Undecided("it divides by zero")
        return np.asarray(np.trunc(x / y)).astype(x.dtype)
    return np.asarray(x / y)


def _reduce(function: Callable[..., Any]) -> Operator:
    def run(i: Sequence[Any], a: Attributes) -> Array:
        axes = _axes(i, a)
        if not axes:
            if a.get("noop_with_empty_axes"):
                return np.asarray(i[0])
            axes = list(range(np.ndim(i[0])))
        return np.asarray(function(i[0], axis=tuple(axes), keepdims=bool(a.get("keepdims", 1))))

    return run


def _l2(x: Array, **k: Any) -> Array:
    return np.asarray(np.sqrt(np.sum(np.square(x), **k)))


def _constant_of_shape(i: Sequence[Any], a: Attributes) -> Array:
    value = a.get("value")
    fill = np.zeros(1, np.float64) if value is None else value
    return np.full(_ints(i[0], "shape"), fill.reshape(-1)[0], fill.dtype)


def _expand(i: Sequence[Any], a: Attributes) -> Array:
    shape = _ints(i[1], "shape")
    return np.broadcast_to(i[0], np.broadcast_shapes(np.shape(i[0]), tuple(shape)))


def _scatter_elements(i: Sequence[Any], a: Attributes) -> Array:
    out = np.array(i[0], copy=True)
    if np.asarray(i[2]).dtype.kind == "f" and out.dtype.kind != "f":
        out = out.astype(np.float64)  # dims that are not known are NaN
    np.put_along_axis(out, np.asarray(i[1]), i[2], a.get("axis", 0))
    return out


def _slice(i: Sequence[Any], a: Attributes) -> Array:
    starts, ends = (_ints(i[k] if len(i) > k else a[n], n) for k, n in ((1, "starts"), (2, "ends")))
    axes = _axes(i, a, 3)
    steps = _ints(i[4], "steps") if len(i) > 4 and i[4] is not None else [1] * len(starts)
    index: list[Any] = [slice(None)] * np.ndim(i[0])
    for k, (b, e, s) in enumerate(zip(starts, ends, steps, strict=True)):
        index[axes[k] if axes else k] = slice(b, e, s)
    return np.asarray(i[0][tuple(index)])


def _clip(i: Sequence[Any], a: Attributes) -> Array:
    low = i[1] if len(i) > 1 and i[1] is not None else a.get("min", -np.inf)
    high = i[2] if len(i) > 2 and i[2] is not None else a.get("max", np.inf)
    return np.asarray(np.clip(i[0], low, high))


def _power(i: Sequence[Any], a: Attributes) -> Array:
    return np.asarray(np.power(np.asarray(i[0]), i[1]))


def _binary(function: Callable[[Any, Any], Any]) -> Operator:
    return lambda i, a: np.asarray(function(i[0], i[1]))


def _unary(function: Callable[[Any], Any]) -> Operator:
    return lambda i, a: np.asarray(function(i[0]))


def _fold(function: Callable[[Any, Any], Any]) -> Operator:
    def run(i: Sequence[Any], a: Attributes) -> Array:
        out = i[0]
        for other in i[1:]:
            out = function(out, other)
        return np.asarray(out)

    return run


OPERATORS: Mapping[str, Operator] = {
    "Abs": _unary(np.abs),
    "Add": _binary(np.add),
    "And": _binary(np.logical_and),
    "Clip": _clip,
    "Concat": lambda i, a: np.concatenate(i, a["axis"]),
    "ConstantOfShape": _constant_of_shape,
    "Div": _divide,
    "Equal": _binary(np.equal),
    "Exp": _unary(np.exp),
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": lambda i, a: np.asarray(np.take(i[0], np.asarray(i[1]), a.get("axis", 0))),
    "Greater": _binary(np.greater),
    "GreaterOrEqual": _binary(np.greater_equal),
    "Identity": lambda i, a: np.asarray(i[0]),
    "Less": _binary(np.less),
    "LessOrEqual": _binary(np.less_equal),
    "MatMul": _binary(np.matmul),
    "Max": _fold(np.maximum),
    "Min": _fold(np.minimum),
    "Mul": _binary(np.multiply),
    "Neg": _unary(np.negative),
    "Not": _unary(np.logical_not),
    "Or": _binary(np.logical_or),
    "Pow": _power,
    "Range": lambda i, a: np.arange(*(np.asarray(v).item() for v in i)),
    "Reciprocal": _unary(np.reciprocal),
    "ReduceL2": _reduce(_l2),
    "ReduceMax": _reduce(np.max),
    "ReduceMean": _reduce(np.mean),
    "ReduceMin": _reduce(np.min),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "Reshape": _reshape,
    "Round": _unary(np.rint),
    "ScatterElements": _scatter_elements,
    "Shape": lambda i, a: np.asarray(np.shape(i[0])[slice(a.get("start", 0), a.get("end"))], np.int64),
    "Sign": _unary(np.sign),
    "Size": lambda i, a: np.asarray(i[0].size, np.int64),
    "Slice": _slice,
    "Sqrt": _unary(np.sqrt),
    "Squeeze": _squeeze,
    "Sub": _binary(np.subtract),
    "Transpose": lambda i, a: np.transpose(i[0], a.get("perm")),
    "Unsqueeze": _unsqueeze,
    "Where": lambda i, a: np.asarray(np.where(i[0], i[1], i[2])),
}
