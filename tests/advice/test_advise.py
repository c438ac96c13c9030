"""Notes: each is given where its numbers say so, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper

import fuser
from fuser.advice import Note, advise
from fuser.parity import Parity, Site, SiteDifference
from fuser.storage import from_proto
from tests.builders import conv_bn_leaky, tensor


def notes(model: ModelProto, parity: Parity | None = None, **options: object) -> list[Note]:
    """The notes on a model and its fused form."""
    fused = fuser.fuse(model, parity=False, **options).stored.proto  # type: ignore[arg-type]
    return list(advise(from_proto(model), fused, parity))


def codes(model: ModelProto, **options: object) -> list[tuple[str, str]]:
    """Code and node of each note."""
    return [(n.code, n.node) for n in notes(model, **options)]


def sloped(*slopes: float) -> ModelProto:
    """One block per slope."""
    model = conv_bn_leaky(channels=(3, *[4] * len(slopes)), size=4)
    activations = [n for n in model.graph.node if n.op_type == "LeakyRelu"]
    for node, slope in zip(activations, slopes, strict=True):
        node.attribute[0].f = slope
    return model


def with_statistics(values: Mapping[str, Sequence[float]]) -> ModelProto:
    """One block of as many channels as there are values, of which some parameters are these."""
    model = conv_bn_leaky(channels=(3, len(next(iter(values.values())))), size=4)
    for initializer in model.graph.initializer:
        if initializer.name in values:
            initializer.CopyFrom(tensor(initializer.name, np.array(values[initializer.name])))
    return model


UNTRAINED = {"mean0": [0, 0, 0], "var0": [1, 1, 1], "scale0": [1, 1, 1], "shift0": [0, 0, 0]}


@pytest.mark.parametrize(
    ("slopes", "expected"),
    [
        ((0.2, 0.2, 0.2), []),
        ((0.2,), []),
        ((0.2, 0.1), []),
        ((0.0,), [("slope-zero", "Conv_0")]),
        ((1.0,), [("slope-outside", "Conv_0")]),
        ((5.0,), [("slope-outside", "Conv_0")]),
        ((-0.2,), [("slope-outside", "Conv_0")]),
        ((0.2, 0.1, 0.2), [("slope-unlike", "Conv_1")]),
        ((0.1, 0.2, 0.2), [("slope-unlike", "Conv_0")]),
        ((0.2, 0.2, 0.1), [("slope-unlike", "Conv_2")]),
        ((0.3, 0.2, 0.1), []),
        ((0.2, 0.2, 0.1, 0.1), []),
    ],
)
@pytest.mark.parametrize("fused_as", ["function", "standard"])
def test_slopes(slopes: tuple[float, ...], expected: list[tuple[str, str]], fused_as: str) -> None:
    """In a fused operator and beside one alike; its node is then LeakyRelu's."""
    found = codes(sloped(*slopes), fused_as=fused_as)
    if fused_as == "standard":
        expected = [(code, node.replace("Conv", "LeakyRelu")) for code, node in expected]
    assert found == expected


def test_a_slope_is_said_as_the_source_had_it() -> None:
    """0.2 in float32 is 0.200000003."""
    [note] = notes(sloped(0.2, 0.1, 0.2))
    assert note.numbers == (("slope", 0.1), ("neighbours' slope", 0.2))
    assert "is 0.1, and that of its neighbours 'Conv_0' and 'Conv_2' is 0.2" in note.message


def test_a_leaky_relu_without_alpha_has_the_default() -> None:
    """0.01, which its neighbours have not."""
    model = sloped(0.2, 0.2, 0.2)
    del next(n for n in model.graph.node if n.name == "LeakyRelu_1").attribute[:]
    assert codes(model) == [("slope-unlike", "Conv_1")]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (UNTRAINED, ["bn-untrained"]),
        ({**UNTRAINED, "mean0": [0, 0, 1e-3]}, []),
        ({**UNTRAINED, "scale0": [1, 0, 1]}, ["channels-dead"]),
        ({**UNTRAINED, "scale0": [0, 0, 0]}, ["channels-dead"]),
        ({**UNTRAINED, "scale0": [1, 1e-5, 1]}, ["channels-faint"]),
        ({**UNTRAINED, "scale0": [1, 1e-2, 1]}, []),
        ({**UNTRAINED, "var0": [1, 1e8, 1]}, ["channels-faint"]),
        ({**UNTRAINED, "scale0": [1, 0, -1e-5, 1], "mean0": [0] * 4, "var0": [1] * 4, "shift0": [0] * 4},
         ["channels-dead", "channels-faint"]),
        ({**UNTRAINED, "var0": [1, -2, 1]}, []),
    ],
)  # fmt: skip
def test_statistics(values: Mapping[str, Sequence[float]], expected: list[str]) -> None:
    """A factor is scale over deviation; one that is not finite says nothing."""
    assert codes(with_statistics(values)) == [(code, "BN_0") for code in expected]


def test_the_numbers_of_faint_channels() -> None:
    """How many of how many, the smallest, and what it is measured by."""
    values = {**UNTRAINED, "var0": [1 - 1e-5] * 3, "scale0": [2, 1e-5, 2]}
    [note] = notes(with_statistics(values))
    numbers = dict(note.numbers)
    assert (numbers["channels"], numbers["faint"]) == (3, 1)
    assert numbers["smallest factor"] == pytest.approx(1e-5)
    assert numbers["median factor"] == pytest.approx(2)


def test_parameters_in_a_body_are_its_own() -> None:
    """Both branches name their scale alike; only one is dead."""
    block = with_statistics({**UNTRAINED, "scale0": [1, 0, 1]})

    def branch(scale: list[float]) -> onnx.GraphProto:
        body = onnx.GraphProto()
        body.CopyFrom(block.graph)
        del body.input[:]
        for t in body.initializer:
            if t.name == "scale0":
                t.CopyFrom(tensor("scale0", np.array(scale)))
        return body

    condition = helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])
    node = helper.make_node(
        "If", ["c"], ["z"], "if", then_branch=branch([1, 2, 1]), else_branch=branch([1, 0, 1])
    )
    graph = helper.make_graph([node], "g", [block.graph.input[0], condition], [])
    graph.output.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["N", 3, 4, 4]))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    found = list(advise(from_proto(model), model, None))
    assert [(n.code, n.message[:25]) for n in found] == [("channels-dead", "the scale of 1 of 3 chann")]


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, ["never-negative"]), (1.0, ["always-negative"]), (0.5, []), (1e-9, []), (None, [])],
)
def test_signs(share: float | None, expected: list[str]) -> None:
    """As the draws of the parity check saw them."""
    site = Site("", "y", ("x",), "ConvLeakyRelu", ("Conv_0",))
    parity = Parity("passed", "", "", sites=(SiteDifference(site, "passed", (), share, ""),))
    found = notes(conv_bn_leaky(), parity)
    assert [(n.code, n.node) for n in found] == [(code, "y") for code in expected]
    assert all(n.numbers == (("share of negative values", share),) for n in found)


def test_a_run_reports_them() -> None:
    """With a bias that no input overcomes, no value is negative."""
    model = with_statistics({**UNTRAINED, "mean0": [1] * 3, "shift0": [1e6] * 3})
    assert [n.code for n in fuser.fuse(model).report.advice] == ["never-negative"]
