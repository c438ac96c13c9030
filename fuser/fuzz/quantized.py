"""Quantized models: what dequantizes a weight or a bias, and the pairs that round what runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fuser.fuzz.body import Body

FLOAT = TensorProto.FLOAT


def can_be_quantized(body: Body) -> bool:
    """Whether the operators for it are there: one scale from opset 10 on, one per channel from 13 on."""
    return body.opset >= 10 and body.dtype == FLOAT


def weight(body: Body, values: NDArray[Any], axis: int) -> str:
    """The weight as int8 and DequantizeLinear, or rounded by a pair; one scale for all or one per index of the axis."""
    c = body.choices
    per_channel = body.opset >= 13 and c.once_in(2)
    others = tuple(k for k in range(values.ndim) if k != axis)
    largest = np.maximum(np.abs(values).max(axis=others if per_channel else None), 1e-3)
    attributes: dict[str, Any] = {"axis": axis} if per_channel else {}
    scale = body.constant(largest / 127, FLOAT)
    zero = c.pick(("absent", "zeros", "drawn"))
    if c.once_in(3):  # training leaves the weight a float
        extra = [body.constant(np.zeros(np.shape(largest)), TensorProto.INT8)] if zero != "absent" else []
        zeros = extra or [body.constant(np.zeros(np.shape(largest)), TensorProto.INT8)]
        rounded = body.op("QuantizeLinear", [body.constant(values, FLOAT), scale, *zeros], **attributes)
        return body.op("DequantizeLinear", [rounded, scale, *zeros], **attributes)
    form = [-1 if per_channel and k == axis else 1 for k in range(values.ndim)]
    whole = np.clip(np.rint(values / (largest.reshape(form) if per_channel else largest) * 100), -127, 127)
    extra = []
    if zero != "absent":
        offset = (
            np.rint(c.array(np.shape(largest), -20, 20)) if zero == "drawn" else np.zeros(np.shape(largest))
        )
        extra = [body.constant(offset, TensorProto.INT8)]
    return body.op("DequantizeLinear", [body.constant(whole, TensorProto.INT8), scale, *extra], **attributes)


def bias(body: Body, values: NDArray[Any]) -> str:
    """The bias as int32 and DequantizeLinear, as quantizers write it."""
    scale = body.constant(np.asarray(0.01), FLOAT)
    return body.op("DequantizeLinear", [body.constant(np.rint(values * 100), TensorProto.INT32), scale])


def pair(body: Body) -> None:
    """QuantizeLinear and DequantizeLinear of what runs."""
    kind = body.choices.pick((TensorProto.INT8, TensorProto.UINT8))
    scale = body.constant(np.asarray(body.choices.pick((0.05, 0.02))), FLOAT)
    zero = body.constant(
        np.asarray(body.choices.pick((0, 3)) + (128 if kind == TensorProto.UINT8 else 0)), kind
    )
    rounded = body.op("QuantizeLinear", [body.value, scale, zero])
    body.op("DequantizeLinear", [rounded, scale, zero], body.shape)
