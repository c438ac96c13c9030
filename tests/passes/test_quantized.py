"""Quantized models: BatchNormalization goes into the scales of an integer weight, and every Q/DQ pair stays a pair."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper

import fuser

Array = NDArray[Any]
CHANNELS = 6
OFF = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
ALL = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL

PAIRS = """<ir_version: 8, opset_import: ["" : 17]>
main (float[1,3,8,8] x) => (float[1,6,6,6] y)
<float sx = {{0.03}}, int8 z = {{0}}, float sy = {{0.5}}>
{{
   xq = QuantizeLinear (x, sx, z)
   xd = DequantizeLinear (xq, sx, z)
   wd = DequantizeLinear <axis = 0> (w, ws, wz)
   bd = {bias}
   c = Conv (xd, wd, bd)
   n = {affine}
   q = QuantizeLinear (n, sy, z)
   d = DequantizeLinear (q, sy, z)
   l = LeakyRelu <alpha = 0.1> (d)
   lq = QuantizeLinear (l, sy, z)
   y = DequantizeLinear (lq, sy, z)
}}"""
BATCHNORM = "BatchNormalization (c, gamma, beta, mean, var)"
BIASES = {"float": "Identity (b)", "int32": "DequantizeLinear <axis = 0> (bq, bs, bz)"}

CONV = """<ir_version: 8, opset_import: ["" : 17]>
main (float[1,3,8,8] x) => (float[1,6,6,6] y)
{
   wd = DequantizeLinear <axis = 0> (w, ws, wz)
   c = Conv (x, wd, b)
   n = BatchNormalization (c, gamma, beta, mean, var)
   y = LeakyRelu <alpha = 0.1> (n)
}"""
GEMM = """<ir_version: 8, opset_import: ["" : 17]>
main (float[2,3] x) => (float[2,6] y)
{
   wd = DequantizeLinear (w, ws)
   c = %s (x, wd)
   n = BatchNormalization (c, gamma, beta, mean, var)
   y = LeakyRelu <alpha = 0.1> (n)
}"""


def arrays(seed: int = 0) -> dict[str, Array]:
    """Weights of a Conv with 3 channels in and 6 out, small enough for int16 sums to hold, and a BatchNormalization."""
    random = np.random.default_rng(seed)
    normal = {k: random.standard_normal(CHANNELS).astype(np.float32) for k in ("b", "gamma", "beta", "mean")}
    steps = random.uniform(0.005, 0.02, CHANNELS).astype(np.float32)
    return {
        **normal,
        "var": random.uniform(0.5, 2.0, CHANNELS).astype(np.float32),
        "w": random.integers(-20, 21, (CHANNELS, 3, 3, 3)).astype(np.int8),
        "ws": steps,
        "wz": np.zeros(CHANNELS, np.int8),
        "bq": random.integers(-900, 900, CHANNELS).astype(np.int32),
        "bs": steps * np.float32(0.03),
        "bz": np.zeros(CHANNELS, np.int32),
    }


def model(text: str, weights: dict[str, Array]) -> ModelProto:
    """The text's model with those of the weights that it reads."""
    out = onnx.parser.parse_model(text)
    read = {v for n in out.graph.node for v in n.input}
    out.graph.initializer.extend(
        numpy_helper.from_array(a, name) for name, a in weights.items() if name in read
    )
    return out


