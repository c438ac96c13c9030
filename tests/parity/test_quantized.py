"""Quantized models: a step that goes the other way is no error, and no error hides in a step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import ModelProto, NodeProto, helper, numpy_helper

import fuser
from fuser.parity import check_parity
from fuser.parity.quantized import unrounded
from fuser.parity.source import open_model
from tests.builders import conv_bn_leaky

Array = np.ndarray[Any, np.dtype[Any]]
LAYERS = 10


def ranges(model: ModelProto) -> dict[str, float]:
    """The largest absolute value of every value of a model of one input, over one draw."""
    shown = ModelProto()
    shown.CopyFrom(model)
    names = ["x", *(node.output[0] for node in model.graph.node)]
    del shown.graph.output[:]
    shown.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names[1:])
    session = onnxruntime.InferenceSession(shown.SerializeToString(), providers=["CPUExecutionProvider"])
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32) * 2
    return dict(zip(names, (float(np.abs(a).max()) for a in (x, *session.run(None, {"x": x}))), strict=True))


def quantized(layers: int = LAYERS, size: int = 24, width: int = 8) -> ModelProto:
    """A chain of Conv, BatchNormalization and LeakyRelu with int8 weights, a scale a channel.

    Activations are quantized after every block, and in every second before its LeakyRelu as well.
    """
    plain = conv_bn_leaky(channels=(3, *[width] * layers), batch=1, size=size, bias=True)
    largest = ranges(plain)
    made = ModelProto()
    made.CopyFrom(plain)
    del made.graph.node[:], made.graph.initializer[:]
    weights = {t.name: numpy_helper.to_array(t) for t in plain.graph.initializer}
    nodes: list[NodeProto] = []
    now = {"x": "x"}

    def put(name: str, values: Array) -> str:
        made.graph.initializer.append(numpy_helper.from_array(values, name))
        return name

    def pair(value: str) -> None:
        step = put(f"{value}_scale", np.asarray(largest[value] / 127, np.float32))
        zero = put(f"{value}_zero", np.asarray(0, np.int8))
        nodes.append(helper.make_node("QuantizeLinear", [now[value], step, zero], [f"{value}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{value}_q", step, zero], [f"{value}_dq"]))
        now[value] = f"{value}_dq"

    pair("x")
    for index, node in enumerate(plain.graph.node):
        inputs = [now[node.input[0]], *node.input[1:]]
        if node.op_type == "Conv":
            w = weights[node.input[1]]
            steps = (np.abs(w).max(axis=(1, 2, 3)) / 127).astype(np.float32)
            q = np.round(w / steps[:, None, None, None]).astype(np.int8)
            names = [put(f"{node.input[1]}_int8", q), put(f"{node.input[1]}_steps", steps)]
            inputs[1] = f"{node.input[1]}_dq"
            nodes.append(helper.make_node("DequantizeLinear", names, [inputs[1]], axis=0))
        for name in inputs:
            if name in weights:
                put(name, weights[name])
        copy = NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = inputs
        nodes.append(copy)
        now[node.output[0]] = node.output[0]
        if node.op_type == "LeakyRelu" or (node.op_type == "BatchNormalization" and index % 2):
            pair(node.output[0])
    made.graph.node.extend(nodes)
    made.graph.output[0].name = now["y"]
    return made


@pytest.fixture(scope="module")
def models() -> tuple[ModelProto, ModelProto]:
    """The quantized model, and it fused: five operators, and in the other blocks BatchNormalization folded."""
    before = quantized()
    result = fuser.fuse(before, parity=False)
    assert len(result.report.fusions) == LAYERS // 2
    assert not any(node.op_type == "BatchNormalization" for node in result.model.graph.node)
    return before, result.model


@pytest.fixture(scope="module")
def seed(models: tuple[ModelProto, ModelProto]) -> int:
    """One whose draws have values between two steps that the fusion moves to the other one."""
    seeds = range(50)
    return next(k for k in seeds if check_parity(*models, seed=k, tolerance=2e-5).verdict == "failed")


def test_steps_that_go_the_other_way_pass(models: tuple[ModelProto, ModelProto], seed: int) -> None:
    """The verdict says what was compared, and how far apart the quantized models are."""
    found = check_parity(*models, seed=seed)
    assert found.verdict == "passed", found.reason
    assert "without the rounding of 16 activations it needs" in found.reason
    assert "no more than 4 times" in found.reason
    (output,) = found.outputs
    assert output.smallest_tolerance > 1e-3


def test_a_tolerance_that_was_asked_for_is_kept(models: tuple[ModelProto, ModelProto], seed: int) -> None:
    """Then only the outputs as they are count."""
    assert check_parity(*models, seed=seed, tolerance=2e-5).verdict == "failed"


def test_optimize_passes(models: tuple[ModelProto, ModelProto], seed: int) -> None:
    """With its sites, and with no reservation but the rounding."""
    report = fuser.fuse(models[0], seed=seed).report
    assert report.parity.verdict == "passed"
    assert all(site.verdict == "passed" and site.alone for site in report.parity.sites)


def tensor(model: ModelProto, name: str) -> tuple[Array, Callable[[Array], None]]:
    """A copy of an initializer's values, and what puts others in."""
    found = next(t for t in model.graph.initializer if t.name == name)
    return (
        numpy_helper.to_array(found).copy(),
        lambda values: found.CopyFrom(numpy_helper.from_array(values, name)),
    )


