"""What is drawn, and how free dimensions get their sizes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from fuser.parity.draws import KINDS, Plan, drawn, supplied
from fuser.parity.runner import EngineError
from fuser.parity.shapes import Setting, dims_from_weights, resolve, settings
from fuser.parity.source import InputSpec
from tests.builders import conv_bn_leaky, model, tensor

FIRST = Setting(batch=1, size=8, rank=4, ints="small")


def spec(name: str, *dims: int | str | None, dtype: int = TensorProto.FLOAT) -> InputSpec:
    return InputSpec(name, dtype, dims)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_floats_have_both_signs_and_stay_finite(kind, dtype):
    """In every kind and type."""
    plan = Plan([spec("x", 4, 64, dtype=dtype)], 1, 0)
    values = plan.feed(kind, 0, FIRST)["x"]
    assert values.dtype == plan.specs[0].dtype
    values = values.astype(np.float64)
    assert np.isfinite(values).all()
    assert values.min() < 0 < values.max()


def test_the_sparse_kind_has_zeros_and_ties():
    """Exactly equal values, which a maximum has to choose between."""
    values = Plan([spec("x", 1000)], 1, 0).feed("sparse", 1, FIRST)["x"]
    assert (values == 0).mean() > 0.25
    assert len(np.unique(values)) < 10


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ints", ["small", "ones", "zeros"])
def test_integers_may_be_indices(kind, ints):
    """Small, and never negative."""
    values = Plan([spec("i", 100, dtype=TensorProto.INT64)], 1, 0).feed(kind, 0, Setting(1, 8, 4, ints))["i"]
    assert 0 <= values.min() <= values.max() <= 3


def test_an_8_bit_image_takes_its_whole_range():
    """It is an image, not an index."""
    values = Plan([spec("x", 3, 64, 64, dtype=TensorProto.UINT8)], 1, 0).feed("normal", 0, FIRST)["x"]
    assert (values.min(), values.max()) == (0, 255)


def test_the_batch_alternates_and_falls_back():
    """1, 2, 1 where both run; else the one that does."""
    plan = Plan([spec("x", "N", 3)], 4, 0)
    assert [ran.draw.batch for ran in drawn(plan, lambda feed: {"y": feed["x"]})] == [1, 2, 1, 2]

    def only_two(feed):
        if feed["x"].shape[0] != 2:
            raise EngineError("the batch is 2")
        return {"y": feed["x"]}

    assert [ran.draw.batch for ran in drawn(plan, only_two)] == [2, 2, 2, 2]


def test_the_first_refusal_is_the_one_reported():
    """Later ones are about sizes nobody asked for."""
    errors = iter(range(1000))

    def refuse(_):
        raise EngineError(f"refusal {next(errors)}")

    with pytest.raises(EngineError, match="refusal 0"):
        drawn(Plan([spec("x", "N", "C")], 3, 0), refuse)
    with pytest.raises(EngineError, match="refusal"):
        supplied([{"x": np.zeros(1)}], refuse)


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ([spec("x", "N", 3, "H", "H")], [(1, 3, 8, 8)]),
        ([spec("x", None, 3), spec("z", None, 4)], [(1, 3), (1, 4)]),
        ([spec("x", "N", "C"), spec("b", "C")], [(1, 8), (8,)]),
        ([spec("x", "seq", "batch_size", 16)], [(1, 1, 16)]),
        ([InputSpec("x", 1, None)], [(1, 8, 8, 8)]),
        ([spec("x")], [()]),
        ([spec("x", 0, 3)], [(0, 3)]),
    ],
)
def test_symbols_are_sizes(specs, expected):
    """Equal ones are equal, the first dimension is the batch unless it is an inner one elsewhere."""
    assert list(resolve(specs, {}, FIRST).values()) == expected


def test_nothing_free_is_tried_once():
    """And what is free as often as needed, but never beyond what a machine holds."""
    assert len(list(settings([spec("x", 1, 3)], {}))) == 1
    assert len(list(settings([spec("x", "N", 3)], {}))) == 2
    assert len(list(settings([spec("x", 1, "C")], {"x": (1, 5)}))) == 1
    volumes = list(settings([spec("x", 1, 3, "D", "H", "W")], {}))
    assert max(setting.size for setting in volumes) < 224


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (conv_bn_leaky(channels=(6, 4), group=2), (None, 6, None, None)),
        (conv_bn_leaky(channels=(6, 4), transpose=True), (None, 6, None, None)),
    ],
)
def test_weights_say_what_enters(built, expected):
    """The channels of what a convolution takes follow from its weight and its groups."""
    assert dims_from_weights(built.graph)["x"] == expected


@pytest.mark.parametrize(
    ("operator", "attributes", "expected"),
    [
        ("MatMul", {}, (None, 3)),
        ("Gemm", {}, (None, 3)),
        ("Gemm", {"transB": 1}, (None, 5)),
        ("Gemm", {"transA": 1}, (3, None)),
    ],
)
def test_matrices_say_what_enters(operator, attributes, expected):
    """Also through an operator that keeps the shape; the weight is [3, 5]."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node(operator, ["r", "w"], ["y"], **attributes),
    ]
    built = model(nodes, {"x": ("A", "B")}, {"y": None}, [tensor("w", np.ones((3, 5)))], check=False)
    assert dims_from_weights(built.graph)["x"] == expected