def run(m: ModelProto, level: Any, folder: Path | None = None) -> tuple[Array, Counter[str]]:
    """The output for one fixed input, and the operators of what onnxruntime made of the model (with ``folder``)."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if folder is not None:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(folder / "optimized.onnx")
    session = onnxruntime.InferenceSession(m.SerializeToString(), options, ["CPUExecutionProvider"])
    shape = [d.dim_value for d in m.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
    made = onnx.load(folder / "optimized.onnx").graph.node if folder is not None else ()
    return session.run(None, {"x": x})[0], Counter(n.op_type for n in made)


def operators(m: ModelProto) -> Counter[str]:
    """How often each operator stands in the main graph."""
    return Counter(n.op_type for n in m.graph.node)


def constants(m: ModelProto) -> dict[str, Array]:
    """The initializers by name."""
    return {t.name: numpy_helper.to_array(t) for t in m.graph.initializer}


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("affine", [BATCHNORM, "Identity (c)"])
def test_onnxruntime_makes_its_integer_operators(bias: str, affine: str, tmp_path: Path) -> None:
    """Where only a BatchNormalization stood in the way, and where it did before."""
    before = model(PAIRS.format(bias=BIASES[bias], affine=affine), arrays())
    after = fuser.fuse(before).model

    assert run(before, ALL, tmp_path)[1]["QLinearConv"] == (affine != BATCHNORM)
    made = run(after, ALL, tmp_path)[1]
    assert (made["QLinearConv"], made["Conv"], made["BatchNormalization"]) == (1, 0, 0)


@pytest.mark.parametrize("bias", BIASES)
def test_pairs_stay_pairs(bias: str) -> None:
    """Every QuantizeLinear and DequantizeLinear of an activation is the one it was, reading what it read."""
    before = model(PAIRS.format(bias=BIASES[bias], affine=BATCHNORM), arrays())
    after = fuser.fuse(before).model

    def pairs(m: ModelProto) -> list[tuple[str, ...]]:
        return [
            (n.op_type, *n.input, *n.output)
            for n in m.graph.node
            if set(n.input) & {"x", "xq", "n", "q", "l", "lq"}
        ]

    assert pairs(after) == pairs(before)
    assert "BatchNormalization" not in operators(after)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    gamma=st.lists(
        st.sampled_from([1.5, 0.3, -0.7, 0.0, -0.0, 1e-30, -1e-42, 1e-3, 40.0]),
        min_size=CHANNELS,
        max_size=CHANNELS,
    ),
)
def test_integers_stay_integers(seed: int, gamma: list[float]) -> None:
    """A folded weight holds the same integers, mirrored or zero, times its scale times the absolute BatchNormalization's."""
    weights = {**arrays(seed), "gamma": np.array(gamma, np.float32)}
    before = model(CONV, weights)
    after = fuser.fuse(before, parity=False).model
    assert operators(after) == {"DequantizeLinear": 1, "ConvLeakyRelu": 1}

    made = constants(after)
    dequantize = next(n for n in after.graph.node if n.op_type == "DequantizeLinear")
    q, step, zero = (made[v] for v in dequantize.input)
    s = weights["gamma"].astype(np.float64) / np.sqrt(weights["var"].astype(np.float64) + 1e-5)
    gone = np.abs(s) < 1e-20
    sign = np.where(gone, 0, np.sign(s)).astype(np.int8)
    np.testing.assert_array_equal(q, weights["w"] * sign[:, None, None, None])
    np.testing.assert_allclose(step, weights["ws"] * np.where(gone, 1.0, np.abs(s)), rtol=1e-6)
    assert zero.dtype == np.int8
    assert not zero.any()
    a, b = run(before, OFF)[0], run(after, OFF)[0]
    np.testing.assert_allclose(b, a, atol=2e-6 * np.abs(a).max(), rtol=0)


@pytest.mark.parametrize("gamma", [1e-5, 1e-7, -1e-7, 1e-9, 1e-20, 0.0])
def test_a_pruned_channel_keeps_its_bias_in_integers(gamma: float) -> None:
    """onnxruntime quantizes the bias in steps of the weight: steps that are too small for it would overflow."""
    weights = arrays()
    weights["gamma"][2], weights["beta"][2] = gamma, 3.0
    before = model(PAIRS.format(bias=BIASES["float"], affine=BATCHNORM), weights)
    after = fuser.fuse(before).model
    assert run(after, ALL)[0][0, 2] == pytest.approx(run(before, OFF)[0][0, 2])


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        (
            "no_int8",
            {"w": np.full((CHANNELS, 3, 3, 3), -128, np.int8)},
            "negated weights stay within their type",
        ),
        (
            "uint8",
            {"w": np.full((CHANNELS, 3, 3, 3), 255, np.uint8), "wz": np.full(CHANNELS, 100, np.uint8)},
            "negated weights",
        ),
        ("between", {"gamma": np.full(CHANNELS, 1e-7, np.float32)}, "weights that vanish beside their bias"),
    ],
)
def test_what_is_not_exact_is_declined(name: str, change: dict[str, Array], reason: str) -> None:
    """The model comes out as it went in, for a reason that says what does not fit."""
    before = model(CONV, {**arrays(), **change})
    result = fuser.fuse(before, parity=False)
    assert result.model == before, name
    assert any(reason in str(d) for d in result.report.declined), [str(d) for d in result.report.declined]


@pytest.mark.parametrize("operator", ["Gemm", "MatMul"])
def test_no_weight_is_scaled_at_run_time(operator: str) -> None:
    """A quantized weight that no rule folds into is left alone, rather than multiplied on every run."""
    weights = {**arrays(), "w": np.ones((3, CHANNELS), np.int8), "ws": np.array(0.1, np.float32)}
    before = model(GEMM % operator, weights)
    result = fuser.fuse(before, parity=False)
    assert result.model == before
    assert any("is computed by DequantizeLinear" in str(d) for d in result.report.declined)
