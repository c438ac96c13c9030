"""What a drawn line consists of: anchors, affine operators, what may stand between; in right and wrong forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from fuser.fuzz import quantized

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fuser.fuzz.body import Body, Shape

FLOAT, FLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16


# ---- anchors


def conv(body: Body) -> None:
    """Conv over the dims after the channels, in any geometry that leaves something."""
    c, space, d = body.choices, body.shape[2:], len(body.shape) - 2
    channels = body.shape[1]
    group = c.pick([g for g in (1, channels, 2, 3) if channels % g == 0])
    out = group * c.pick((2, 1, 3) if group == 1 else (1, 2))
    kernel = [min(c.pick((3, 1, 2)), s) for s in space]
    attributes: dict[str, Any] = {}
    if group > 1:
        attributes["group"] = group
    if c.once_in(2):
        attributes["kernel_shape"] = kernel
    strides, dilations, pads = [1] * d, [1] * d, [0] * 2 * d
    form = c.pick(("plain", "pads", "pads", "strides", "dilations", "SAME_UPPER", "SAME_LOWER", "VALID"))
    if form == "pads":
        pads = attributes["pads"] = [c.pick((1, 0, 2)) for _ in range(2 * d)]
    elif form == "strides":
        strides = attributes["strides"] = [c.pick((2, 1)) for _ in range(d)]
    elif form == "dilations":
        dilations = attributes["dilations"] = [
            2 if 2 * (k - 1) < s else 1 for k, s in zip(kernel, space, strict=True)
        ]
    elif form != "plain":
        attributes["auto_pad"] = form
    if form.startswith("SAME"):
        shape = space
    else:
        shape = tuple(
            (space[i] + pads[i] + pads[d + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
            for i in range(d)
        )
    inputs = _operands(body, c.array((out, channels // group, *kernel), -1, 1), 0, out)
    body.op("Conv", inputs, (body.shape[0], out, *shape), **attributes)


def conv_transpose(body: Body) -> None:
    """ConvTranspose, whose weight is [C, M/group, …]."""
    c, space, d = body.choices, body.shape[2:], len(body.shape) - 2
    channels = body.shape[1]
    group = c.pick([g for g in (1, channels, 2, 3) if channels % g == 0])
    per_group = c.pick((2, 1, 3, channels // group))
    kernel = [c.pick((2, 1, 3)) for _ in range(d)]
    strides, extra = [1] * d, [0] * d
    attributes: dict[str, Any] = {"group": group} if group > 1 else {}
    if c.once_in(2):
        strides = attributes["strides"] = [c.pick((2, 1)) for _ in range(d)]
        if c.once_in(3):
            extra = attributes["output_padding"] = [s - 1 for s in strides]
    wide = [(s - 1) * stride + k + e for s, stride, k, e in zip(space, strides, kernel, extra, strict=True)]
    pads = [0] * 2 * d
    if c.once_in(3):
        pads = attributes["pads"] = [min(c.pick((1, 0)), (wide[i % d] - 1) // 2) for i in range(2 * d)]
    shape = tuple(w - pads[i] - pads[d + i] for i, w in enumerate(wide))
    out = per_group * group
    inputs = _operands(body, c.array((channels, per_group, *kernel), -1, 1), 1, out)
    body.op("ConvTranspose", inputs, (body.shape[0], out, *shape), **attributes)


def gemm(body: Body) -> None:
    """Gemm with any alpha, beta, transB and C, or MatMul with or without an Add."""
    c, (rows, width) = body.choices, body.shape
    out = c.pick((3, 2, 4, width))
    weight = c.array((width, out), -1, 1)
    form = c.pick(("gemm", "gemm", "gemm", "matmul", "matmul_add"))
    if form != "gemm":
        body.op("MatMul", [body.value, body.constant(weight)], (rows, out))
        if form == "matmul_add":
            body.op("Add", [body.value, body.constant(c.array(c.pick(((out,), (1, out), ()))))], (rows, out))
        return
    attributes: dict[str, Any] = {}
    if c.once_in(2):
        weight, attributes["transB"] = weight.T, 1
    if c.once_in(3):
        attributes["alpha"] = 0.5
    if c.once_in(3):
        attributes["beta"] = c.pick((2.0, 0.0))
    shapes: list[Shape | None] = [(out,), (1, out), (1,), (), (1, 1), (rows, 1), (rows, out)]
    if body.opset >= 11:
        shapes.append(None)
    shape = c.pick(shapes)
    body.fixed_batch |= shape is not None and len(shape) == 2 and shape[0] > 1
    extra = [] if shape is None else [body.constant(c.array(shape))]
    body.op("Gemm", [body.value, body.constant(weight), *extra], (rows, out), **attributes)


def _operands(body: Body, weight: NDArray[Any], axis: int, out: int) -> list[str]:
    """What runs, the weight, in a quantized model behind DequantizeLinear, and the bias."""
    if not body.quantized or not quantized.can_be_quantized(body):
        return [body.value, body.constant(weight), *_bias(body, out)]
    if body.choices.once_in(2):
        quantized.pair(body)
    return [body.value, quantized.weight(body, weight, axis), *_bias(body, out)]


def _bias(body: Body, out: int) -> list[str]:
    kind = body.choices.pick(("absent", "given", "given", "empty", "zeros"))
    if kind == "given":
        values = body.choices.array((out,))
        if body.quantized and quantized.can_be_quantized(body) and body.choices.once_in(2):
            return [quantized.bias(body, values)]
        return [body.constant(values, share=True)]
    if kind == "zeros" and body.opset >= 9:
        zero = numpy_helper.from_array(np.zeros(1, helper.tensor_dtype_to_np_dtype(body.dtype)))
        return [body.op("ConstantOfShape", [body.constant(np.asarray([out]), TensorProto.INT64)], value=zero)]
    return [""] if kind == "empty" else []


# ---- affine operators


def batch_normalization(body: Body) -> None:
    """BatchNormalization with statistics far from the identity; now and then in training."""
    c, channels = body.choices, body.shape[1]
    low, high = c.pick((*((0.3, 2.0),) * 8, *((-2.0, 2.0),) * 8, (0.0, 0.0), (1e-30, 1e-30)))
    scale, shift, mean = c.array((channels,), low, high), c.array((channels,)), c.array((channels,))
    from_float16 = body.dtype == FLOAT16 and c.once_in(3)
    if from_float16:  # as mixed precision is exported: in float32, between two casts
        body.become(body.op("Cast", [body.value], to=FLOAT), body.shape, FLOAT)
    low, high = c.pick(((0.3, 2.0), (0.3, 2.0), (0.0, 0.0)))
    if FLOAT16 in (body.dtype, body.start[1]):
        low, high = 0.3, 2.0  # a variance of 0 takes what follows out of float16's range
    dtype = FLOAT if body.dtype == FLOAT16 and body.opset >= 15 and c.once_in(2) else body.dtype
    values = [body.constant(a, dtype, share=True) for a in (scale, shift)]
    values.append(body.constant(mean, dtype))  # in training onnxruntime writes into it
    values.append(body.constant(c.array((channels,), low, high), dtype))
    attributes: dict[str, Any] = {"epsilon": c.pick((1e-3, 1e-2, 0.5))}
    if c.once_in(4):
        attributes["momentum"] = 0.5
    coarse = (
        body.start[1] == FLOAT16
    )  # the statistics of a few elements that are nearly equal are all rounding
    if body.opset >= 14 and c.once_in(12) and not coarse:
        attributes["training_mode"] = 1
        body.op("BatchNormalization", [body.value, *values], body.shape, outputs=3, **attributes)
        return
    body.op("BatchNormalization", [body.value, *values], body.shape, **attributes)
    if from_float16:
        body.become(body.op("Cast", [body.value], to=FLOAT16), body.shape, FLOAT16)


def elementwise(body: Body) -> None:
    """Mul, Add, Sub or Div with a constant on either side, along the channels or along another axis."""
    c = body.choices
    op = c.pick(("Mul", "Add", "Sub", "Div"))
    shape = _constant_shape(body)
    low, high = (0.5, 2.0) if op == "Div" else (-2.0, 2.0)
    constant = body.constant(c.array(shape, low, high))
    swapped = c.once_in(2 if op in ("Mul", "Add") else 4)
    if op == "Div" and swapped:
        body.op("Abs", [body.value], body.shape)
        body.op("Add", [body.value, body.constant(np.asarray(1.0))], body.shape)
    inputs = [constant, body.value] if swapped else [body.value, constant]
    body.op(op, inputs, tuple(np.broadcast_shapes(shape, body.shape)))


def _constant_shape(body: Body) -> Shape:
    rank, shape = len(body.shape), body.shape
    channels = shape[1]
    ones = (1,) * (rank - 2)
    right: list[Shape] = [(1, channels, *ones), (channels, *ones), (), (1,), (1,) * rank]
    wrong: list[Shape] = [
        shape[-1:],
        (*shape[:1], *(1,) * (rank - 1)),
        (1, channels, *shape[2:]),
        (1, *right[0]),
    ]
    if rank > 3:
        wrong += [(1, 1, shape[2], *ones[1:]), (1, channels, 1, *shape[3:]), (1, 1, *right[0][1:])]
    found = body.choices.pick([*right, *right, *right, *wrong])
    body.fixed_batch |= len(found) >= rank and found[-rank] > 1
    body.fixed_batch |= len(found) > rank
    return found


def residual(body: Body) -> None:
    """A sum or product with another value that runs."""
    same = [v for v, s, t in body.seen if s == body.shape and t == body.dtype]
    other = body.choices.pick(same) if same else body.value
    op = body.choices.pick(("Add", "Mul", "Sub"))
    x = body.value
    if op == "Sub":
        other = body.op("Abs", [other])  # x - x would be the same for every x, which judges nothing
    body.op(op, [x, other], body.shape)


# ---- what may stand between


def between(body: Body) -> None:
    """Something that passes the value on, or seems to."""
    c = body.choices
    form = c.pick(
        (
            "identity",
            "dropout",
            "cast",
            "transposes",
            "transpose",
            "flatten",
            "squeeze",
            "pool",
            "relu",
            "clip",
        )
    )
    shape, rank = body.shape, len(body.shape)
    if form == "identity":
        body.op("Identity", [body.value], shape)
    elif form == "dropout":
        body.op("Dropout", [body.value], shape, outputs=c.pick((1, 2)))
    elif form == "cast":
        to = c.pick([t for t in (FLOAT, FLOAT16, TensorProto.DOUBLE) if t != body.dtype])
        body.become(body.op("Cast", [body.value], to=to), shape, to)
    elif form in ("transposes", "transpose"):
        perm = [0, *range(2, rank), 1] if c.once_in(2) else [0, 1, *reversed(range(2, rank))]
        back = [perm.index(i) for i in range(rank)]
        body.op("Transpose", [body.value], tuple(shape[i] for i in perm), perm=perm)
        if form == "transposes":
            body.op("Transpose", [body.value], shape, perm=back)
    elif form == "flatten" and rank > 2:
        if c.once_in(2):
            target = [0, shape[1], -1]
            size = int(np.prod(shape[2:]))
            body.op(
                "Reshape",
                [body.value, body.constant(np.asarray(target), TensorProto.INT64)],
                (shape[0], shape[1], size),
            )
        else:
            body.op("Flatten", [body.value], (shape[0], int(np.prod(shape[1:]))))
    elif form == "squeeze" and rank > 2 and shape[-1] == 1:
        body.axes("Squeeze", [rank - 1], shape[:-1])
    elif form == "squeeze" and rank < 5:
        body.axes("Unsqueeze", [rank], (*shape, 1))
    elif form == "pool" and rank > 2:
        body.op("GlobalAveragePool", [body.value], (*shape[:2], *(1,) * (rank - 2)))
    elif form == "clip" and body.opset >= 11:
        body.op("Clip", [body.value, body.constant(np.asarray(-1.0)), body.constant(np.asarray(1.0))], shape)
    else:
        body.op("Relu", [body.value], shape)


AFFINE: tuple[Callable[[Body], None], ...] = (
    batch_normalization,
    batch_normalization,
    elementwise,
    elementwise,
    residual,
)
