"""The Python API: what goes in comes out in kind, and nobody's model is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_graphsurgeon as gs
import pytest
from onnx import ModelProto

import fuser
from tests.builders import conv_bn_leaky


def operators(model: ModelProto) -> list[str]:
    """The main graph's operators, with their domains."""
    return [f"{n.domain}::{n.op_type}" if n.domain else n.op_type for n in model.graph.node]


def test_a_model_proto_is_not_changed() -> None:
    """The caller's message stays what it was, in every byte."""
    model = conv_bn_leaky()
    before = model.SerializeToString(deterministic=True)
    result = fuser.fuse(model, parity=False)
    assert model.SerializeToString(deterministic=True) == before
    assert operators(result.model) == ["fuser::ConvLeakyRelu"]


def test_each_model_asked_for_is_a_copy() -> None:
    """Changing what came out does not change the result."""
    result = fuser.fuse(conv_bn_leaky(), parity=False)
    result.model.graph.node[0].name = "changed"
    assert result.model.graph.node[0].name == "Conv_0"


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_is_read(tmp_path: Path, kind: Any) -> None:
    """As text or as a Path; the file stays what it was."""
    path = tmp_path / "model.onnx"
    onnx.save(conv_bn_leaky(), path)
    before = path.read_bytes()
    result = fuser.fuse(kind(path), parity=False)
    assert operators(result.model) == ["fuser::ConvLeakyRelu"]
    assert result.report.model.path == str(path)
    assert path.read_bytes() == before


def test_save_writes_what_model_gives(tmp_path: Path) -> None:
    """The file and the message are the same model."""
    path = tmp_path / "model.onnx"
    onnx.save(conv_bn_leaky(), path)
    result = fuser.fuse(path, parity=False)
    written = result.save(tmp_path / "fused.onnx")
    assert written.path == tmp_path / "fused.onnx"
    assert onnx.load(written.path) == result.model


def test_a_graphsurgeon_graph_comes_back_as_one() -> None:
    """gs.Graph in, gs.Graph out; the one that went in is not changed."""
    graph = gs.import_onnx(conv_bn_leaky())
    nodes = [(n.op, n.name, [t.name for t in n.inputs]) for n in graph.nodes]
    fused = fuser.fuse(graph, parity=False).model
    assert isinstance(fused, gs.Graph)
    assert [(n.op, n.domain) for n in fused.nodes] == [("ConvLeakyRelu", "fuser")]
    assert [(n.op, n.name, [t.name for t in n.inputs]) for n in graph.nodes] == nodes


def test_a_graphsurgeon_graph_can_be_exported_and_checked() -> None:
    """With parity; the export carries the weights that were folded."""
    graph = gs.import_onnx(conv_bn_leaky())
    result = fuser.fuse(graph)
    assert result.report.parity is not None
    assert result.report.parity.verdict == "passed"
    weight = result.model.nodes[0].inputs[1].values
    assert not np.allclose(weight, graph.nodes[0].inputs[1].values)


def test_something_else_is_refused() -> None:
    """One sentence that says what a model is."""
    with pytest.raises(
        fuser.ConfigError, match=r"a model is a path, a ModelProto or an onnx_graphsurgeon\.Graph, not dict"
    ):
        fuser.fuse({})  # type: ignore[arg-type]


def test_fused_as_standard_writes_stock_operators() -> None:
    """Folded Conv and LeakyRelu; no domain, no function, no import of ours."""
    fused = fuser.fuse(conv_bn_leaky(), fused_as="standard", parity=False).model
    assert operators(fused) == ["Conv", "LeakyRelu"]
    assert not fused.functions
    assert [o.domain for o in fused.opset_import] == [""]


def test_disable_leaves_a_rule_out() -> None:
    """By name or by id."""
    model = conv_bn_leaky()
    assert operators(fuser.fuse(model, disable=["ConvLeakyRelu"], parity=False).model) == [
        "Conv",
        "LeakyRelu",
    ]
    assert operators(fuser.fuse(model, disable=["Affine:batchnorm"], parity=False).model) == [
        "Conv",
        "BatchNormalization",
        "LeakyRelu",
    ]


def test_only_leaves_all_others_out() -> None:
    """Folding without fusing."""
    fused = fuser.fuse(conv_bn_leaky(), only=["Affine:batchnorm", "Fold:conv"], parity=False)
    assert operators(fused.model) == ["Conv", "LeakyRelu"]
    assert {r.rule for r in fused.report.rules} == {"Affine:batchnorm", "Fold:conv"}


@pytest.mark.parametrize("option", ["only", "disable"])
def test_an_unknown_rule_is_refused_with_the_nearest(option: str) -> None:
    """A typing mistake does not pass silently."""
    with pytest.raises(
        fuser.ConfigError, match=r"there is no rule 'ConvLeakyRlu'; the nearest is 'ConvLeakyRelu'"
    ):
        fuser.fuse(conv_bn_leaky(), **{option: ["ConvLeakyRlu"]})  # type: ignore[arg-type]


def test_freeze_inputs_makes_initializers_constants() -> None:
    """Initializers that are inputs are overridable from IR 4 on, unless the caller knows better."""
    model = conv_bn_leaky(overridable=True)
    kept = fuser.fuse(model, parity=False)
    assert operators(kept.model) == ["Conv", "BatchNormalization", "LeakyRelu"]
    assert any(d.hint == "--freeze-inputs" for d in kept.report.declined)
    assert operators(fuser.fuse(model, freeze_inputs=True, parity=False).model) == ["fuser::ConvLeakyRelu"]


