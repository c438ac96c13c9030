"""Sigmoid's absolute error: a discriminator that says 1e-6 passes, and what differs by more still fails."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto, numpy_helper

from fuser.parity import check_parity
from fuser.parity.kernels import ERRORS, absolute_errors

WHOLE = "l = MatMul (x, w)"
HALVES = (
    "from = Constant <value_ints = [0]> () half = Constant <value_ints = [31]> () to = Constant <value_ints = [64]> () "
    "columns = Constant <value_ints = [1]> () rows = Constant <value_ints = [0]> () "
    "xa = Slice (x, from, half, columns) xb = Slice (x, half, to, columns) "
    "wa = Slice (w, from, half, rows) wb = Slice (w, half, to, rows) "
    "la = MatMul (xa, wa) lb = MatMul (xb, wb) l = Add (lb, la)"
)
"""The same product, rounded in another order."""


def discriminator(
    shift: float, after: str = "y = Sigmoid (s)", product: str = WHOLE, weight: float = 1.0
) -> ModelProto:
    """A matrix product, moved to where Sigmoid is as small as ``shift`` says."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[N, 64] x) => (float[N, M] y) '
        f"{{ {product} k = Constant <value_float = {shift}> () s = Add (l, k) {after} }}"
    )
    array = np.random.default_rng(0).normal(0, 0.25 * weight, (64, 4)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(array, "w"))
    return model


@pytest.mark.parametrize("shift", [0.0, -6.0, -8.0, -10.0, -12.0])
def test_rounding_before_a_small_sigmoid_is_no_failure(shift: float) -> None:
    """However small the output is, the kernel's own error is allowed."""
    found = check_parity(discriminator(shift), discriminator(shift, product=HALVES), draws=4)
    assert found.verdict == "passed", found.reason


@pytest.mark.parametrize("shift", [0.0, -6.0, -8.0])
def test_a_weight_off_by_a_hundredth_fails(shift: float) -> None:
    """What the kernel's error does not explain is an error."""
    assert check_parity(discriminator(shift), discriminator(shift, weight=1.01), draws=4).verdict == "failed"


def test_what_only_the_kernels_error_could_show_is_no_evidence() -> None:
    """At 1e-7 an output says nothing of the weights, though its values differ."""
    inputs = {"x": np.random.default_rng(1).normal(0, 0.1, (8, 64)).astype(np.float32)}
    found = check_parity(discriminator(-16.0), discriminator(-16.0, weight=1.01), inputs=inputs)
    assert found.verdict == "inconclusive"
    assert "onnxruntime computes it to within 1.5e-07" in found.reason


@pytest.mark.parametrize(
    ("after", "error"),
    [
        ("y = Sigmoid (s)", ERRORS["Sigmoid"]),
        ("p = Sigmoid (s) y = Identity (p)", ERRORS["Sigmoid"]),
        ("p = Sigmoid (s) y = Flatten (p)", ERRORS["Sigmoid"]),
        ("p = Sigmoid (s) y = Mul (p, s)", None),
        ("y = Identity (s)", None),
    ],
)
def test_the_outputs_that_it_makes_are_known(after: str, error: float | None) -> None:
    """Through what only passes values on."""
    assert absolute_errors(discriminator(0.0, after)).get("y") == error
