"""Sites cut out and checked alone: who is to blame, and what stands when the whole model can't run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, helper, numpy_helper, parser

from fuser.parity import Site, check_parity
from fuser.parity.outside import outside_change
from fuser.parity.pair import Pair
from fuser.parity.scopes import scopes
from fuser.parity.source import open_model
from tests.builders import conv_bn_leaky
from tests.parity.pairs import change, fused, in_branch, initializer


@pytest.mark.parametrize("guilty", range(5))
def test_blame_finds_the_one_of_five(guilty):
    """One bias is wrong; the others are cleared, and stand in the report."""
    a = conv_bn_leaky(channels=(3, 4, 5, 6, 5, 4))
    b, sites = fused(a)
    change(initializer(b.graph, f"W{guilty}_bias"), (1,), 9.0)
    found = check_parity(a, b, sites=sites)
    assert (found.verdict, found.guilty) == ("failed", (sites[guilty],))
    assert f"to blame: ConvLeakyRelu at {sites[guilty].output!r}" in found.reason
    assert [site.verdict == "failed" for site in found.sites] == [site == sites[guilty] for site in sites]
    assert all(site.alone and site.negatives > 0 for site in found.sites)


def test_an_error_that_no_output_shows_is_found():
    """The last block multiplies everything by zero; the first is wrong all the same."""
    a = conv_bn_leaky(channels=(3, 4, 5))
    change(initializer(a.graph, "scale1"), slice(None), 0.0)
    b, sites = fused(a)
    assert check_parity(a, b, sites=sites).verdict == "passed"
    change(initializer(b.graph, "W0_bias"), (1,), 9.0)
    assert check_parity(a, b).verdict == "inconclusive"
    found = check_parity(a, b, sites=sites)
    assert (found.verdict, found.guilty) == ("failed", (sites[0],))
    assert "site by site, 1 of 2 differ" in found.reason


def test_an_error_that_the_outputs_all_but_hide_is_found():
    """They move, but do not read the channel that is wrong."""
    a = conv_bn_leaky(channels=(3, 4, 5))
    change(initializer(a.graph, "W1"), (slice(None), 1), 0.0)
    b, sites = fused(a)
    change(initializer(b.graph, "W0_bias"), (1,), 9.0)
    assert check_parity(a, b).verdict == "passed"
    found = check_parity(a, b, sites=sites)
    assert (found.verdict, found.guilty) == ("failed", (sites[0],))
    assert "differs when checked alone, though the outputs don't show it" in found.reason


def test_blame_finds_a_site_in_a_branch():
    """Its weights are the branch's own; the value it captures comes from outside."""
    a, b, sites = in_branch()
    assert check_parity(a, b, sites=sites).verdict == "passed"
    body = next(attribute for attribute in b.graph.node[0].attribute if attribute.name == "then_branch").g
    change(initializer(body, "W0_bias"), (1,), 9.0)
    found = check_parity(a, b, sites=sites)
    assert (found.verdict, found.guilty) == ("failed", (sites[0],))
    assert [site.alone for site in found.sites] == [True, True]


def test_a_branch_brings_its_captured_weights():
    """Weights that lie in the outer graph, one of them behind an Identity, go along with the cut."""
    a, b, sites = in_branch()
    for model in (a, b):
        body = next(
            attribute for attribute in model.graph.node[0].attribute if attribute.name == "then_branch"
        ).g
        model.graph.initializer.extend(body.initializer)
        del body.initializer[:]
        first = body.node[0].input[1]
        model.graph.node.insert(0, helper.make_node("Identity", [first], ["behind"]))
        body.node[0].input[1] = "behind"
    onnx.checker.check_model(a)
    change(initializer(b.graph, "W0_bias"), (1,), 9.0)
    found = check_parity(a, b, sites=sites)
    assert (found.verdict, found.guilty) == ("failed", (sites[0],))


def in_function(wrong: bool) -> tuple[ModelProto, list[Site]]:
    """A function of a Mul and a LeakyRelu whose slope is its attribute; ``wrong``: with another factor."""
    factor = 2.5 if wrong else 2.0
    model = parser.parse_model(f"""<ir_version: 10, opset_import: ["": 17, "local": 1]>
        g (float[N, 4] x) => (float[N, 4] y) <float[4] w = {{1, -2, 3, -4}}>
        {{ z = local.Block<slope = 0.3>(x, w) y = local.Block<slope = 0.3>(z, w) }}
        <domain: "local", opset_import: ["": 17]> Block <slope> (v, weight) => (r) {{
        k = Constant<value_float = {factor}>() s = Mul(v, weight) t = Mul(s, k)
        r = LeakyRelu<alpha: float = @slope>(t) }}""")
    return model, [Site("function local::Block", "r", ("v",), "LeakyRelu")]


