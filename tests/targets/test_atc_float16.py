"""The float16 copy rounds what it should, leaves what it should not, and runs wherever the model runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, parser

from fuser.storage import StoredModel, from_proto, load, save
from fuser.targets.atc.float16 import float16_copy
from tests.builders import conv_bn_leaky
from tests.targets.running import feeds, run
from tests.targets.texts import text


def half(values: object) -> np.ndarray:
    """The values rounded to float16."""
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32).astype(np.float16).astype(np.float32)


def copied(model: ModelProto) -> ModelProto:
    return float16_copy(from_proto(model)).materialize()


def test_weights_inputs_and_values_are_rounded() -> None:
    """Each once, with float32 inside an operator; beyond 65504 is infinity."""
    model = text(
        "a = Mul (x, k)", "b = Add (a, k)", "y = Div (b, k)",
        inputs="float[4] x", outputs="float[4] y", initializers="float k = {1000.3}",
    )  # fmt: skip
    x = np.array([1 / 3, 1.0001, 64.0, 70.0], np.float32)
    k = half(1000.3)
    [y] = run(copied(model), {"x": x})
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, half(half(half(half(x) * k) + k) / k))
    assert np.isinf(y).tolist() == [False, False, False, True]


def test_branches_and_whole_numbers() -> None:
    """Values inside a branch are rounded, those it takes from outside are the rounded ones; int64 stays."""
    model = parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]> g (float[2] x, bool c, int64[2] n) => (float[2] y, int64[2] m)
<float[2] k = {0.1, 0.2}>
{
  m = Add (n, n)
  y = If (c) <
    then_branch = t () => (float[2] p) <float[2] j = {0.7, 0.3}> { q = Mul (x, k)  p = Mul (q, j) },
    else_branch = e () => (float[2] r) { r = Identity (x) }
  >
}""")
    x, n = np.array([1 / 3, 2 / 3], np.float32), np.array([2**40 + 1, 3])
    k, j = half([0.1, 0.2]), half([0.7, 0.3])
    for c, expected in ((True, half(half(half(x) * k) * j)), (False, half(x))):
        y, m = run(copied(model), {"x": x, "c": np.array(c), "n": n})
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(m, 2 * n)


def test_what_says_where_is_not_rounded() -> None:
    """A scale of Resize is no value that is computed with."""
    model = text(
        "y = Resize (x, , s)", imports='"" : 13', inputs="float[1,1,1,3000] x", outputs="float[1,1,1,3001] y",
        initializers="float[4] s = {1, 1, 1, 1.00034}",
    )  # fmt: skip
    [y] = run(copied(model), feeds(model))
    assert y.shape == (1, 1, 1, 3001)


def test_names_that_are_taken() -> None:
    """A model whose values are called as the copy would call its own."""
    model = text(
        "a = Relu (x)", '"a/exact" = Relu (a)', 'y = Add ("a/exact", "k/float16")',
        inputs="float[2] x", outputs="float[2] y", initializers='float k = {1}, float "k/float16" = {2}',
    )  # fmt: skip
    [y] = run(copied(model), {"x": np.array([1, 2], np.float32)})
    assert y.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("external", [False, True])
def test_weights_that_stay_on_disk(external: bool, tmp_path: Path) -> None:
    """Large and external weights are rounded as they are written; the model they came from is as it was."""
    model = conv_bn_leaky(channels=(64, 64), size=4)
    path = tmp_path / "m.onnx"
    whole = ModelProto.FromString(model.SerializeToString())
    onnx.save(whole, path, save_as_external_data=external, location="w.bin", size_threshold=0)
    stored: StoredModel = load(path)
    before = stored.proto.SerializeToString()
    save(float16_copy(stored), tmp_path / "h.onnx")
    assert stored.proto.SerializeToString() == before
    written = onnx.load(tmp_path / "h.onnx")
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    assert {t.data_type for t in written.graph.initializer} == {TensorProto.FLOAT16}
    for tensor in written.graph.initializer:
        rounded = weights[tensor.name.removesuffix("/float16")].astype(np.float16)
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), rounded)


def test_a_float16_model_is_its_own_copy() -> None:
    model = conv_bn_leaky(dtype=TensorProto.FLOAT16)
    assert copied(model) == model
