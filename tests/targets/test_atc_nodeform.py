"""Fused operators as nodes of the default domain, and back."""

from __future__ import annotations

import onnx
import pytest
from onnx import ModelProto, helper

from fuser.api import fuse
from fuser.targets.atc import fused_functions, lint, to_atc_form, with_definitions
from tests.builders import conv_bn_leaky
from tests.targets.running import assert_same, feeds, run


def fused(**options: object) -> ModelProto:
    """A model whose blocks became fused operators."""
    result: ModelProto = fuse(conv_bn_leaky(**options), fused_as="function", parity=False).model  # type: ignore[arg-type]
    return result


MODELS = {
    "Conv": {},
    "Conv, today's opset": {"opset": 24, "ir": 11},
    "Conv, several": {"channels": (3, 4, 5), "bias": True, "stride": 2},
    "ConvTranspose": {"transpose": True, "bn": False, "bias": True},
    "no BatchNormalization": {"bn": False, "bias": True, "opset": 13},
}


@pytest.mark.parametrize("name", MODELS)
def test_node_form(name: str) -> None:
    """Nothing but fused operators would be refused; with their definitions the model computes the same."""
    model = fused(**MODELS[name])
    emitted, findings = to_atc_form(model, fused_as="node")
    operators = {node.op_type for node in emitted.graph.node}
    assert operators == {function.name for function in fused_functions(model)}
    assert [(e.domain, 8 <= e.version <= 18) for e in emitted.opset_import] == [("", True)]
    assert not emitted.functions
    assert [f.rule for f in findings] in ([], ["retarget"])
    assert {f.code for f in lint(emitted) if f.severity == "error"} == {"E13010"}
    assert [f for f in lint(emitted, plugin=operators) if f.severity == "error"] == []
    restored = with_definitions(emitted, fused_functions(model))
    onnx.checker.check_model(restored, full_check=True)
    assert_same(run(model, feeds(model)), run(restored, feeds(model)))
    assert to_atc_form(emitted, fused_as="node")[0].SerializeToString() == emitted.SerializeToString()


def test_node_says_everything() -> None:
    """Attributes of the convolution, the slope under CANN's name, and the switch."""
    emitted, _ = to_atc_form(fused(), fused_as="node")
    [node] = emitted.graph.node
    assert {a.name: helper.get_attribute_value(a) for a in node.attribute} == {
        "dilations": [1, 1],
        "fuse_leaky_relu": 1,
        "group": 1,
        "kernel_shape": [3, 3],
        "negative_slope": pytest.approx(0.2),
        "pads": [1, 1, 1, 1],
        "strides": [1, 1],
    }
    assert node.domain == ""
    assert len(node.input) == 3


def test_standard_form_of_the_same() -> None:
    """Without a plugin, the fused operator is its two standard ones, called after it."""
    model = fused()
    emitted, _ = to_atc_form(model)
    assert [node.op_type for node in emitted.graph.node] == ["Conv", "LeakyRelu"]
    [call] = model.graph.node
    assert [node.name for node in emitted.graph.node] == [f"{call.name}/conv", f"{call.name}/act"]
    assert_same(run(model, feeds(model)), run(emitted, feeds(model)))
