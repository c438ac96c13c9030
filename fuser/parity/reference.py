"""What onnx's reference implementation (1.23) computes wrongly, and so must not judge.

tests/parity/test_reference.py runs it beside onnxruntime, operator by operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from onnx import helper
from onnx.inliner import inline_local_functions

from fuser.parity.source import standard_nodes

if TYPE_CHECKING:
    from onnx import ModelProto

Attributes = Mapping[str, Any]


def misjudged(model: ModelProto) -> str:
    """The first operator of the model that the reference computes wrongly, as a clause; "" when there is none."""
    if model.functions:
        try:
            model = inline_local_functions(model)
        except RuntimeError:  # then the reference, which gets it inlined, does not run it either
            return ""
    for opset, node in standard_nodes(model):
        if node.op_type in WRONG:
            applies, what = WRONG[node.op_type]
            if applies(opset, {a.name: helper.get_attribute_value(a) for a in node.attribute}):
                return f"it computes {node.op_type} {what} wrongly, so it is no judge"
    return ""


def _asymmetric(attributes: Attributes) -> bool:
    pads = list(attributes.get("pads", ()))
    return pads[: len(pads) // 2] != pads[len(pads) // 2 :]


def _same(attributes: Attributes, *kinds: bytes) -> bool:
    """Whether it is padded so, and with strides."""
    return attributes.get("auto_pad") in kinds and any(s > 1 for s in attributes.get("strides", ()))


# It takes batch statistics.
_old_batch_normalization = (lambda opset, _: opset < 14), "below opset 14"
# It takes one axis where these operators took all from that one on.
_old_softmax = (lambda opset, a: opset < 13 and a.get("axis", 1) != -1), "below opset 13"

WRONG: Mapping[str, tuple[Callable[[int, Attributes], bool], str]] = {
    "BatchNormalization": _old_batch_normalization,
    "Softmax": _old_softmax,
    "LogSoftmax": _old_softmax,
    "Hardmax": _old_softmax,
    "ConvTranspose": (
        lambda _, a: a.get("group", 1) != 1 or _same(a, b"SAME_UPPER", b"SAME_LOWER"),
        "with groups or with automatic padding and strides",
    ),
    "MaxPool": (
        lambda _, a: _asymmetric(a) or _same(a, b"SAME_LOWER"),
        "with asymmetric padding",
    ),
    "GlobalMaxPool": ((lambda *_: True), "of other than two spatial dimensions"),
    "LpPool": ((lambda _, a: bool(a.get("ceil_mode"))), "with ceil_mode"),
    "LRN": ((lambda *_: True), "of more channels than batches"),
    "LpNormalization": ((lambda _, a: a.get("p", 2) != 2), "with p = 1"),
    "Resize": (
        lambda _, a: (
            a.get("coordinate_transformation_mode") == b"align_corners" and a.get("mode") != b"nearest"
        ),
        "with aligned corners",
    ),
    "RoiAlign": ((lambda opset, _: opset < 16), "below opset 16"),
}
