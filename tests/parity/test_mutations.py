"""Every way to get a fusion wrong must fail the check, and the right one must pass."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper

from fuser.parity import check_parity
from tests.builders import conv_bn_leaky
from tests.parity.pairs import change, fused, initializer


def chain() -> ModelProto:
    return conv_bn_leaky(channels=(3, 4, 5))


def zero_a_weight(b: ModelProto) -> None:
    change(initializer(b.graph, "W1_folded"), (2, 1, 1, 1), 0.0)


def change_the_slope(b: ModelProto) -> None:
    next(a for a in b.graph.node[1].attribute if a.name == "negative_slope").f *= 1.01


def swap_two_channels(b: ModelProto) -> None:
    for name in ("W1_folded", "W1_bias"):
        tensor = initializer(b.graph, name)
        values = numpy_helper.to_array(tensor).copy()
        values[[0, 1]] = values[[1, 0]]
        tensor.CopyFrom(numpy_helper.from_array(values, name))


def use_relu(b: ModelProto) -> None:
    leaky = b.functions[0].node[1]
    leaky.op_type = "Relu"
    del leaky.attribute[:]


def shift_a_bias(b: ModelProto) -> None:
    tensor = initializer(b.graph, "W1_bias")
    change(tensor, (3,), float(numpy_helper.to_array(tensor)[3]) + 4e-3)  # outputs are up to about 4


def put_a_nan(b: ModelProto) -> None:
    change(initializer(b.graph, "W1_bias"), (3,), np.nan)


def forget_the_padding(b: ModelProto) -> None:
    next(a for a in b.graph.node[1].attribute if a.name == "pads").ints[:] = [0, 0, 0, 0]


def refer_to_nothing(b: ModelProto) -> None:
    b.graph.node[1].input[1] = "nowhere"


WRONG = {
    zero_a_weight: "output 'y' differs",
    change_the_slope: "output 'y' differs",
    swap_two_channels: "output 'y' differs",
    use_relu: "output 'y' differs",
    shift_a_bias: "output 'y' differs",
    put_a_nan: "NaN or infinity in different places",
    forget_the_padding: "B gives float32[1, 5, 6, 6]",
    refer_to_nothing: "B does not load, A does",
}


@pytest.mark.parametrize("mutate", WRONG, ids=lambda f: f.__name__)
def test_a_wrong_fusion_fails(mutate):
    """In each, one thing is off; the reason says what was seen."""
    a = chain()
    b, sites = fused(a)
    mutate(b)
    found = check_parity(a, b, sites=sites)
    assert found.verdict == "failed"
    assert WRONG[mutate] in found.reason
    assert found.guilty == tuple(sites if mutate is use_relu else sites[1:])


def test_the_right_fusion_passes():
    """With room to spare: a tenth of the tolerance would do. Both signs were seen at both places."""
    a = chain()
    b, sites = fused(a)
    found = check_parity(a, b, sites=sites)
    assert found.verdict == "passed"
    (output,) = found.outputs
    assert output.smallest_tolerance < output.tolerance / 10
    assert output.cosine == pytest.approx(1.0)
    assert output.snr_db > 100
    assert all(0.02 < site.negatives < 0.98 for site in found.sites)
    assert found.judge.startswith("onnxruntime")
    assert "optimizations off" in found.judge


def test_a_model_equals_itself():
    """Bit by bit."""
    found = check_parity(chain(), chain())
    assert (found.verdict, found.outputs[0].max_abs) == ("passed", 0.0)


@pytest.mark.parametrize(
    ("mutate", "reason"),
    [
        (lambda g: g.output.pop(), "A gives the outputs y, act0, B gives y"),
        (lambda g: g.output.reverse(), "A gives the outputs y, act0, B gives act0, y"),
        (
            lambda g: setattr(g.output[1].type.tensor_type, "elem_type", 10),
            "is float[N,4,8,8] in A and float16",
        ),
        (lambda g: setattr(g.input[0], "name", "z"), "A takes the inputs x, B takes z"),
        (lambda g: setattr(g.input[0].type.tensor_type, "elem_type", 11), "in A and double[N,3,8,8] in B"),
        (lambda g: setattr(g.input[0].type.tensor_type.shape.dim[3], "dim_value", 9), "[N,3,8,9] in B"),
        (lambda g: g.input.append(helper.make_tensor_value_info("more", 1, [1])), "B takes x, more"),
    ],
)
def test_another_interface_fails(mutate, reason):
    """Whatever the outputs are: nobody could call B as A is called."""
    a = chain()
    a.graph.output.append(helper.make_tensor_value_info("act0", 1, ["N", 4, 8, 8]))
    b = ModelProto()
    b.CopyFrom(a)
    mutate(b.graph)
    found = check_parity(a, b)
    assert found.verdict == "failed"
    assert reason in found.reason


def test_an_overridable_weight_that_is_gone_is_another_interface():
    """From IR version 4 on a caller may set it; before, it was a constant."""
    for ir, verdict in ((8, "failed"), (3, "passed")):
        a = conv_bn_leaky(opset=8, ir=ir, overridable=True)
        b = ModelProto()
        b.CopyFrom(a)
        del b.graph.input[1:]
        b.ir_version = max(ir, 4)
        assert check_parity(a, b).verdict == verdict
        assert check_parity(a, b, freeze_inputs=True).verdict == "passed"


def test_an_overridable_weight_is_overridden():
    """B has folded its default value in, and keeps the input: only a caller who sets it would notice."""
    a = conv_bn_leaky(overridable=True)
    b = ModelProto()
    b.CopyFrom(a)
    b.graph.node[1].input[1] = "frozen"
    tensor = b.graph.initializer.add()
    tensor.CopyFrom(initializer(a.graph, "scale0"))
    tensor.name = "frozen"
    found = check_parity(a, b)
    assert found.verdict == "failed"
    assert found.outputs[0].draw == 1
