"""Padding written out pads as auto_pad did: run, over kernels, strides, dilations and sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import ModelProto, helper

from fuser.targets.atc import to_atc_form
from tests.builders import model as build
from tests.builders import tensor
from tests.targets.running import Array, assert_same, feeds, run

small = st.integers(min_value=1, max_value=4)


def outputs(model: ModelProto) -> list[Array] | None:
    """What a model computes, or None where onnxruntime refuses it."""
    try:
        return run(model, feeds(model))
    except Exception:  # onnxruntime's exceptions have no common base but this
        return None


@given(
    op=st.sampled_from(["Conv", "ConvTranspose"]),
    mode=st.sampled_from(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]),
    kernel=st.tuples(small, small),
    strides=st.tuples(small, small),
    dilations=st.one_of(st.none(), st.tuples(small, small)),
    size=st.tuples(st.integers(5, 12), st.integers(5, 12)),
)
@settings(max_examples=100, deadline=None)
def test_explicit_padding_is_the_same(
    *,
    op: str,
    mode: str,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int] | None,
    size: tuple[int, int],
) -> None:
    """The same values in the same places, whatever the mode."""
    attributes: dict[str, object] = {"auto_pad": mode, "strides": list(strides)}
    if dilations is not None:
        attributes["dilations"] = list(dilations)
    node = helper.make_node(op, ["x", "w"], ["y"], "n", **attributes)
    weight = tensor("w", np.random.default_rng(1).standard_normal((2, 2, *kernel)))
    model = build([node], {"x": [1, 2, *size]}, {"y": None}, [weight], opset=11, check=False)
    expected = outputs(model)
    assume(expected is not None)
    emitted, findings = to_atc_form(model)
    written = {a.name for a in emitted.graph.node[0].attribute}
    negative = mode.startswith("SAME") and any(k < s for k, s in zip(kernel, strides, strict=True))
    assert findings == () or (negative and "auto_pad" in written)
    assert findings != () or not {"auto_pad", "output_shape"} & written
    assert_same(expected or [], run(emitted, feeds(model)))


@given(
    mode=st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER"]),
    kernel=st.tuples(small, small),
    strides=st.tuples(small, small),
    size=st.tuples(st.integers(3, 6), st.integers(3, 6)),
    less=st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
@settings(max_examples=100, deadline=None)
def test_output_shape_becomes_padding(
    *,
    mode: str,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    size: tuple[int, int],
    less: tuple[int, int],
) -> None:
    """An output_shape that crops the full output is padding, split as the mode says."""
    full = [s * (n - 1) + k for k, s, n in zip(kernel, strides, size, strict=True)]
    wanted = [max(n - cut, 1) for n, cut in zip(full, less, strict=True)]
    node = helper.make_node(
        "ConvTranspose", ["x", "w"], ["y"], "n", auto_pad=mode, strides=strides, output_shape=wanted
    )
    weight = tensor("w", np.random.default_rng(1).standard_normal((2, 2, *kernel)))
    model = build([node], {"x": [1, 2, *size]}, {"y": None}, [weight], opset=11, check=False)
    expected = outputs(model)
    assume(expected is not None)
    emitted, findings = to_atc_form(model)
    assert findings == ()
    assert not {"auto_pad", "output_shape"} & {a.name for a in emitted.graph.node[0].attribute}
    assert_same(expected or [], run(emitted, feeds(model)))


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_every_rank(op: str, rank: int) -> None:
    """One, two and three spatial axes."""
    weight = tensor("w", np.random.default_rng(1).standard_normal((2, 2, *[3] * rank)))
    node = helper.make_node(op, ["x", "w"], ["y"], "n")
    model = build([node], {"x": [1, 2, *[6] * rank]}, {"y": None}, [weight], opset=11, check=False)
    emitted, _ = to_atc_form(model)
    written = {a.name: helper.get_attribute_value(a) for a in emitted.graph.node[0].attribute}
    assert written["kernel_shape"] == [3] * rank
    assert written["pads"] == [0] * 2 * rank
    assert_same(run(model, feeds(model)), run(emitted, feeds(model)))
