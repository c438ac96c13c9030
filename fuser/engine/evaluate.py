"""Arithmetic on constants, one operator at a time: in float64, large tensors deferred, nothing rounded in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from fuser.engine.constant import FLOATS, INTEGERS, UNTYPED, Const
from fuser.engine.deferred import Deferred
from fuser.engine.operators import OPERATORS, Undecided

RESHAPES = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": np.add,
    "Div": np.divide,
    "Mul": np.multiply,
    "Sub": np.subtract,
}
OF_FIRST_INPUT = RESHAPES | {"Expand", "Gather", "ScatterElements", "Slice", "Transpose"}
COMPARISONS = frozenset({"And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or"})
LARGEST_GROWTH = 1 << 24
"""Weight-side arithmetic may not make a tensor of more elements than this out of smaller ones."""


def python_value(attribute: AttributeProto) -> Any:
    """The attribute's value as Python and numpy know it."""
    value = helper.get_attribute_value(attribute)
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return list(value) if attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS) else value


def constant_node(attributes: Mapping[str, Any]) -> Const:
    """What a Constant node with these attributes holds."""
    for name, value in attributes.items():
        if name.startswith("value_float"):
            return Const(np.asarray(value, np.float64), TensorProto.FLOAT)
        if name.startswith("value_int"):
            return Const(np.asarray([] if value is None else value, np.int64), TensorProto.INT64)
        if name == "value":
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            return Const(value.astype(np.float64) if kind in FLOATS else value, kind)
    raise Undecided("it is a Constant of a kind that the pattern's arithmetic does not cover")


def evaluate(op_type: str, inputs: Sequence[Const | None], attributes: Mapping[str, Any]) -> Const:
    """The operator's first output for constant inputs.

    Raises:
        Undecided: the operator is not one that rules compute with, or its result can't be known.
    """
    if op_type == "Constant":
        return constant_node(attributes)
    if op_type in ("Cast", "CastLike"):
        like = inputs[1] if op_type == "CastLike" else None
        return _cast(_given(inputs[0]), like.dtype if like is not None else int(attributes["to"]))
    if op_type == "Shape":
        part = slice(attributes.get("start", 0), attributes.get("end"))
        return Const(np.asarray(_given(inputs[0]).shape[part], np.int64), TensorProto.INT64)
    function = OPERATORS.get(op_type)
    if function is None:
        raise Undecided(f"constants are not computed through {op_type}")
    dtype, source = result_type(
        op_type, [None if c is None else (c.dtype, c.source) for c in inputs], attributes
    )
    if any(c is not None and isinstance(c.data, Deferred) for c in inputs):
        deferred = _deferred(op_type, inputs, attributes)
        if deferred is not None:
            return Const(deferred, dtype, source)
    arrays = [None if c is None else c.array() for c in inputs]
    if op_type in ("Expand", "ConstantOfShape"):
        _check_growth(arrays[-1])
    with np.errstate(all="ignore"):
        try:
            out = function(arrays, attributes)
        except (ValueError, IndexError, TypeError) as e:
            raise Undecided(f"{op_type} can't be computed: {e}") from None
    if dtype == UNTYPED or dtype in FLOATS:
        out = np.asarray(out, np.float64)
    elif out.dtype.kind == "f" and not np.isnan(out).any():
        out = out.astype(np.int64)
    return Const(out, dtype, source)


def _given(const: Const | None) -> Const:
    if const is None:
        raise Undecided("an input is absent")
    return const


def result_type(
    op_type: str, inputs: Sequence[tuple[int, str | None] | None], attributes: Mapping[str, Any]
) -> tuple[int, str | None]:
    """The result's element type and where it comes from, given those of the inputs.

    The type is that of the first operand that has one.
    """
    if op_type in COMPARISONS:
        return TensorProto.BOOL, ""
    if op_type in ("Shape", "Size"):
        return TensorProto.INT64, ""
    if op_type in ("Cast", "CastLike"):
        to = int(attributes["to"]) if op_type == "Cast" else (inputs[1] or (UNTYPED, ""))[0]
        was, source = inputs[0] or (UNTYPED, "")
        return to, source if (was in INTEGERS) == (to in INTEGERS) else ""
    if op_type == "ConstantOfShape":
        value = attributes.get("value")
        return (TensorProto.FLOAT if value is None else helper.np_dtype_to_tensor_dtype(value.dtype)), ""
    if op_type == "Where":
        inputs = inputs[1:]
    elif op_type in OF_FIRST_INPUT or op_type.startswith("Reduce"):
        inputs = inputs[:1]
    operands = [i for i in inputs if i is not None]
    dtype = next((d for d, _ in operands if d != UNTYPED), UNTYPED)
    if op_type in ("Mul", "Div") and any(source is None for _, source in operands):
        return dtype, None
    return dtype, next((source for _, source in operands if source), "")


def _check_growth(shape: Any) -> None:
    if not np.isnan(np.asarray(shape, np.float64)).any() and prod(int(d) for d in shape) > LARGEST_GROWTH:
        raise Undecided(f"it would make a constant of more than {LARGEST_GROWTH} elements")


def _deferred(op_type: str, inputs: Sequence[Const | None], attributes: Mapping[str, Any]) -> Deferred | None:
    """The operator on a deferred tensor without computing it; None where it has to be computed."""
    big = next(k for k, c in enumerate(inputs) if c is not None and isinstance(c.data, Deferred))
    data = _given(inputs[big]).data
    assert isinstance(data, Deferred)
    if op_type in RESHAPES and big == 0:
        shadow = np.broadcast_to(np.zeros(()), data.shape)
        rest = [None if c is None else c.array() for c in inputs[1:]]
        return data.reshape(OPERATORS[op_type]([shadow, *rest], attributes).shape)
    if op_type in ARITHMETIC and len(inputs) == 2:
        other = _given(inputs[1 - big])
        if isinstance(other.data, Deferred) or np.broadcast_shapes(other.shape, data.shape) != data.shape:
            return None
        return data.combine(ARITHMETIC[op_type], other.data.astype(np.float64), swapped=big == 1)
    return None


@cache
def _rounder(dtype: int) -> Callable[[Any, Any], Any]:
    to = helper.tensor_dtype_to_np_dtype(dtype)
    return lambda x, _: x.astype(to).astype(np.float64)


def _cast(x: Const, to: int) -> Const:
    """The constant in another type: floats rounded to it, as the operator says."""
    if to in (x.dtype, UNTYPED):
        return Const(x.data, to, x.source)
    if to in FLOATS and x.is_float:
        if to == TensorProto.DOUBLE or (
            to == TensorProto.FLOAT and x.dtype in (TensorProto.FLOAT16, TensorProto.BFLOAT16)
        ):
            return Const(x.data, to, x.source)  # every value of the narrower type is one of the wider
        if isinstance(x.data, Deferred):
            return Const(x.data.combine(_rounder(to), np.zeros(1)), to, x.source)
        with np.errstate(all="ignore"):
            return Const(_rounder(to)(x.data, None), to, x.source)
    array = x.array()
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise Undecided("it depends on a dimension that is not known")
    with np.errstate(all="ignore"):
        cast = array.astype(helper.tensor_dtype_to_np_dtype(to))
    if to in FLOATS:
        return Const(cast.astype(np.float64), to)
    return Const(cast, to, "" if x.is_float else x.source)
