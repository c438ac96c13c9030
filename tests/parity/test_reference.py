"""onnx's reference beside onnxruntime: where it is wrong it must be no judge, and where it is right it may be one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from fuser.parity import check_parity
from fuser.parity.reference import misjudged
from tests.builders import conv_bn_leaky

Case = tuple[str, dict[str, tuple[int, ...]], dict[str, Any], int]
SIZES = (((7,), (3,)), ((7, 6), (3, 2)), ((5, 6, 5), (3, 2, 2)))
BN = {"s": (4,), "b": (4,), "m": (4,), "v": (4,)}


def each(d: int, *forms: str) -> Iterator[dict[str, Any]]:
    """Attributes of windows of ``d`` dimensions by name."""
    known: dict[str, dict[str, Any]] = {
        "plain": {},
        "strides": {"strides": [2] * d},
        "dilations": {"dilations": [2] * d},
        "pads": {"pads": [1] * 2 * d},
        "pads before": {"pads": [1] * d + [0] * d},
        "pads after": {"pads": [0] * d + [1] * d},
        "upper": {"auto_pad": "SAME_UPPER"},
        "lower": {"auto_pad": "SAME_LOWER"},
        "valid": {"auto_pad": "VALID"},
        "upper 2": {"auto_pad": "SAME_UPPER", "strides": [2] * d},
        "lower 2": {"auto_pad": "SAME_LOWER", "strides": [2] * d},
        "upper 3": {"auto_pad": "SAME_UPPER", "strides": [3] * d},
        "lower 3": {"auto_pad": "SAME_LOWER", "strides": [3] * d},
        "all": {"strides": [2] * d, "dilations": [2] * d, "pads": [1] * 2 * d},
        "output padding": {"strides": [2] * d, "output_padding": [1] * d},
        "ceil": {"ceil_mode": 1, "strides": [2] * d},
        "ceil pads": {"ceil_mode": 1, "strides": [3] * d, "pads": [1] * 2 * d},
        "counted": {"count_include_pad": 1, "pads": [1] * 2 * d},
        "counted ceil": {"count_include_pad": 1, "ceil_mode": 1, "strides": [2] * d, "pads": [1] * 2 * d},
    }
    return (known[form] for form in forms)


def windows() -> Iterator[Case]:
    """Convolutions and pools of one, two and three dimensions."""
    padded = (
        "plain",
        "strides",
        "pads",
        "pads before",
        "pads after",
        "upper",
        "lower",
        "valid",
        "upper 2",
        "lower 2",
    )
    for sizes, kernel in SIZES:
        d = len(sizes)
        for group in (1, 2):
            for form in each(d, *padded, "dilations", "upper 3", "lower 3", "all"):
                shapes = {"x": (2, 4, *sizes), "w": (6, 4 // group, *kernel), "b": (6,)}
                yield "Conv", shapes, {**form, "group": group}, 17
            for form in each(d, *padded, "dilations", "upper 3", "lower 3", "all", "output padding"):
                shapes = {"x": (2, 4, *sizes), "w": (4, 6 // group, *kernel), "b": (6,)}
                yield "ConvTranspose", shapes, {**form, "group": group}, 17
        pooled = {"x": (2, 4, *sizes)}
        for form in each(d, *padded, "ceil", "ceil pads", "counted", "counted ceil"):
            yield "AveragePool", pooled, {**form, "kernel_shape": kernel}, 19
        for form in each(d, *padded, "ceil", "ceil pads", "dilations"):
            yield "MaxPool", pooled, {**form, "kernel_shape": kernel}, 12
            yield "LpPool", pooled, {**form, "kernel_shape": kernel}, 22
        for op in ("GlobalAveragePool", "GlobalMaxPool"):
            yield op, pooled, {}, 17
    for bias in (True, False):  # depthwise: one channel a group
        yield (
            "ConvTranspose",
            {"x": (2, 4, 7, 6), "w": (4, 1, 3, 3)} | ({"b": (4,)} if bias else {}),
            {"group": 4},
            17,
        )


def elementwise() -> Iterator[Case]:
    """What a fusion reads or writes besides, and what often stands around it."""
    x = {"x": (2, 4, 7, 6)}
    for slope in ((4, 1, 1), (1,), (6,), (1, 4, 1, 1), (7, 6)):
        for opset in (7, 9, 16):
            yield "PRelu", {**x, "s": slope}, {}, opset
    for alpha in (0.2, -0.3, 1.5):
        yield "LeakyRelu", x, {"alpha": alpha}, 16
    for op in (
        "Relu",
        "Abs",
        "Neg",
        "Sigmoid",
        "Tanh",
        "Elu",
        "HardSigmoid",
        "Softplus",
        "Erf",
        "Identity",
        "Dropout",
    ):
        yield op, x, {}, 13
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Less", "GreaterOrEqual"):
        yield op, {**x, "y": (4, 1, 1)}, {}, 13
    for opset in (9, 13, 14, 15):
        yield "BatchNormalization", {**x, **BN}, {"epsilon": 0.01}, opset
        yield "BatchNormalization", {"x": (2, 4), **BN}, {}, opset
    for opset in (11, 12, 13):
        for op in ("Softmax", "LogSoftmax", "Hardmax"):
            for axis in ({}, {"axis": 1}, {"axis": -1}):
                yield op, x, axis, opset
    for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
        for c in ((5,), (3, 5), (3, 1), ()):
            shapes = {"x": (4, 3) if a else (3, 4), "w": (5, 4) if b else (4, 5)} | ({"c": c} if c else {})
            yield "Gemm", shapes, {"transA": a, "transB": b, "alpha": 0.5, "beta": 2.0}, 17
    yield "InstanceNormalization", {**x, "s": (4,), "b": (4,)}, {}, 17
    yield "LRN", x, {"size": 3}, 17
    for p in (1, 2):
        yield "LpNormalization", x, {"p": p, "axis": 1}, 17
    for mode in ("nearest", "linear", "cubic"):
        for where in ("half_pixel", "asymmetric", "align_corners"):
            yield (
                "Resize",
                {**x, "": (), "scales": (4,)},
                {"mode": mode, "coordinate_transformation_mode": where},
                13,
            )
    yield "DepthToSpace", x, {"blocksize": 2}, 13
    yield "Transpose", x, {"perm": [0, 2, 3, 1]}, 13
    yield "Flatten", x, {"axis": 2}, 13


def quantized() -> Iterator[Case]:
    """Rounding to even, saturation, and scales along any axis."""
    for opset in (10, 13, 19, 21):
        yield "QuantizeLinear", {"x": (2, 4, 50), "scale": (), "zero": ()}, {}, opset
        yield "DequantizeLinear", {"q": (2, 4, 5), "scale": (), "zero": ()}, {}, opset
    for axis, size in ((0, 2), (1, 4), (-1, 5)):
        yield "QuantizeLinear", {"x": (2, 4, 5), "scale": (size,), "zero": (size,)}, {"axis": axis}, 19
        yield "DequantizeLinear", {"q": (2, 4, 5), "scale": (size,), "zero": (size,)}, {"axis": axis}, 19


CASES = [*windows(), *elementwise(), *quantized()]


def model(case: Case) -> tuple[ModelProto, dict[str, np.ndarray[Any, Any]]]:
    """A model of one operator whose first input is the model's, and that input."""
    op, shapes, attributes, opset = case
    random = np.random.default_rng(0)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, shape in shapes.items():
        values = random.standard_normal(shape).astype(np.float32)
        special = {
            "v": np.abs(values) + 0.5,
            "scale": np.float32(0.25) * (1 + np.arange(values.size, dtype=np.float32).reshape(shape)),
            "scales": np.array([1, 1, 0.6, 1.7], np.float32),
            "zero": np.full(shape, 3, np.int8),
            "q": random.integers(-128, 128, shape).astype(np.int8),
        }
        arrays[name] = np.asarray(special.get(name, values))
    if op == "QuantizeLinear":  # halfway between two steps, and beyond the type's range
        arrays["x"] = np.round(arrays["x"] * 300) * np.float32(0.125)
    first, *others = arrays
    node = helper.make_node(op, list(arrays), ["out"], **attributes)
    elem_type = helper.np_dtype_to_tensor_dtype(arrays[first].dtype)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(first, elem_type, arrays[first].shape)],
        [helper.make_empty_tensor_value_info("out")],
        [numpy_helper.from_array(arrays[name], name) for name in others if name],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return made, {first: arrays[first]}