def test_blame_finds_a_site_in_a_function():
    """The call's constants and attributes are filled in."""
    a, sites = in_function(wrong=False)
    b, _ = in_function(wrong=True)
    assert check_parity(a, a, sites=sites).verdict == "passed"
    found = check_parity(a, b, sites=sites)
    assert (found.verdict, found.guilty) == ("failed", tuple(sites))


def opened(slope: float) -> tuple[ModelProto, ModelProto, list[Site]]:
    """A call of two outputs, and the same opened; the site reads one of them and a value that A does not name."""
    head = """<ir_version: 10, opset_import: ["": 17, "local": 1]>
        g (float[N, 4] x) => (float[N, 4] a, float[N, 4] z) <float[4] w = {1, -2, 3, -4}, float[4] none = {0, 0, 0, 0}> {"""
    a = parser.parse_model(f"""{head}
        a, y = local.Block(x, w) z = Mul(y, none) }}
        <domain: "local", opset_import: ["": 17]> Block (x, w) => (a, y)
        {{ a = Mul(x, w) s = Selu(x) m = Mul(a, s) y = LeakyRelu<alpha = 0.2>(m) }}""")
    b = parser.parse_model(f"""{head}
        a = Mul(x, w) s = Selu(x) m = Mul(a, s) y = LeakyRelu<alpha = {slope}>(m) z = Mul(y, none) }}""")
    return a, b, [Site("", "y", ("a", "s"), "LeakyRelu")]


@pytest.mark.parametrize(("slope", "verdict"), [(0.2, "passed"), (0.3, "failed")])
def test_a_site_in_an_opened_call_is_cut_from_where_both_have_values(slope: float, verdict: str):
    """Nothing comes of it in the outputs, so only the site alone can tell."""
    a, b, sites = opened(slope)
    found = check_parity(a, b, sites=sites)
    assert (found.sites[0].verdict, found.sites[0].alone) == (verdict, True)
    assert found.guilty == (tuple(sites) if verdict == "failed" else ())


def test_no_site_is_to_blame_for_what_is_outside():
    """The reason says that, and names the first node that is not the same."""
    a = conv_bn_leaky(channels=(3, 4))
    for model in (b := fused(a)[0], a):
        model.graph.node.append(helper.make_node("Sigmoid", ["y"], ["z"]))
        model.graph.output[0].name = "z"
    sites = [Site("", "y", ("x",), "ConvLeakyRelu")]
    assert check_parity(a, b, sites=sites).verdict == "passed"
    b.graph.node[-1].op_type = "Tanh"
    found = check_parity(a, b, sites=sites)
    assert (found.verdict, found.guilty) == ("failed", ())
    assert "no site differs when checked alone: what gives 'z' in the main graph" in found.reason


def with_custom(model: ModelProto, **attributes: int) -> ModelProto:
    """The model with an operator at its end that nothing can run."""
    model.graph.node.append(helper.make_node("Foo", ["y"], ["z"], domain="com.example", **attributes))
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    model.graph.output[0].name = "z"
    return model


@pytest.mark.parametrize(("change", "verdict"), [("", "passed"), ("Selu", "failed"), ("Neg", "inconclusive")])
def test_an_opened_call_in_a_model_that_nothing_runs(change: str, verdict: str):
    """The site that has no value in A is a part of the one that has; what is no part of a site has to be the same."""
    head = """<ir_version: 10, opset_import: ["": 17, "local": 1]>
        g (float[N, 4] x) => (float[N, 4] y) <float[4] w = {1, -2, 3, -4}> {"""
    a = parser.parse_model(f"""{head} n = Neg(x) y = local.Block(n, w) }}
        <domain: "local", opset_import: ["": 17]> Block (x, w) => (y)
        {{ m = Mul(x, w) a = LeakyRelu<alpha = 0.2>(m) s = Selu(a) k = Mul(s, w) y = LeakyRelu<alpha = 0.2>(k) }}""")
    nodes = """n = Neg(x) m = Mul(n, w) a = LeakyRelu<alpha = 0.2>(m) s = Selu(a) k = Mul(s, w)
        y = LeakyRelu<alpha = 0.2>(k)"""
    b = parser.parse_model(f"{head} {nodes.replace(change, 'Relu') if change else nodes} }}")
    sites = [Site("", "a", ("n",), "LeakyRelu"), Site("", "y", ("s",), "LeakyRelu")]
    found = check_parity(with_custom(a), with_custom(b), sites=sites)
    assert found.verdict == verdict, found.reason
    if verdict == "passed":
        assert found.sites[0].reason == "judged as a part of LeakyRelu at 'y'"
    if verdict == "inconclusive":
        assert "what gives 'n' in the main graph is not the same in both" in found.reason


