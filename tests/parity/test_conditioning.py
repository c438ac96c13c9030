"""Outputs of models that amplify rounding get a wider tolerance, and no error hides in it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto, numpy_helper

import fuser
from fuser.parity import Site, check_parity
from fuser.parity.compare import compare
from fuser.parity.conditioning import LAYERS, WIDEST, nudged, widened
from tests.builders import conv_bn_leaky

STEEP = """<ir_version: 8, opset_import: ["" : 17]>
g (float[4,64] x) => (float[4,1] y) <float[64,1] w, float[1] b>
{
  p = Gemm (x, w, b)
  l = LeakyRelu <alpha = 0.2> (p)
  y = Sigmoid (l)
}"""


PAIRS = np.repeat(np.random.default_rng(1).standard_normal((4, 32)).astype(np.float32), 2, axis=1)
PAIRS[0, 0] += 0.01  # one output is another one


def steep(bias: float, slope: float = 0.2) -> ModelProto:
    """Large terms that cancel, far on the flat side of a sigmoid: its output is the exponential of a rounded sum."""
    model = onnx.parser.parse_model(STEEP)
    w = np.tile(np.float32([[100], [-100]]), (32, 1))
    model.graph.initializer.extend(
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.float32([bias]), "b")]
    )
    model.graph.node[1].attribute[0].f = slope
    return model


def test_a_sum_in_another_order_passes_with_the_reason() -> None:
    """Moving a bias by its own rounding error is what a fusion does; the output shows it magnified."""
    a, b = steep(-20.0), steep(-20.0 * (1 + 1.5e-5))
    found = check_parity(a, b, inputs={"x": PAIRS})
    assert found.verdict == "passed"
    assert "amplifies rounding" in found.reason
    assert found.outputs[0].tolerance > 2e-5


@pytest.mark.parametrize(("bias", "slope"), [(-20.0, 0.202), (-20.02, 0.2)])
def test_an_error_still_fails_there(bias: float, slope: float) -> None:
    """A slope off by one percent, a bias off by a thousandth."""
    assert check_parity(steep(-20.0), steep(bias, slope), inputs={"x": PAIRS}).verdict == "failed"


def test_a_tolerance_that_was_asked_for_is_not_widened() -> None:
    """Who names a tolerance gets that one."""
    found = check_parity(steep(-20.0), steep(-20.0 * (1 + 1.5e-5)), inputs={"x": PAIRS}, tolerance=2e-5)
    assert found.verdict == "failed"


def test_the_width_has_a_limit() -> None:
    """However much the model amplifies, at most WIDEST times the tolerance."""
    a = np.ones(4, np.float32)
    b = a * np.float32(1 + 2e-5 * WIDEST * 2.2)
    output = compare("y", a, b, tolerance=2e-5)
    (judged,) = widened([output], [({"x": a}, {"y": a})], lambda _: [{"y": a * 2}])
    assert judged.verdict == "failed"


def test_what_does_not_amplify_keeps_its_tolerance() -> None:
    """A well-conditioned model that differs by more than the tolerance fails as before."""
    a = np.ones(4, np.float32)
    output = compare("y", a, a * np.float32(1 + 1e-4), tolerance=2e-5)
    (judged,) = widened([output], [({"x": a}, {"y": a})], lambda feeds: [{"y": feeds[0]["x"]}])
    assert judged.verdict == "failed"
    assert LAYERS * float(np.finfo(np.float32).eps) < 2e-5


def test_nudged_moves_each_float_by_one_unit() -> None:
    """Integers, infinities and NaN stay."""
    feeds = {"x": np.float32([1, -2, np.inf, np.nan, 0]), "i": np.int64([3])}
    moved = nudged(feeds, 0)
    assert np.array_equal(moved["i"], feeds["i"])
    assert np.array_equal(moved["x"][2:4], feeds["x"][2:4], equal_nan=True)
    finite = [0, 1, 4]
    up, down = (np.nextafter(feeds["x"], np.float32(s)) for s in (np.inf, -np.inf))
    assert all(moved["x"][k] in (up[k], down[k]) for k in finite)


def deep() -> ModelProto:
    """So many layers that each multiply, that rounding grows to a thousandth of the output."""
    model = conv_bn_leaky(channels=(3, *[4] * 150))
    for tensor in model.graph.initializer:
        factor = (
            2.0 if tensor.name.startswith("W") else 0.0 if tensor.name.startswith(("shift", "mean")) else 1.0
        )
        values = (numpy_helper.to_array(tensor) * np.float32(factor)).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return model


def test_a_deep_model_passes_when_every_site_does() -> None:
    """All else is the same, and the model itself moves as far as the two differ; how far is the processor's matter."""
    found = fuser.fuse(deep()).report.parity
    assert found is not None
    assert found.verdict == "passed", found.reason
    assert "the model amplifies rounding" in found.reason


def wrong_slope(model: ModelProto) -> None:
    next(a for a in model.graph.node[70].attribute if a.name == "negative_slope").f *= 1.01


def wrong_end(model: ModelProto) -> None:
    model.graph.node.add(op_type="Neg", input=["before"], output=["y"])
    model.graph.node[-2].output[0] = "before"


def missing_input(model: ModelProto) -> None:
    model.graph.node[70].input[1] = "nowhere"


@pytest.mark.parametrize("mutate", [wrong_slope, wrong_end, missing_input])
def test_no_error_passes_for_amplified_rounding(mutate: Callable[[ModelProto], None]) -> None:
    """Neither in a site nor outside of all."""
    before = deep()
    result = fuser.fuse(before, parity=False)
    sites = [Site(f.graph, f.output, f.inputs, f.op, f.nodes) for f in result.report.fusions]
    after = result.model
    mutate(after)
    assert check_parity(before, after, sites=sites).verdict == "failed"
