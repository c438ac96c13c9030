"""Gate honesty: a fused model that was tampered with fails the parity check, which names the site."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import AttributeProto, ModelProto, NodeProto, numpy_helper

import fuser
from fuser.parity import Parity, Site
from tests.builders import conv_bn_leaky

SITES = 3
Mutation = Callable[[ModelProto, NodeProto], None]


def weight(model: ModelProto, node: NodeProto, which: int) -> tuple[np.ndarray, int]:  # type: ignore[type-arg]
    """A copy of the node's weight or bias, and its place among the initializers."""
    at = next(k for k, t in enumerate(model.graph.initializer) if t.name == node.input[which])
    return numpy_helper.to_array(model.graph.initializer[at]).copy(), at


def put(model: ModelProto, at: int, values: np.ndarray) -> None:  # type: ignore[type-arg]
    """Replace an initializer's values."""
    model.graph.initializer[at].CopyFrom(numpy_helper.from_array(values, model.graph.initializer[at].name))


def zero_one_weight(model: ModelProto, node: NodeProto) -> None:
    """The largest element of the weight becomes 0."""
    values, at = weight(model, node, 1)
    values.reshape(-1)[np.abs(values).argmax()] = 0
    put(model, at, values)


def zero_one_bias(model: ModelProto, node: NodeProto) -> None:
    """One element of the bias becomes 0."""
    values, at = weight(model, node, 2)
    values[np.abs(values).argmax()] = 0
    put(model, at, values)


def swap_two_channels(model: ModelProto, node: NodeProto) -> None:
    """Channels 0 and 1 of weight and bias change places."""
    for which in (1, 2):
        values, at = weight(model, node, which)
        axis = 1 if "Transpose" in node.op_type and which == 1 else 0
        order = [1, 0, *range(2, values.shape[axis])]
        put(model, at, np.take(values, order, axis))


def slope_off_by_one_percent(_: ModelProto, node: NodeProto) -> None:
    """0.2 becomes 0.202."""
    slope = next(a for a in node.attribute if a.name == "negative_slope")
    slope.f *= 1.01


def relu_instead(model: ModelProto, node: NodeProto) -> None:
    """The fused operator becomes its anchor, then Relu."""
    at = next(k for k, n in enumerate(model.graph.node) if n == node)
    inner = f"{node.output[0]}_before_relu"
    relu = NodeProto(op_type="Relu", input=[inner], output=[node.output[0]], name=f"{node.name}_relu")
    node.op_type, node.domain = node.op_type.removesuffix("LeakyRelu"), ""
    kept = [a for a in node.attribute if a.name != "negative_slope"]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.output[0] = inner
    model.graph.node.insert(at + 1, relu)


def padding_moved(_: ModelProto, node: NodeProto) -> None:
    """Padding moves by one pixel."""
    pads = next(a for a in node.attribute if a.name == "pads")
    pads.CopyFrom(AttributeProto(name="pads", type=AttributeProto.INTS, ints=[0, 0, 2, 2]))


MUTATIONS: tuple[Mutation, ...] = (
    zero_one_weight, zero_one_bias, swap_two_channels, slope_off_by_one_percent, relu_instead, padding_moved,
)  # fmt: skip


def fused(*, transpose: bool) -> tuple[ModelProto, ModelProto, tuple[Site, ...]]:
    """A model of three sites, the fused one, and its sites."""
    model = conv_bn_leaky(channels=(3, 4, 5, 4), bias=True, transpose=transpose)
    result = fuser.fuse(model, parity=False)
    sites = tuple(Site(f.graph, f.output, f.inputs, f.op, f.nodes) for f in result.report.fusions)
    assert len(sites) == SITES
    return model, result.model, sites


@pytest.mark.parametrize("transpose", [False, True], ids=["conv", "conv_transpose"])
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.__name__)
def test_a_mutation_fails_and_is_blamed_on_its_site(mutation: Mutation, *, transpose: bool) -> None:
    """The middle site is tampered with: it alone is guilty."""
    before, after, sites = fused(transpose=transpose)
    middle = next(n for n in after.graph.node if n.output[0] == sites[1].output)
    mutation(after, middle)
    found = fuser.check_parity(before, after, sites=sites, draws=2)
    assert found.verdict == "failed"
    assert [g.output for g in found.guilty] == [sites[1].output]
    assert sites[1].output in found.reason


def test_the_model_that_was_not_tampered_with_passes() -> None:
    """So that what fails above fails for its mutation."""
    before, after, sites = fused(transpose=False)
    found = fuser.check_parity(before, after, sites=sites, draws=2)
    assert (found.verdict, found.guilty) == ("passed", ())


def test_a_failed_result_can_not_be_saved(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parity failed, so nothing is written."""
    failed = Parity("failed", "output 'y' differs", "test")
    monkeypatch.setattr("fuser.parity.check_parity", lambda *_, **__: failed)
    result = fuser.fuse(conv_bn_leaky())
    with pytest.raises(fuser.OutputError, match="parity failed, so nothing is written: output 'y' differs"):
        result.save(f"{tmp_path}/out.onnx")