def test_an_opened_call_whose_input_b_passes_by():
    """B reads what an Identity before the call reads, though the Identity stays for others."""
    head = """<ir_version: 10, opset_import: ["": 17, "local": 1]>
        g (float[N, 4] x) => (float[N, 4] y, float[N, 4] n) <float[4] w = {1, -2, 3, -4}> { n = Identity(x)"""
    a = parser.parse_model(f"""{head} y = local.Block(n, w) }}
        <domain: "local", opset_import: ["": 17]> Block (x, w) => (y)
        {{ s = Selu(x) k = Mul(s, w) y = LeakyRelu<alpha = 0.2>(k) }}""")
    b = parser.parse_model(f"{head} s = Selu(x) k = Mul(s, w) y = LeakyRelu<alpha = 0.2>(k) }}")
    found = check_parity(a, b, sites=[Site("", "y", ("s",), "LeakyRelu")])
    assert (found.verdict, found.sites[0].alone) == ("passed", True)


@pytest.mark.parametrize(
    ("width", "scale", "verdict"), [(1, 2.0, "passed"), (1, 2.1, "failed"), (3, 2.0, "inconclusive")]
)
def test_a_site_whose_input_nobody_knows_the_shape_of(width: int, scale: float, verdict: str):
    """By itself A takes an input of any rank; the weights of B tell which it is. That B gives another shape where A's
    constant widens a narrow one says nothing."""
    head = """<ir_version: 10, opset_import: ["": 17, "my": 1]>
        g (float[N, 4] x) => (float[?, ?, ?, ?] y) { h = my.Foo(x)"""
    a = parser.parse_model(f"""{head}
        k = Constant<value = float[1, 1, 1, {width}] {{{", ".join(["2"] * width)}}}>()
        w = Constant<value = float[2, 1, 1, 2] {{1, -2, 3, 4}}>()
        m = Mul(k, h) c = Conv(m, w) y = LeakyRelu<alpha = 0.2>(c) }}""")
    b = parser.parse_model(f"""{head}
        w = Constant<value = float[2, 1, 1, 2] {{{scale}, {-2 * scale}, {3 * scale}, {4 * scale}}}>()
        c = Conv(h, w) y = LeakyRelu<alpha = 0.2>(c) }}""")
    found = check_parity(a, b, sites=[Site("", "y", ("h",), "ConvLeakyRelu")])
    assert found.sites[0].verdict == verdict, found.reason


def test_a_call_that_b_replaced_is_no_site(tmp_path: Path):
    """That B lacks the function says nothing by itself; that it computes another way does."""
    a = parser.parse_model("""<ir_version: 10, opset_import: ["": 17, "local": 1]>
        g (float[N, 4] x) => (float[N, 4] y) { y = local.Block(x) }
        <domain: "local", opset_import: ["": 17]> Block (x) => (y) { y = Relu(x) }""")
    b = parser.parse_model("""<ir_version: 10, opset_import: ["": 17, "local": 1]>
        g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }""")
    pair = Pair(open_model(a, "A", tmp_path), open_model(b, "B", tmp_path))
    assert outside_change(pair, []) == "what gives 'y' in the main graph is not the same in both"


def test_what_nothing_runs_as_a_whole_is_judged_site_by_site():
    """It passes when every site does and all else is the same; the reason says how it was judged."""
    a = conv_bn_leaky(channels=(3, 4, 5))
    b, sites = fused(a)
    found = check_parity(with_custom(a), with_custom(b), sites=sites)
    assert found.verdict == "passed"
    assert found.reason.startswith("site by site: all 2 agree alone, and all else is the same")
    assert found.judge.startswith("onnxruntime")
    assert all(site.alone and site.verdict == "passed" for site in found.sites)


def test_site_by_site_still_fails():
    """And knows the guilty one."""
    a = conv_bn_leaky(channels=(3, 4, 5))
    b, sites = fused(a)
    change(initializer(b.graph, "W1_bias"), (1,), 9.0)
    found = check_parity(with_custom(a), with_custom(b), sites=sites)
    assert (found.verdict, found.guilty) == ("failed", (sites[1],))


def drop_attribute(b: ModelProto) -> None:
    del b.graph.node[-1].attribute[:]


def change_weight(b: ModelProto) -> None:
    change(initializer(b.graph, "extra"), (0,), 3.0)