def test_the_report_counts_and_names() -> None:
    """One fusion: its operator, the nodes it stands for, what was folded, the slope."""
    report = fuser.fuse(conv_bn_leaky(), parity=False).report
    (fusion,) = report.fusions
    assert (fusion.op, fusion.output, fusion.inputs) == ("ConvLeakyRelu", "y", ("x",))
    assert (fusion.nodes, fusion.folded) == (("Conv_0", "BN_0", "LeakyRelu_0"), ("BN_0",))
    assert fusion.negative_slope == pytest.approx(0.2)
    assert report.model.nodes == (3, 1)
    assert report.model.batch_normalizations == (1, 0)
    assert [r.pass_name for r in report.rewrites] == ["fold", "fuse"]


def test_parity_can_be_left_out_and_is_on_by_default() -> None:
    """What was not checked does not claim to be."""
    assert fuser.fuse(conv_bn_leaky(), parity=False).report.parity is None
    checked = fuser.fuse(conv_bn_leaky()).report.parity
    assert checked is not None
    assert (checked.verdict, len(checked.draws), len(checked.sites)) == ("passed", 3, 1)


def test_a_place_that_is_only_folded_is_judged_alone() -> None:
    """Where no output moves, what was folded is evidence as what was fused is."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[N,2,5,5] x) => (float[N,2,5,5] y)
          <float[2,2,1,1] w = {1.0, 0.5, -0.5, 2.0}, float k = {3.0}, float far = {-1000.0}>
        { c = Conv (x, w) m = Mul (c, k) s = Add (m, far) y = Sigmoid (s) }
    """)
    parity = fuser.fuse(model).report.parity
    assert parity is not None
    assert parity.verdict == "passed", parity.reason
    assert "site by site: all 1 agree alone, and all else is the same" in parity.reason
    assert [site.site.op for site in parity.sites] == ["Conv"]


def test_inputs_of_the_callers_own() -> None:
    """Arrays by name instead of draws."""
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    parity = fuser.fuse(conv_bn_leaky(), inputs={"x": x}).report.parity
    assert parity is not None
    assert [d.kind for d in parity.draws] == ["given"]


def test_explain_gives_near_misses() -> None:
    """The same that the report of a run has."""
    model = conv_bn_leaky(overridable=True)
    declined = fuser.explain(model)
    assert declined == fuser.fuse(model, parity=False).report.declined
    assert "BN_0" in {d.node for d in declined} | {d.node for d in fuser.explain(model, "BN_0")}


def test_explain_of_a_node_tells_every_rule_that_was_tried() -> None:
    """By the node's name or by the value it makes; nearest first."""
    model = conv_bn_leaky(overridable=True)
    by_name, by_value = fuser.explain(model, "LeakyRelu_0"), fuser.explain(model, "y")
    assert by_name == by_value
    assert "ConvLeakyRelu" in {d.rule for d in by_name}
    assert [d.reached for d in by_name] == sorted((d.reached for d in by_name), reverse=True)


def test_explain_of_a_node_tells_what_keeps_it_though_no_rule_was_tried() -> None:
    """An affine operator that others' readers keep where it is, and what stands too far from any anchor."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        main (float[1,3,8,8] x) => (float[1,3,8,8] y, float[1,3,8,8] n) <float[3,3,1,1] w = {1,0,0,0,1,0,0,0,1},
        float[3] s = {1,2,3}, float[3] b = {1,2,3}, float[3] m = {1,2,3}, float[3] v = {1,2,3}>
        { [relu] r = Relu (x) [bn] n = BatchNormalization (r, s, b, m, v) [conv] c = Conv (n, w) [act] y = LeakyRelu (c) }"""
    )
    reason = "its output 'n' is an output of the graph; the pattern needs it inside"
    assert reason in {d.reason for d in fuser.explain(model, "bn")}
    assert reason in {d.reason for d in fuser.explain(model, "n")}


def test_explain_refuses_an_unknown_node() -> None:
    """With the nearest name."""
    with pytest.raises(fuser.ConfigError, match="the model has no node 'BN_O'; the nearest is 'BN_0'"):
        fuser.explain(conv_bn_leaky(), "BN_O")


def test_own_patterns_are_data(tmp_path: Path) -> None:
    """A folder of rule files is tried before the built-in rules."""
    (tmp_path / "double.onnxtxt").write_text(
        """<ir_version: 10, opset_import: ["" : 17, "pattern" : 1, "rewrite" : 1]>
main (float[2,3] x) => (float[2,3] one, float[2,3] two)
{
  one = pattern.DoubleNeg (x)
  two = rewrite.DoubleNeg (x)
}
<domain: "pattern", opset_import: ["" : 17]>
DoubleNeg (x) => (y) { [inner] n = Neg(x) [outer] y = Neg(n) }
<domain: "rewrite", opset_import: ["" : 17]>
DoubleNeg (x) => (y) { [outer] y = Identity(x) }
"""
    )
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (float[2,3] y) { a = Neg (x) b = Neg (a) y = Exp (b) }'
    )
    result = fuser.fuse(model, patterns=[tmp_path], parity=True)
    assert operators(result.model) == ["Exp"]
    assert result.report.parity is not None
    assert result.report.parity.verdict == "passed"


@pytest.mark.parametrize("model", [conv_bn_leaky(), conv_bn_leaky(transpose=True), conv_bn_leaky(bn=False)])
def test_fusing_twice_changes_nothing(model: ModelProto) -> None:
    """The second run finds nothing to do."""
    once = fuser.fuse(model, parity=False).model
    again = fuser.fuse(once, parity=False)
    assert again.model.SerializeToString(deterministic=True) == once.SerializeToString(deterministic=True)
    assert not again.report.rewrites