def weights_of(model: ModelProto, layer: int) -> tuple[str, str, str]:
    """The names of a Conv's integers, steps and bias."""
    convs = [node for node in model.graph.node if node.op_type in ("Conv", "ConvLeakyRelu")]
    made = next(node for node in model.graph.node if convs[layer].input[1] in node.output)
    return made.input[0], made.input[1], convs[layer].input[2]


def zero_a_weight(model: ModelProto, layer: int) -> None:
    values, put = tensor(model, weights_of(model, layer)[0])
    values.reshape(-1)[np.abs(values.astype(int)).argmax()] = 0
    put(values)


def change_a_step(model: ModelProto, layer: int) -> None:
    values, put = tensor(model, weights_of(model, layer)[1])
    values[2] *= np.float32(1.01)
    put(values)


def swap_two_channels(model: ModelProto, layer: int) -> None:
    for name in weights_of(model, layer):
        values, put = tensor(model, name)
        values[[0, 1]] = values[[1, 0]]
        put(values)


def change_the_slope(model: ModelProto, layer: int) -> None:
    activations = [node for node in model.graph.node if node.op_type in ("LeakyRelu", "ConvLeakyRelu")]
    next(a for a in activations[layer].attribute if a.name in ("alpha", "negative_slope")).f *= 1.01


def replace_the_activation(model: ModelProto, layer: int) -> None:
    activations = [node for node in model.graph.node if node.op_type in ("LeakyRelu", "ConvLeakyRelu")]
    next(a for a in activations[layer].attribute if a.name in ("alpha", "negative_slope")).f = 0.0


def change_an_activation_step(model: ModelProto, layer: int) -> None:
    values, put = tensor(model, f"act{layer}_scale")
    put(np.asarray(values * np.float32(1.01)))


@pytest.mark.parametrize("layer", [0, 3, LAYERS - 2])
@pytest.mark.parametrize(
    "mutate",
    [
        zero_a_weight, change_a_step, swap_two_channels, change_the_slope, replace_the_activation,
        change_an_activation_step,
    ],
)  # fmt: skip
def test_an_error_does_not_pass_for_a_step(
    mutate: Callable[[ModelProto, int], None], layer: int, models: tuple[ModelProto, ModelProto], seed: int
) -> None:
    """Whether the outputs show it or not, without any site."""
    wrong = ModelProto()
    wrong.CopyFrom(models[1])
    mutate(wrong, layer)
    found = check_parity(models[0], wrong, seed=seed)
    assert found.verdict == "failed", found.reason


CLASSES = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1,4] x) => (float[1,1] y) <float s = {0.1}, int8 z = {0}, float coarse = {20.0}, float[4,1] w = {1, 2, 3, WEIGHT}>
{
   q = QuantizeLinear (x, s, z)
   d = DequantizeLinear (q, s, z)
   m = MatMul (d, w)
   mq = QuantizeLinear (m, coarse, z)
   y = DequantizeLinear (mq, coarse, z)
}"""


def test_what_coarse_steps_hide_is_found() -> None:
    """The outputs are equal, all zero; a weight is not."""
    a, b = (onnx.parser.parse_model(CLASSES.replace("WEIGHT", weight)) for weight in ("1", "1.01"))
    inputs = {"x": np.float32([[1, -0.5, 0.7, 2]])}
    assert check_parity(a, a, inputs=inputs).verdict == "passed"
    found = check_parity(a, b, inputs=inputs)
    assert found.verdict == "failed"
    assert "without the rounding of 2 activations, which hides it, worst at" in found.reason


PAIR = """<ir_version: 8, opset_import: ["" : {opset}]>
g (float[2,3] x) => (float[2,3] y) <float s = {{0.5}}, TYPE z = {{ZERO}}>
{{
   q = QuantizeLinear (x, s, z)
   y = DequantizeLinear (q, s, z)
}}"""


@pytest.mark.parametrize(
    ("kind", "zero", "limits"),
    [("int8", 0, (-64, 63.5)), ("uint8", 128, (-64, 63.5)), ("uint8", 0, (0, 127.5))],
)
def test_a_pair_becomes_the_limits_it_has(
    kind: str, zero: int, limits: tuple[float, float], tmp_path: Path
) -> None:
    """Within them the value passes as it is."""
    model = onnx.parser.parse_model(PAIR.format(opset=13).replace("TYPE", kind).replace("ZERO", str(zero)))
    found = unrounded(open_model(model, "A", tmp_path), open_model(model, "B", tmp_path), tmp_path)
    assert found is not None
    assert (found.pairs, found.entire) == (1, True)
    x = np.float32([[-1000, -3.3, -0.1], [0.1, 3.3, 1000]])
    session = onnxruntime.InferenceSession(found.a.path, providers=["CPUExecutionProvider"])
    assert np.array_equal(session.run(None, {"x": x})[0], np.clip(x, *np.float32(limits)))