def rewire(b: ModelProto) -> None:
    b.graph.node[-1].input[0] = "act0"


@pytest.mark.parametrize("mutate", [drop_attribute, change_weight, rewire])
def test_site_by_site_is_no_proof_when_more_has_changed(mutate):
    """Nothing judged the rest."""
    a = conv_bn_leaky(channels=(3, 4, 5))
    a.graph.initializer.append(numpy_helper.from_array(np.float32([1, 2]), "extra"))
    b, sites = fused(a)
    b.graph.initializer.append(numpy_helper.from_array(np.float32([1, 2]), "extra"))
    for model in (a, b):
        with_custom(model, k=1)
        model.graph.node[-1].input.append("extra")
    assert check_parity(a, b, sites=sites).verdict == "passed"
    mutate(b)
    found = check_parity(a, b, sites=sites)
    assert found.verdict == "inconclusive"
    assert "'z' in the main graph is not the same in both, which nothing judged" in found.reason


def test_site_by_site_needs_every_site():
    """One that can't be cut out leaves the verdict open; so does one that nothing runs."""
    a = conv_bn_leaky(channels=(3, 4, 5))
    b, sites = fused(a)
    stray = Site("", "nowhere", ("x",), "ConvLeakyRelu")
    elsewhere = Site("choose/then_branch", "y", ("x",), "ConvLeakyRelu")
    unrunnable = Site("", "z", ("x",), "Foo")
    with_custom(a), with_custom(b)
    for site, reason in (
        (stray, "A has no value 'nowhere'"),
        (elsewhere, "A has no graph 'choose/then_branch'"),
        (unrunnable, "com.example:Foo"),
    ):
        found = check_parity(a, b, sites=[*sites, site])
        assert found.verdict == "inconclusive"
        assert reason in found.reason


def test_a_site_gets_its_type_from_its_weights_when_nothing_else_knows():
    """Behind a custom operator neither inference nor a run says what the value is."""
    a = conv_bn_leaky(channels=(6, 4), dtype=onnx.TensorProto.FLOAT16)
    b, sites = fused(a)
    for model in (a, b):
        model.graph.node.insert(0, NodeProto(op_type="Foo", domain="com.example", input=["x"], output=["v"]))
        model.graph.node[1].input[0] = "v"
        model.opset_import.append(helper.make_opsetid("com.example", 1))
    found = check_parity(a, b, sites=[Site("", "y", ("v",), "ConvLeakyRelu")])
    assert found.verdict == "passed", found.reason
    assert found.sites[0].outputs[0].dtype == "float16"
    assert sites


def test_stale_value_info_does_not_mislead():
    """It claims other channels for the value between the sites."""
    a = conv_bn_leaky(channels=(3, 4, 5))
    b, sites = fused(a)
    a.graph.value_info.append(helper.make_tensor_value_info("act0", 1, [1, 99, 8, 8]))
    change(initializer(b.graph, "W1_bias"), (1,), 9.0)
    with_custom(a), with_custom(b)
    found = check_parity(a, b, sites=sites)
    assert (found.verdict, found.guilty) == ("failed", (sites[1],))
    assert found.sites[0].verdict == "passed"


def test_a_check_that_saw_no_negative_value_says_so():
    """With a bias of 1000 the slope is never used, and any slope would pass."""
    a = conv_bn_leaky(channels=(3, 4))
    change(initializer(a.graph, "shift0"), slice(None), 1000.0)
    b, sites = fused(a)
    found = check_parity(a, b, sites=sites)
    assert (found.verdict, found.sites[0].negatives) == ("passed", 0.0)
    assert "no negative value was seen at 1 of 1 fused places" in found.reason


def test_paths_name_bodies_in_bodies_and_functions():
    """By node name, or first output where it has none; node names may hold slashes."""
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 17, "d": 1]>
        g (float[3] x, bool c) => (float[3] y) { y = If(c)
        <then_branch = t () => (float[3] p) { p = If(c)
            <then_branch = u () => (float[3] q) { q = Relu(x) },
             else_branch = v () => (float[3] r) { r = Neg(x) }> },
         else_branch = e () => (float[3] s) { s = d.F(x) }> }
        <domain: "d", overload: "o", opset_import: ["": 17]> F (a) => (b) { b = Abs(a) }""")
    model.graph.node[0].name = "/block/If"
    assert set(scopes(model)) == {
        "",
        "/block/If/then_branch",
        "/block/If/then_branch/p/then_branch",
        "/block/If/then_branch/p/else_branch",
        "/block/If/else_branch",
        "function d::F:o",
    }
