"""The sizes that a Conv and a ConvTranspose give are those that onnx's shape inference finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, defs, helper, shape_inference

from fuser.engine.spatial import FREE, convolved, transposed

RANK = st.integers(1, 3)


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """An operator, the spatial dims of its input and kernel, and attributes, each with or without."""
    op = draw(st.sampled_from(("Conv", "ConvTranspose")))
    n = draw(RANK)

    def ints(low: int, high: int, size: int = n) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=size, max_size=size))

    attributes: dict[str, Any] = {}
    if draw(st.booleans()):
        attributes["strides"] = ints(1, 4)
    if draw(st.booleans()):
        attributes["dilations"] = ints(1, 3)
    padding = draw(st.sampled_from(("", "pads", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")))
    if padding == "pads":
        attributes["pads"] = ints(0, 3, 2 * n)
    elif padding:
        attributes["auto_pad"] = padding
    if op == "ConvTranspose" and not padding.startswith("SAME") and draw(st.booleans()):
        attributes["output_padding"] = ints(0, 2)
    # onnx crops nothing, so its sizes differ for kernels smaller than the stride.
    if op == "ConvTranspose" and padding.startswith("SAME"):
        attributes.pop("strides", None)
    if op == "ConvTranspose" and draw(st.integers(0, 3)) == 0:
        attributes["output_shape"] = ints(20, 30)  # onnx wants it no smaller than the input
    return op, tuple(ints(8, 20)), tuple(ints(1, 3)), attributes


def protos(attributes: Mapping[str, Any]) -> dict[str, AttributeProto]:
    return {name: helper.make_attribute(name, value) for name, value in attributes.items()}


@given(convolutions())
def test_sizes_are_those_of_shape_inference(
    drawn: tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]],
) -> None:
    op, x, kernel, attributes = drawn
    node = helper.make_node(op, ["x", "w"], ["y"], **attributes)
    types = {
        "x": helper.make_tensor_type_proto(TensorProto.FLOAT, (1, 2, *x)),
        "w": helper.make_tensor_type_proto(TensorProto.FLOAT, (2, 2, *kernel)),
    }
    found = shape_inference.infer_node_outputs(defs.get_schema(op, 13), node, types)
    expected = tuple(d.dim_value for d in found["y"].tensor_type.shape.dim)[2:]
    of = convolved if op == "Conv" else transposed
    assert of(protos(attributes), x, kernel) == expected


@pytest.mark.parametrize(
    ("of", "x", "attributes", "expected"),
    [
        (convolved, (FREE, 7), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (FREE, 4)),
        (convolved, (FREE, 7), {}, (FREE, 5)),
        (convolved, (7, 7), {"strides": [2]}, (FREE, FREE)),
        (convolved, (7, 7), {"pads": [1, 1]}, (FREE, FREE)),
        (convolved, (7, 7), {"strides": [0, 1]}, (FREE, FREE)),
        (transposed, (FREE, 7), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, (FREE, 14)),
        (transposed, (FREE, 7), {"output_shape": [9, 9]}, (9, 9)),
        (transposed, (7, 7), {"output_shape": [1, 2, 9, 9]}, (FREE, FREE)),
        (transposed, (7, 7), {"auto_pad": "SAME_UPPER", "strides": [2, 4]}, (14, FREE)),
        # onnx's shape inference says 15, onnxruntime gives 14
        (transposed, (7, 7), {"auto_pad": "SAME_UPPER", "strides": [2, 2], "output_padding": [1, 1]}, (FREE, FREE)),
    ],
)  # fmt: skip
def test_what_is_not_known_or_contradicts_itself_is_free(
    of: Any, x: tuple[int, ...], attributes: dict[str, Any], expected: tuple[int, ...]
) -> None:
    assert of(protos(attributes), x, (3, 3)) == expected


def test_an_attribute_of_the_function_around_it_is_free() -> None:
    attributes = {
        "strides": AttributeProto(name="strides", ref_attr_name="strides", type=AttributeProto.INTS)
    }
    assert convolved(attributes, (7,), (3,)) == (FREE,)
    assert transposed(attributes, (7,), (3,)) == (FREE,)
