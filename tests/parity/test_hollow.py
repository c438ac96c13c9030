"""Ways to agree that prove nothing: each is inconclusive with a reason, or the difference is found after all."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto

from fuser.parity import check_parity

Inputs = dict[str, np.ndarray[Any, Any]]


def text(body: str, inputs: str = "float[N, 4] x", outputs: str = "float[N, M] y") -> ModelProto:
    """A model from ONNX text."""
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g ({inputs}) => ({outputs}) {{ {body} }}'
    )


def leaky(slope: float, after: str, **more: str) -> ModelProto:
    """A LeakyRelu of x, and what follows it."""
    return text(f"l = LeakyRelu <alpha = {slope}> (x) {after}", **more)


SATURATED = "k = Constant <value_float = 1000.0> () s = Add (l, k) y = Sigmoid (s)"
NEARLY = "k = Constant <value_float = 100000.0> () y = Add (l, k)"
TINY = "k = Constant <value_float = 1e-13> () y = Mul (l, k)"
DEAD = "k = Constant <value_float = -1000.0> () s = Add (l, k) y = Relu (s)"
ARGMAX = "y = ArgMax <axis = 1> (l)"
NAN = "n = Sub (l, l) y = Div (n, n)"
INFINITE = "k = Constant <value_float = inf> () a = Abs (l) s = Add (a, k) y = Identity (s)"
UNREAD = "s = Shape (l) y = ConstantOfShape (s)"
NONE = (
    "i = Constant <value = int64[2] {0, 0}> () e = Constant <value = int64[2] {0, 4}> () y = Slice (l, i, e)"
)


@pytest.mark.parametrize(
    ("after", "outputs", "inputs", "reason"),
    [
        (
            SATURATED,
            "float[N, 4] y",
            None,
            "'y': it is the same over all draws, so it could hardly show an error",
        ),
        (NEARLY, "float[N, 4] y", None, "of its scale only over all draws"),
        (TINY, "float[N, 4] y", None, "of its scale only over all draws"),
        (DEAD, "float[N, 4] y", None, "it is the same over all draws"),
        (ARGMAX, "int64[N, 1] y", None, "4 whole values in all, which agree too easily: ask for more draws"),
        (NAN, "float[N, 4] y", None, "every value is NaN or infinite"),
        (INFINITE, "float[N, 4] y", None, "every value is NaN or infinite"),
        (UNREAD, "float[N, 4] y", None, "it is the same over all draws"),
        (NONE, "float[N, M] y", None, "it has no element"),
        (
            "y = Identity (l)",
            "float[N, 4] y",
            {"x": np.zeros((2, 4), np.float32)},
            "each input is one number throughout",
        ),
        ("y = Identity (l)", "float[N, 4] y", {"x": np.zeros((0, 4), np.float32)}, "it has no element"),
        (
            "y = Identity (l)",
            "float[N, 4] y",
            {"x": np.full((2, 4), np.nan, np.float32)},
            "every value is NaN",
        ),
        ("y = Identity (l)", "float[N, 4] y", {"x": np.ones((2, 4), np.float32)}, "give inputs that vary"),
    ],
)
def test_agreement_that_says_nothing_is_inconclusive(
    after: str, outputs: str, inputs: Inputs | None, reason: str
) -> None:
    """The slopes are quite different, and no output shows it."""
    a, b = leaky(0.1, after, outputs=outputs), leaky(0.5, after, outputs=outputs)
    found = check_parity(a, b, inputs=inputs)
    assert found.verdict == "inconclusive", found.reason
    assert reason in found.reason


@pytest.mark.parametrize("after", [SATURATED, NEARLY, DEAD, UNREAD])
def test_the_same_model_passes_all_the_same(after: str) -> None:
    """Node for node, constants by content: there is nothing that could differ."""
    a = leaky(0.1, after)
    found = check_parity(a, a)
    assert found.verdict == "passed"
    assert "the models are the same node for node" in found.reason


def test_a_constant_output_of_another_value_is_another_model() -> None:
    """An output that is an initializer has no node, and counts."""
    a, b = (
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] y, float[1] z) '
            f"<float[1] z = {{{value}}}> {{ k = Constant <value_float = 0.0> () y = Mul (x, k) }}"
        )
        for value in (1, 2)
    )
    assert check_parity(a, b).verdict == "failed"
    assert check_parity(a, a).verdict == "passed"


def test_one_output_that_moves_is_enough_and_the_others_are_told() -> None:
    """The verdict is about the one."""
    a = leaky(
        0.1, "y = Identity (l) s = Shape (x) z = ConstantOfShape (s)", outputs="float[N, 4] y, float[N, 4] z"
    )
    found = check_parity(a, a)
    assert found.verdict == "passed"
    assert "1 output agrees over 3 draws" in found.reason
    assert "not judged: 'z', it is the same over all draws" in found.reason


def test_a_model_without_inputs_can_give_nothing_else() -> None:
    """So what it gives is all there is."""
    body = "k = Constant <value_floats = [1.0, {}]> () y = Abs (k)"
    a, b = (text(body.format(value), inputs="", outputs="float[2] y") for value in ("-2.0", "3.0"))
    assert check_parity(a, a).verdict == "passed"
    assert check_parity(a, b).verdict == "failed"


def test_many_whole_values_are_evidence() -> None:
    """A map of classes, or an answer for each of many draws."""
    a, b = (leaky(slope, ARGMAX, outputs="int64[N, 1] y") for slope in (0.1, 0.5))
    assert check_parity(a, a, draws=30).verdict == "passed"
    assert (
        check_parity(a, b, draws=30).verdict == "passed"
    )  # the largest stays the largest, whatever the slope
    c = leaky(-0.5, ARGMAX, outputs="int64[N, 1] y")
    assert check_parity(a, c, draws=30).verdict == "failed"
