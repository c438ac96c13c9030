"""The activations of a drawn line: every spelling of LeakyRelu, what looks like one, and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

if TYPE_CHECKING:
    from fuser.fuzz.body import Body

COMPARISONS = ("Greater", "Less", "GreaterOrEqual", "LessOrEqual")


def activation(body: Body) -> None:
    """One of the spellings of LeakyRelu, or what looks like one, or something else."""
    body.choices.pick(
        (
            leaky,
            leaky,
            maximum,
            where,
            prelu,
            two_relus,
            max_and_min,
            absolute,
            other,
            factor,
            two_clips,
            adaptive,
        )
    )(body)


def leaky(body: Body) -> None:
    """The operator itself."""
    alpha = body.choices.pick((0.2, None, 0.0, -0.5, 1.5))
    attributes: dict[str, Any] = {} if alpha is None else {"alpha": alpha}
    body.op("LeakyRelu", [body.value], body.shape, **attributes)


def _slope(body: Body) -> str:
    channels = (1, body.shape[1], *(1,) * (len(body.shape) - 2))
    values = body.choices.pick(
        (np.asarray(0.2), np.asarray([0.1]), np.asarray(1.5), np.full(channels, 0.3), None)
    )
    return body.constant(body.choices.array(channels, 0.0, 1.0) if values is None else values)


def _comparison(body: Body) -> str:
    return body.choices.pick(COMPARISONS if body.opset >= 12 else COMPARISONS[:2])


def _scaled(body: Body, value: str, slope: str) -> str:
    return body.op("Mul", [slope, value] if body.choices.once_in(2) else [value, slope])


def maximum(body: Body) -> None:
    """max(x, a*x), now and then min."""
    if body.opset < 8 or len(body.shape) < 2:
        leaky(body)
        return
    x, slope = body.value, _slope(body)
    scaled = _scaled(body, x, slope)
    op = body.choices.pick(("Max", "Max", "Max", "Min"))
    body.op(op, [scaled, x] if body.choices.once_in(2) else [x, scaled], body.shape)


def where(body: Body) -> None:
    """A comparison with zero, or nearly, and both orders of the branches."""
    if body.opset < 9:
        leaky(body)
        return
    c, x, test = body.choices, body.value, _comparison(body)
    threshold = body.constant(np.asarray(c.pick((0.0, 0.0, 0.0, 0.5))))
    condition = body.op(test, [threshold, x] if c.once_in(4) else [x, threshold])
    scaled = _scaled(body, x, _slope(body))
    body.op("Where", [condition, scaled, x] if c.once_in(2) else [condition, x, scaled], body.shape)


def prelu(body: Body) -> None:
    """PRelu with equal or different slopes, of any shape that broadcasts."""
    c, channels, rank = body.choices, body.shape[1], len(body.shape)
    shape = c.pick(((1,), (channels, *(1,) * (rank - 2)), (1, channels, *(1,) * (rank - 2)), body.shape[-1:]))
    values = np.full(shape, 0.25) if c.once_in(2) else c.array(shape, 0.0, 1.0)
    body.op("PRelu", [body.value, body.constant(values)], body.shape)


def two_relus(body: Body) -> None:
    """relu(x) - a*relu(-x), or + with a negative a as Keras writes it."""
    c, x, shape = body.choices, body.value, body.shape
    op = c.pick(("Sub", "Add"))
    slope = body.constant(np.asarray(c.pick((-0.2, 0.2) if op == "Add" else (0.2, -0.2))))
    right = body.op("Relu", [x])
    left = body.op("Relu", [body.op("Neg", [x])])
    body.op(op, [right, _scaled(body, left, slope)], shape)


def max_and_min(body: Body) -> None:
    """max(x, 0) + a*min(x, 0)."""
    if body.opset < 8:  # Max and Min did not broadcast
        leaky(body)
        return
    x, shape, zero = body.value, body.shape, body.constant(np.asarray(body.choices.pick((0.0, 0.0, 0.1))))
    right = body.op("Max", [x, zero])
    left = _scaled(body, body.op("Min", [x, zero]), body.constant(np.asarray(0.2)))
    body.op("Add", [right, left], shape)


def absolute(body: Body) -> None:
    """b*x + c*|x|, which is LeakyRelu where b + c is 1."""
    x, shape, b = body.value, body.shape, body.choices.pick((0.6, 0.5, 0.7))
    straight = _scaled(body, x, body.constant(np.asarray(b)))
    bent = _scaled(body, body.op("Abs", [x]), body.constant(np.asarray(0.4)))
    body.op("Add", [straight, bent], shape)


def other(body: Body) -> None:
    """What is no LeakyRelu."""
    body.op(
        body.choices.pick(("Relu", "Selu", "Tanh", "Elu", "Softplus", "Sigmoid")), [body.value], body.shape
    )


def factor(body: Body) -> None:
    """x times 1 or the slope."""
    if body.opset < 9:
        leaky(body)
        return
    c, x, test = body.choices, body.value, _comparison(body)
    condition = body.op(test, [x, body.constant(np.asarray(0.0))])
    one = body.constant(np.asarray(c.pick((1.0, 1.0, 0.9))))
    slope = _slope(body)
    body.op(
        "Mul",
        [x, body.op("Where", [condition, slope, one] if c.once_in(2) else [condition, one, slope])],
        body.shape,
    )


def two_clips(body: Body) -> None:
    """clip(x, 0, ) + a*clip(x, , 0), as torch.clamp is exported."""
    if body.opset < 11:
        leaky(body)
        return
    x, zero = body.value, body.constant(np.asarray(body.choices.pick((0.0, 0.0, 0.1))))
    right = body.op("Clip", [x, zero])
    left = _scaled(body, body.op("Clip", [x, "", zero]), body.constant(np.asarray(0.2)))
    body.op("Add", [right, left], body.shape)


def adaptive(body: Body) -> None:
    """max(x, a*sigmoid(mean(x)/std(x))*x): of all elements or over the plane, in any order of the factors."""
    c, x, rank = body.choices, body.value, len(body.shape)
    if body.opset < 8:
        leaky(body)
        return
    spatial = rank > 2 and c.once_in(2)
    pooled = spatial and c.once_in(3)
    keep: dict[str, Any] = {} if spatial or c.once_in(2) else {"keepdims": 0}

    def mean(value: str) -> str:
        if not spatial:
            return body.op("ReduceMean", [value], **keep)
        if pooled:
            return body.op("GlobalAveragePool", [value])
        axes = list(range(2, rank))
        if body.opset < 18:
            return body.op("ReduceMean", [value], axes=axes)
        return body.op("ReduceMean", [value, body.constant(np.asarray(axes), TensorProto.INT64)])

    middle = mean(x)
    centred = body.op("Sub", [x, middle])
    square = (
        ("Mul", [centred, centred]) if c.once_in(2) else ("Pow", [centred, body.constant(np.asarray(2.0))])
    )
    raised = body.op("Add", [mean(body.op(*square)), body.constant(np.asarray(1e-3))])
    share = body.op("Sigmoid", [body.op("Div", [middle, body.op("Sqrt", [raised])])])
    alpha = body.constant(np.asarray(c.pick((0.2, 0.9, -0.5))))
    if c.once_in(3):
        scaled = body.op("Mul", [body.op("Mul", [x, share]), alpha])
    else:
        scaled = _scaled(body, x, _scaled(body, share, alpha))
    y = body.op("Max", [scaled, x] if c.once_in(2) else [x, scaled])
    # onnxruntime's Sigmoid has an absolute error, which tiny results would show
    body.op("Add", [y, body.constant(np.asarray(1.0))], body.shape)
