"""``optimize``: what it writes, prints and reports, and its exit status."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from tests.builders import conv_bn_leaky
from tests.cli.running import onnx_fuser, saved

RULE = """<ir_version: 10, opset_import: ["" : 17, "pattern": 1, "rewrite": 1]>
main (float[2,3] x) => (float[2,3] p, float[2,3] r)
{
  p = pattern.Wrong <alpha = 0.2> (x)
  r = rewrite.Wrong <alpha = 0.2> (x)
}
<domain: "pattern", opset_import: ["" : 17]>
Wrong <alpha> (x) => (y) { [elu] y = Elu <alpha: float = @alpha> (x) }
<domain: "rewrite", opset_import: ["" : 17]>
Wrong <alpha> (x) => (y) { [leaky] y = LeakyRelu <alpha: float = @alpha> (x) }
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelProto:
    """Two blocks of Conv, BatchNormalization, LeakyRelu, as model.onnx in the folder the test stands in."""
    monkeypatch.chdir(tmp_path)
    built = conv_bn_leaky(channels=(3, 4, 5))
    saved(built, Path("model.onnx"))
    return built


def unjudgeable() -> ModelProto:
    """A model with an operator that neither onnxruntime nor the reference has."""
    built = conv_bn_leaky()
    built.opset_import.append(helper.make_opsetid("nobody.has", 1))
    built.graph.node[-1].output[0] = "z"
    built.graph.node.append(helper.make_node("Unknown", ["z"], ["y"], "last", domain="nobody.has"))
    return built


def report() -> dict[str, Any]:
    return dict(json.loads(Path("report.json").read_text("utf-8")))


def operators(path: str) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.usefixtures("model")
def test_it_writes_the_fused_model_and_says_so() -> None:
    done = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx")
    assert (done.status, done.err) == (0, "")
    assert operators("out.onnx") == ["ConvLeakyRelu", "ConvLeakyRelu"]
    words = done.out.split()
    for part in ("Fused 2", "Parity passed", "BatchNormalization: 2 before, 0 left", "Wrote out.onnx"):
        assert part in done.out
    assert " ".join(words).count("2 Conv + BatchNormalization + LeakyRelu -> ConvLeakyRelu") == 1
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.usefixtures("model")
def test_the_parity_it_prints_has_the_tolerance_and_the_smallest_that_passes() -> None:
    done = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", "--report", "report.json")
    output = report()["parity"]["outputs"][0]
    assert 0 < output["smallest_tolerance"] < output["tolerance"]
    assert f"{output['smallest_tolerance']:.3g} of {output['tolerance']:g}" in " ".join(done.out.split())


@pytest.mark.usefixtures("model")
def test_the_report_names_the_files_by_their_hashes() -> None:
    assert onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", "--report", "report.json").status == 0
    facts = report()["model"]
    for key, path in (("sha256", "model.onnx"), ("output_sha256", "out.onnx")):
        assert facts[key] == hashlib.sha256(Path(path).read_bytes()).hexdigest()
    assert (facts["path"], facts["output"]) == ("model.onnx", "out.onnx")


@pytest.mark.usefixtures("model")
def test_the_input_is_not_touched() -> None:
    before = Path("model.onnx").read_bytes()
    assert onnx_fuser("optimize", "model.onnx", "-o", "out.onnx").status == 0
    assert Path("model.onnx").read_bytes() == before


@pytest.mark.usefixtures("model")
def test_standard_operators_are_written_when_asked_for() -> None:
    done = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", "--fused-as", "standard")
    assert done.status == 0
    assert operators("out.onnx") == ["Conv", "LeakyRelu", "Conv", "LeakyRelu"]
    assert "Fused 2, written as standard operators" in done.out


