"""Sites are judged many at a time, and each still gets its own verdict."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

from fuser.parity import Site, check_parity, together
from fuser.parity.runner import Worker
from fuser.parity.source import InputSpec
from tests.builders import conv_bn_leaky
from tests.parity.pairs import change, fused, in_branch, initializer

SITES = 40


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows by one for every model that is loaded."""
    found: list[object] = []
    load = Worker.load
    monkeypatch.setattr(Worker, "load", lambda *args, **more: found.append(args) or load(*args, **more))
    return found


def test_forty_sites_take_few_sessions(loads: list[object]) -> None:
    """A and B, A to look inside, and two groups of both; it was two sessions a site."""
    a = conv_bn_leaky(channels=(3,) * (SITES + 1))
    b, sites = fused(a)
    found = check_parity(a, b, sites=sites)
    assert found.verdict == "passed"
    assert all(site.alone for site in found.sites)
    assert len(loads) == 2 + 1 + 2 * -(-SITES // together.MOST_MODELS)


def test_the_guilty_among_many_are_named() -> None:
    """One in each group; the report has every site, in order."""
    a = conv_bn_leaky(channels=(3,) * (SITES + 1))
    b, sites = fused(a)
    guilty = [5, SITES - 2]
    for k in guilty:
        change(initializer(b.graph, f"W{k}_bias"), (1,), 9.0)
    found = check_parity(a, b, sites=sites)
    assert found.guilty == tuple(sites[k] for k in guilty)
    assert [difference.site for difference in found.sites] == sites
    assert [difference.outputs[0].name for difference in found.sites] == [site.output for site in sites]


def test_one_that_runs_nowhere_leaves_the_others_their_verdicts() -> None:
    """The group does not load, so its members run one by one."""
    a = conv_bn_leaky(channels=(3, 4, 5))
    b, sites = fused(a)
    change(initializer(b.graph, "W1_bias"), (1,), 9.0)
    for model in (a, b):
        model.graph.node.append(helper.make_node("Foo", ["y"], ["z"], domain="com.example"))
        model.opset_import.append(helper.make_opsetid("com.example", 1))
        model.graph.output[0].name = "z"
    found = check_parity(a, b, sites=[*sites, Site("", "z", ("y",), "Foo")])
    assert [difference.verdict for difference in found.sites] == ["passed", "failed", "inconclusive"]


def test_large_ones_go_one_by_one(monkeypatch: pytest.MonkeyPatch, loads: list[object]) -> None:
    """What a group may hold is limited, so that memory is."""
    monkeypatch.setattr("fuser.parity.sites.MOST_ELEMENTS", 100)
    a = conv_bn_leaky(channels=(3, 4, 5))
    b, sites = fused(a)
    assert check_parity(a, b, sites=sites).verdict == "passed"
    assert len(loads) == 2 + 1 + 2 * 2


def test_names_in_bodies_go_along() -> None:
    """Two copies of an If whose branches capture a value, side by side."""
    a, _, _ = in_branch()
    specs = [InputSpec("x", TensorProto.FLOAT, (1, 3, 8, 8)), InputSpec("c", TensorProto.BOOL, ())]
    joined = together.side_by_side([a, a], [specs, specs])
    onnx.checker.check_model(joined, full_check=True)
    assert [value.name for value in joined.graph.input] == ["0/x", "0/c", "1/x", "1/c"]
    assert [value.name for value in joined.graph.output] == ["0/y", "1/y"]
    assert check_parity(joined, joined).verdict == "passed"
