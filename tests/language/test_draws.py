"""What the bench draws, and what it cuts out of `main`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from fuser.language.bench_draws import KINDS, float_attributes, values, variants
from fuser.language.conditions import by_shape_alone

FLOATS = st.floats(-4, 4, width=32)


@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 999), rank=st.integers(0, 4))
def test_values_fit_the_declared_inputs(kind: str, seed: int, rank: int) -> None:
    """Types and fixed dimensions as declared; one size per name; no size is shared by chance of position."""
    shape = ["N", 3, "N", None][:rank]
    inputs = [
        helper.make_tensor_value_info("a", TensorProto.FLOAT, shape),
        helper.make_tensor_value_info("b", TensorProto.FLOAT16, ["N"]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, [2]),
        helper.make_tensor_value_info("d", TensorProto.UINT8, [7]),
        helper.make_tensor_value_info("e", TensorProto.INT64, [7]),
    ]
    drawn = values(Path("rule.onnxtxt"), inputs, kind, np.random.default_rng(seed))
    size = drawn["b"].shape[0]
    assert drawn["a"].shape[:3] == (size, 3, size)[:rank]
    assert [array.dtype.name for array in drawn.values()] == ["float32", "float16", "bool", "uint8", "int64"]
    assert all(np.isfinite(drawn[name]).all() for name in "ab")


@pytest.mark.parametrize(
    ("kind", "property_"),
    [
        ("normal", lambda x: (x > 0).any() and (x < 0).any() and (x != 0).all()),
        (
            "ties",
            lambda x: len(np.unique(x)) <= 9 and (x == 0).any() and (x == 1).any() and (x == -0.5).any(),
        ),
        ("sparse", lambda x: 0.3 < (x == 0).mean() < 0.7),
        ("negative", lambda x: (x < 0).all()),
        ("wide", lambda x: (x > 6).any() and (x < -6).any()),
    ],
)
def test_each_kind_is_what_it_says(kind: str, property_: object) -> None:
    """On a thousand values."""
    assert callable(property_)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1000])]
    assert property_(values(Path("rule.onnxtxt"), inputs, kind, np.random.default_rng(0))["x"])


@given(alpha=FLOATS, beta=FLOATS, seed=st.integers(0, 999))
def test_six_variants_reach_both_sides_of_zero_and_one(alpha: float, beta: float, seed: int) -> None:
    """For each attribute, whatever main gives; and the sign that main does not give."""
    found = variants({"alpha": alpha, "beta": beta}, np.random.default_rng(seed))
    rows = [next(found) for _ in range(6)]
    for name, value in (("alpha", alpha), ("beta", beta)):
        column = [row[name] for row in rows]
        assert 0.0 in column
        assert any(0 < x < 1 for x in column)
        assert any(1 < x < 2 for x in column)
        assert any(x >= 2 for x in column)
        assert any(x == -value or (value == 0 and x == -1) for x in column)
        assert all(x == np.float32(x) for x in column)


def test_floats_alone_vary() -> None:
    """Not integers, not lists: these say which operator is meant."""
    node = helper.make_node("A", [], [], f=0.5, i=1, l=[0.5, 1.5], s="x")
    assert float_attributes(node) == {"f": 0.5}
    assert list(variants({}, np.random.default_rng(0))) == []


CONDITIONS = """<domain: "where", opset_import: ["" : 17]>
W <alpha, group> (x, w) => (rank, values, slope, both, integers, literal, groups)
{
  d = Shape(x)
  r = Size(d)
  two = Constant <value_int = 2> ()
  rank = Equal(r, two)
  s = ReduceSum(x)
  zero = Constant <value_float = 0.0> ()
  values = Greater(s, zero)
  a = Constant <value_float: float = @alpha> ()
  slope = Greater(a, zero)
  both = And(rank, slope)
  g = Constant <value_int: int = @group> ()
  integers = Equal(g, two)
  literal = Greater(zero, zero)
  n = Shape <start = 0, end = 1> (w)
  groups = Equal(n, g)
}
"""


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("rank", True),
        ("groups", True),
        ("values", False),
        ("slope", False),
        ("both", False),
        ("integers", False),
        ("literal", False),
    ],
)
def test_conditions_by_what_they_look_at(condition: str, expected: bool) -> None:
    """Shapes, alone or with integers, can't be drawn; values and float attributes can."""
    assert by_shape_alone(onnx.parser.parse_function(CONDITIONS), condition) is expected