@pytest.mark.usefixtures("model")
def test_only_and_disable_choose_the_rules() -> None:
    assert onnx_fuser("optimize", "model.onnx", "-o", "a.onnx", "--disable", "ConvLeakyRelu").status == 0
    assert operators("a.onnx") == ["Conv", "LeakyRelu", "Conv", "LeakyRelu"]
    assert onnx_fuser("optimize", "model.onnx", "-o", "b.onnx", "--only", "LeakyRelu").status == 0
    assert operators("b.onnx") == ["Conv", "BatchNormalization", "LeakyRelu"] * 2


@pytest.mark.usefixtures("model")
def test_quiet_prints_nothing_where_all_is_well() -> None:
    for arguments in (("--quiet",), ("-q", "--report", "report.json")):
        assert onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", *arguments) == (0, "", "")
    assert onnx_fuser("--quiet", "optimize", "model.onnx", "-o", "out.onnx") == (0, "", "")


@pytest.mark.usefixtures("model")
def test_verbose_adds_every_site_the_rules_and_the_time() -> None:
    brief = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx").out
    full = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", "--verbose").out
    for part in ("act0", "Rules that applied", "Seconds: "):
        assert part not in brief
        assert part in full


@pytest.mark.usefixtures("model")
def test_draws_come_from_the_seed() -> None:
    kinds = []
    for seed in ("3", "3", "4"):
        arguments = ("--seed", seed, "--draws", "2", "--shape", "x:2x3x8x8", "--report", "report.json")
        assert onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", *arguments).status == 0
        parity = report()["parity"]
        assert len(parity["draws"]) == 2
        assert all(draw["shapes"] == {"x": [2, 3, 8, 8]} for draw in parity["draws"])
        kinds.append((parity["outputs"][0]["max_abs"], parity["sites"][0]["negatives"]))
    assert kinds[0] == kinds[1] != kinds[2]