def run_both(case: Case) -> tuple[np.ndarray[Any, Any] | None, np.ndarray[Any, Any] | None]:
    """What onnxruntime and the reference give; None where one doesn't run it."""
    made, feeds = model(case)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    right = theirs = None
    try:
        session = onnxruntime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
        right = session.run(None, feeds)[0]
    except Exception:  # onnxruntime has its own, for all that goes wrong
        return None, None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            theirs = np.asarray(ReferenceEvaluator(made).run(None, feeds)[0])
    except Exception:  # so has the reference
        return right, None
    return right, theirs


@pytest.mark.parametrize("op", sorted({case[0] for case in CASES}))
def test_the_reference_judges_no_operator_that_it_computes_wrongly(op: str) -> None:
    """Compared with onnxruntime in float32; what it refuses to run judges nothing anyhow."""
    judged = 0
    for case in CASES:
        if case[0] != op:
            continue
        right, theirs = run_both(case)
        if right is None or theirs is None:
            continue
        agree = right.shape == theirs.shape and right.dtype == theirs.dtype
        agree = agree and np.allclose(right, theirs, rtol=1e-5, atol=1e-5)
        refused = misjudged(model(case)[0])
        assert agree or refused, case
        judged += not refused
    assert judged or op in ("GlobalMaxPool", "LRN")


def test_a_refused_operator_is_named() -> None:
    """The sentence says who could not judge, and why."""
    a = conv_bn_leaky(dtype=TensorProto.DOUBLE, opset=13, ir=7)
    found = check_parity(a, a)
    assert found.verdict == "inconclusive"
    assert (
        "reference: it computes BatchNormalization below opset 14 wrongly, so it is no judge" in found.reason
    )


@pytest.mark.parametrize(("group", "verdict"), [(1, "passed"), (2, "inconclusive")])
def test_attributes_that_a_function_takes_from_its_call_count(group: int, verdict: str) -> None:
    """A fused operator's definition only refers to them."""
    text = f"""<ir_version: 10, opset_import: ["": 17, "local": 1]>
        g (double[1, 4, 5, 5] x) => (double[1, {4 * group}, 7, 7] y)
        {{ y = local.Up <group = {group}> (x, w, b) }}
        <domain: "local", opset_import: ["": 17]> Up <group> (v, weight, bias) => (r) {{
        r = ConvTranspose <group: int = @group> (v, weight, bias) }}"""

    a = parser.parse_model(text)
    random = np.random.default_rng(0)
    a.graph.initializer.extend(
        numpy_helper.from_array(random.standard_normal(shape), name)
        for name, shape in {"w": (4, 4, 3, 3), "b": (4 * group,)}.items()
    )
    found = check_parity(a, a)
    assert found.verdict == verdict, found.reason
    assert ("ConvTranspose with groups" in found.reason) == (group > 1)