@pytest.mark.usefixtures("model")
def test_a_users_inputs_are_run_on() -> None:
    np.savez("inputs.npz", x=np.full((5, 3, 8, 8), 0.25, np.float32))
    arguments = ("--inputs", "inputs.npz", "--report", "report.json")
    assert onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", *arguments).status == 0
    assert [draw["shapes"] for draw in report()["parity"]["draws"]] == [{"x": [5, 3, 8, 8]}]


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("off", [["--no-parity"], ["--parity", "off"]])
def test_without_parity_nothing_is_run(off: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> None:
        raise AssertionError("a model was run")

    monkeypatch.setattr("fuser.parity.runner.Worker._start", started)
    done = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", "--report", "report.json", *off)
    assert (done.status, done.err) == (0, "")
    assert report()["parity"] is None
    assert "Parity" not in done.out


class TestParityFails:
    """A user's rule that is wrong (LeakyRelu for Elu) must not get through."""

    @pytest.fixture(autouse=True)
    def rule(self, model: ModelProto) -> None:
        model.graph.node[-1].op_type = "Elu"
        saved(model, Path("model.onnx"))
        Path("rules").mkdir()
        Path("rules/wrong.onnxtxt").write_text(RULE)

    def test_status_1_no_output_and_the_guilty_site_by_name(self) -> None:
        done = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", "--patterns", "rules")
        assert done.status == 1
        assert not Path("out.onnx").exists()
        assert "parity failed, so out.onnx was not written" in done.err
        assert "to blame: ConvLeakyRelu at 'y'" in done.err
        assert "Parity failed" in done.out
        assert "Guilty: ConvLeakyRelu at 'y'\n  stands for Conv_1, BN_1, LeakyRelu_1\n" in done.out
        assert "Wrote" not in done.out

    def test_the_report_is_written_all_the_same(self) -> None:
        arguments = ("--patterns", "rules", "--report", "report.json", "--quiet")
        assert onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", *arguments).status == 1
        found = report()
        assert found["parity"]["verdict"] == "failed"
        assert [site["output"] for site in found["parity"]["guilty"]] == ["y"]
        assert found["model"]["output"] == found["model"]["output_sha256"] == ""
        assert sorted(p.name for p in Path().iterdir()) == ["model.onnx", "report.json", "rules"]

    def test_what_was_at_the_output_stays(self) -> None:
        Path("out.onnx").write_bytes(b"what was here")
        assert onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", "--patterns", "rules").status == 1
        assert Path("out.onnx").read_bytes() == b"what was here"

    def test_force_does_not_replace_the_input_by_a_wrong_model(self) -> None:
        before = Path("model.onnx").read_bytes()
        done = onnx_fuser("optimize", "model.onnx", "-o", "model.onnx", "--force", "--patterns", "rules")
        assert done.status == 1
        assert Path("model.onnx").read_bytes() == before

    def test_the_rule_alone_is_refused_by_patterns_check(self) -> None:
        done = onnx_fuser("patterns", "check", "rules/wrong.onnxtxt")
        assert done.status == 1
        assert "rule Wrong is refused: " in done.err


def test_where_the_whole_model_can_not_run_the_sites_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator that nothing here has is no reason to leave the rest unchecked."""
    monkeypatch.chdir(tmp_path)
    saved(unjudgeable(), Path("model.onnx"))
    done = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", "--parity", "required")
    assert (done.status, done.err) == (0, "")
    assert "site by site" in done.out


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_check_that_can_not_judge_warns_and_writes(
    quiet: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(conv_bn_leaky(batch=1), Path("model.onnx"))
    done = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", "--timeout", "0.001", *quiet)
    assert done.status == 0
    assert operators("out.onnx") == ["ConvLeakyRelu"]
    assert done.err.startswith("onnx-fuser: warning: the parity check could not judge: ")


def test_a_check_that_has_to_judge_and_can_not_is_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(conv_bn_leaky(), Path("model.onnx"))
    arguments = ("--timeout", "0.001", "--parity", "required", "--report", "report.json")
    done = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", *arguments)
    assert done.status == 2
    assert not Path("out.onnx").exists()
    assert "could not judge, so out.onnx was not written" in done.err
    assert report()["parity"]["verdict"] == "inconclusive"


def test_a_check_that_has_to_judge_and_does_is_status_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(conv_bn_leaky(), Path("model.onnx"))
    assert onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", "--parity", "required").status == 0
    assert Path("out.onnx").exists()


def test_reasons_that_differ_in_names_only_are_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve overridable blocks: one line says so of all, --verbose has a line for each."""
    monkeypatch.chdir(tmp_path)
    saved(conv_bn_leaky(channels=(3,) * 13, overridable=True), Path("model.onnx"))
    done = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", "--report", "report.json")
    assert done.status == 0
    assert done.out.count("[bn] ") == 1
    assert "(and 11 more like it)" in " ".join(done.out.split())
    assert "Hint: --freeze-inputs would help 12 of them" in done.out
    full = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", "-v").out
    assert full.count("\n  [") == len(report()["declined"]) >= 12


def test_freeze_inputs_lets_overridable_weights_be_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(conv_bn_leaky(overridable=True), Path("model.onnx"))
    assert onnx_fuser("optimize", "model.onnx", "-o", "a.onnx").status == 0
    assert onnx_fuser("optimize", "model.onnx", "-o", "b.onnx", "--freeze-inputs").status == 0
    assert operators("a.onnx").count("BatchNormalization") == 1
    assert operators("b.onnx") == ["ConvLeakyRelu"]


def test_a_hostile_name_reaches_the_terminal_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An escape sequence in a node's name must not be one on the terminal."""
    monkeypatch.chdir(tmp_path)
    built = conv_bn_leaky(overridable=True)
    for node in built.graph.node:
        node.name = f"\x1b[31m{node.name}\r\n[bold]\u202e"
    saved(built, Path("model.onnx"))
    done = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", "-v")
    assert done.status == 0
    assert "[bold]" in done.out
    assert not {"\x1b", "\r", "\u202e"} & {*done.out, *done.err}


def test_a_model_without_anything_to_fuse_is_written_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )  # fmt: skip
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    saved(built, Path("model.onnx"))
    done = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx")
    assert done.status == 0
    assert "Nothing was fused" in done.out
    assert onnx.load("out.onnx") == built
