"""``lint`` and ``optimize --target atc``: what they write, print and report, and their exit status."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, parser

from fuser.report.files import read_report
from fuser.storage import load
from tests.builders import conv_bn_leaky
from tests.cli.running import ROOT, environment, onnx_fuser, saved
from tests.targets.running import feeds, run
from tests.targets.texts import ACT, BN, CONV, STATISTICS, WEIGHT, block, text

MODELS = ROOT / "models"
LOOP = """
<ir_version: 8, opset_import: ["" : 13]> g (float[2] x) => (float[2] y)
<int64 n = {3}, bool go = {1}>
{
  [spin] y = Loop (n, go, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t)
    { d = Identity (c)  t = Add (s, s) }>
}
"""
FUNCTION = f"""
<ir_version: 10, opset_import: ["" : 17, "f" : 1]> g (float[1,1,8,8] x) => (float[1,1,6,6] y)
<{WEIGHT}, {STATISTICS}>
{{ [conv] c = Conv <kernel_shape = [3,3]> (x, w)  [call] y = f.Block (c, a, b, m, v) }}
<domain: "f", opset_import: ["" : 17]> Block (X, A, B, M, V) => (Y)
{{ t = BatchNormalization (X, A, B, M, V)  Y = LeakyRelu <alpha = 0.1> (t) }}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that each test stands in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def operators(path: str) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def report(path: str = "report.json") -> dict[str, Any]:
    return read_report(Path(path))


def rules(target: dict[str, Any], *severities: str) -> set[str]:
    return {f["rule"] for f in target["findings"] if f["severity"] in (severities or ("error",))}


# lint


def test_lint_of_a_clean_model() -> None:
    saved(block(), Path("m.onnx"))
    assert onnx_fuser("lint", "m.onnx", "--target", "atc") == (
        0,
        "m.onnx for ATC of the newest CANN: no findings\n",
        "",
    )
    assert onnx_fuser("lint", "m.onnx", "-q") == (0, "", "")


def test_findings_are_grouped_with_code_node_sentence_and_fix() -> None:
    """Those that say the same are one sentence; lines fit 80 columns."""
    names = [f"layer{i}" for i in range(5)]
    nodes = [f"[{name}] v{i + 1} = Relu (v{i})" for i, name in enumerate(names)]
    nodes += ["[layer0] y = Mystery (v5)", "[q] z = QuantizeLinear (v5, s)"]
    model = text(
        *nodes, inputs="float[4] v0", outputs="float[4] y, uint8[4] z", initializers="float s = {0.1}"
    )
    saved(model, Path("m.onnx"))
    done = onnx_fuser("lint", "m.onnx")
    assert (done.status, done.err) == (1, "")
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "m.onnx for ATC of the newest CANN: 3 errors"
    heads = [line for line in lines[1:] if line and not line.startswith(" ")]
    assert heads == ["error E13009 duplicate-name", "error E13010 unregistered"]
    for part in ("'layer0': Mystery has the name", "'q': ai.onnx::11::QuantizeLinear", "-> export the float"):
        assert part in done.out


def test_the_same_said_of_many_nodes_is_said_once() -> None:
    """Three nodes by name, the rest counted; --verbose names all."""
    nodes = [f"v{i + 1} = Constant <value_int = {i}> ()" for i in range(5)]
    saved(text(*nodes, "y = Sum (v1, v2, v3, v4, v5)", inputs="float x", outputs="int64 y"), Path("m.onnx"))
    done = onnx_fuser("lint", "m.onnx")
    assert " and 2 more: Constant has value_int" in done.out
    assert done.out.count("reads `value` only") == 1
    assert "'Constant_4'" in onnx_fuser("lint", "m.onnx", "-v").out


def test_lint_as_json() -> None:
    saved(parser.parse_model(LOOP), Path("m.onnx"))
    done = onnx_fuser("lint", "m.onnx", "--json", "--cann", "9.1", "--soc", "Ascend310P3")
    assert done.status == 1
    found = json.loads(done.out)
    assert found["model"] == "m.onnx"
    assert (found["target"]["cann"], found["target"]["soc"]) == ("9.1", "Ascend310P3")
    [loop] = [f for f in found["target"]["findings"] if f["severity"] == "error"]
    assert (loop["code"], loop["node"], loop["rule"]) == ("E13010", "spin", "unregistered")


def test_the_version_of_cann_decides() -> None:
    """Two imports are fine from 9.2 on and E16005 before."""
    saved(block('"" : 11, "com.x" : 1'), Path("m.onnx"))
    assert onnx_fuser("lint", "m.onnx").status == 0
    older = onnx_fuser("lint", "m.onnx", "--cann", "9.1")
    assert older.status == 1
    assert "error E16005 several-imports" in older.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["lint", "none.onnx"], "none.onnx"),
        (["lint", "m.onnx", "--cann", "newest"], "CANN version 'newest' is none that is known"),
        (["optimize", "m.onnx", "--target", "atc", "-o", "o.onnx", "--cann", "x"], "CANN version 'x'"),
        (["optimize", "m.onnx", "--target", "atc"], "Missing option '-o' / '--output'"),
        (["optimize", "m.onnx", "-o", "o.onnx", "--soc", "Ascend310P3"], "--soc is for --target atc"),
        (["optimize", "m.onnx", "-o", "o.onnx", "--fused-as", "node"], "is for --target atc"),
        (
            ["optimize", "m.onnx", "--target", "atc", "-o", "o.onnx", "--bundle", "d"],
            "two names of the output",
        ),
        (["optimize", "m.onnx", "--target", "atc", "-o", "o.onnx", "--fused-as", "node"], "needs a bundle"),
        (
            ["optimize", "m.onnx", "--target", "atc", "-o", "o.onnx", "--fused-as", "function"],
            "the target atc has no form 'function'",
        ),
        (["optimize", "m.onnx", "--target", "atc", "-o", "o/", "--fusion-switch", "A"], "switches no pass"),
        (["optimize", "m.onnx", "--target", "atc", "-o", "o.onnx", "--opset", "19"], "8<=x<=18"),
        (["optimize", "m.onnx", "--target", "atc", "-o", "a/b/"], "the folder a does not exist"),
        (["optimize", "m.onnx", "--target", "atc", "-o", "m.onnx/"], "m.onnx is a file"),
        (["optimize", "m.onnx", "--target", "atc", "-o", "o/", "--shape", "q:1x2"], "'q'"),
    ],
)
def test_bad_usage_and_input_are_status_2(arguments: list[str], says: str) -> None:
    saved(block(), Path("m.onnx"))
    done = onnx_fuser(*arguments)
    assert (done.status, done.out) == (2, "")
    assert says in " ".join(done.err.split())
    assert [path.name for path in Path().iterdir()] == ["m.onnx"]


# optimize

COMBINATIONS: dict[str, Callable[[], ModelProto]] = {
    "opset 7": lambda: conv_bn_leaky(opset=7, ir=3, overridable=True),
    "opset 9": lambda: conv_bn_leaky(opset=9, bias=True),
    "opset 11, two blocks": lambda: conv_bn_leaky(opset=11, channels=(3, 4, 5), stride=2),
    "opset 13, groups": lambda: conv_bn_leaky(opset=13, channels=(4, 8), group=2, batch=1),
    "opset 17, overridable": lambda: conv_bn_leaky(overridable=True),
    "opset 18, ConvTranspose": lambda: conv_bn_leaky(opset=18, transpose=True, stride=2, bias=True),
    "opset 21, float16": lambda: conv_bn_leaky(opset=21, ir=10, dtype=TensorProto.FLOAT16),
    "opset 24, ConvTranspose of groups": lambda: conv_bn_leaky(
        opset=24, ir=11, transpose=True, channels=(4, 6), group=2
    ),
    "no normalization": lambda: conv_bn_leaky(bn=False, kernel=1),
    "no activation": lambda: conv_bn_leaky(slope=None, kernel=5),
    "slope 0": lambda: conv_bn_leaky(slope=0.0, epsilon=1e-3),
    "large weights": lambda: conv_bn_leaky(channels=(64, 64), size=4),
    "functions": lambda: parser.parse_model(FUNCTION),
}


@pytest.mark.parametrize("name", COMBINATIONS)
def test_what_is_written_lints_clean_and_computes_the_same(name: str) -> None:
    """For the newest CANN and for 9.1; the same bytes twice; inputs and outputs as they were."""
    model = COMBINATIONS[name]()
    saved(model, Path("m.onnx"))
    for out in ("a.onnx", "b.onnx"):
        done = onnx_fuser("optimize", "m.onnx", "--target", "atc", "-o", out, "--report", "report.json")
        assert (done.status, done.err) == (0, "")
    assert Path("a.onnx").read_bytes() == Path("b.onnx").read_bytes()
    found = report()
    assert (found["target"]["name"], found["target"]["form"]) == ("atc", "standard")
    assert found["parity"]["verdict"] == "passed"
    for release in ("master", "9.1"):
        assert onnx_fuser("lint", "a.onnx", "--cann", release).status == 0
    written = onnx.load("a.onnx")
    onnx.checker.check_model(written, full_check=True)
    assert [entry.domain for entry in written.opset_import] == [""]
    assert not {"BatchNormalization", "Constant"} & set(operators("a.onnx"))
    given = feeds(model)
    assert [v.name for v in written.graph.input] == list(given)
    assert [v.name for v in written.graph.output] == ["y"]
    loose = 4e-3 if "float16" in name else 2e-5
    for before, after in zip(run(model, given), run(written, given), strict=True):
        np.testing.assert_allclose(after, before, rtol=loose, atol=loose * np.abs(before).max())


@pytest.mark.parametrize("name", [*COMBINATIONS])
def test_node_form(name: str) -> None:
    """One node each, in the default domain, that lints clean with its plugin; parity is that of the file."""
    saved(COMBINATIONS[name](), Path("m.onnx"))
    done = onnx_fuser("optimize", "m.onnx", "--target", "atc", "--fused-as", "node", "--bundle", "out")
    assert (done.status, done.err) == (0, "")
    found = report("out/report.json")
    assert (found["target"]["form"], found["parity"]["verdict"]) == ("node", "passed")
    fused = {f["op"] for f in found["fusions"]}
    assert fused <= set(operators("out/model.onnx"))
    assert [e.domain for e in onnx.load("out/model.onnx").opset_import] == [""]
    assert ("plugin" in {p.name for p in Path("out").iterdir()}) == bool(fused)


def test_what_stands_in_a_function_and_what_follows_it_fuse() -> None:
    """Inlined before anything is fused: Conv outside, BatchNormalization and LeakyRelu inside."""
    saved(parser.parse_model(FUNCTION), Path("m.onnx"))
    done = onnx_fuser("optimize", "m.onnx", "--target", "atc", "-o", "o.onnx")
    assert "1  Conv + BatchNormalization + LeakyRelu  ->  ConvLeakyRelu" in done.out
    assert operators("o.onnx") == ["Conv", "LeakyRelu"]


def test_opset_that_is_asked_for() -> None:
    saved(conv_bn_leaky(opset=21, ir=10), Path("m.onnx"))
    for asked, written in ((["--opset", "11"], 11), ([], 18)):
        assert onnx_fuser("optimize", "m.onnx", "--target", "atc", "-o", "o.onnx", *asked).status == 0
        assert onnx.load("o.onnx").opset_import[0].version == written


REFUSED: dict[str, tuple[Callable[[], ModelProto], str, str]] = {
    "a loop": (lambda: parser.parse_model(LOOP), "unregistered", "Loop"),
    "an operator of nobody": (
        lambda: text(CONV, BN, ACT.replace("LeakyRelu", "Mystery"), initializers=f"{WEIGHT}, {STATISTICS}"),
        "unregistered",
        "Mystery",
    ),
    "a type": (
        lambda: conv_bn_leaky(opset=22, ir=11, dtype=TensorProto.BFLOAT16, check=False),
        "opset-conversion",
        "other element types",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_atc_would_refuse_is_not_written(name: str) -> None:
    """Exit status 1, the finding, no output and no folder; the report says the same."""
    build, rule, says = REFUSED[name]
    saved(build(), Path("m.onnx"))
    for out in (["-o", "o.onnx", "--report", "report.json"], ["--bundle", "o"]):
        done = onnx_fuser("optimize", "m.onnx", "--target", "atc", *out)
        assert done.status == 1
        assert rule in done.out
        assert says in done.out
        assert "ATC would refuse this model" in done.err
        assert "--force writes it" in done.err
        assert not Path("o.onnx").exists()
        assert not Path("o").exists()
    assert rules(report()["target"]) == {rule}
    assert report()["model"]["output"] == ""


def test_a_type_is_refused_in_node_form_too() -> None:
    """The operators in the definition would not take it at the opset that ATC knows."""
    saved(conv_bn_leaky(opset=22, ir=11, dtype=TensorProto.BFLOAT16, check=False), Path("m.onnx"))
    done = onnx_fuser("optimize", "m.onnx", "--target", "atc", "--fused-as", "node", "--bundle", "o")
    assert done.status == 1
    assert "ConvLeakyRelu takes other element types at opset 18" in " ".join(done.out.split())


def test_what_atc_would_refuse_is_written_with_force() -> None:
    """With its findings, and status 0, since that was asked for."""
    saved(parser.parse_model(LOOP), Path("m.onnx"))
    arguments = ("optimize", "m.onnx", "--target", "atc", "-o", "o.onnx")
    assert onnx_fuser(*arguments).status == 1
    done = onnx_fuser(*arguments, "--force")
    assert (done.status, done.err) == (0, "")
    assert "error E13010 unregistered" in done.out
    assert onnx_fuser("lint", "o.onnx").status == 1


def test_a_chip_that_does_not_exist_is_a_finding() -> None:
    saved(block(), Path("m.onnx"))
    done = onnx_fuser("optimize", "m.onnx", "--target", "atc", "-o", "o/", "--soc", "310P3")
    assert done.status == 1
    assert "error E10054 soc-version" in done.out


@pytest.mark.parametrize("model", sorted(str(path.relative_to(MODELS)) for path in MODELS.rglob("*.onnx")))
def test_models_of_every_exporter(model: str) -> None:
    """The output lints clean, or what stands in the way is named. Only quantized models are refused here."""
    asked = ("--target", "atc", "-o", "o.onnx", "--report", "report.json")
    done = onnx_fuser("optimize", MODELS / model, *asked)
    target = report()["target"]
    if "quantized" in model:
        assert (done.status, rules(target), Path("o.onnx").exists()) == (1, {"unregistered"}, False)
        assert {"QuantizeLinear", "DequantizeLinear"} <= set(done.out.replace("::", " ").split())
        return
    assert (done.status, rules(target)) == (0, set())
    assert report()["parity"]["verdict"] == "passed"
    assert onnx_fuser("lint", "o.onnx").status == 0
    assert onnx_fuser("lint", "o.onnx", "--cann", "9.1").status == 0
    run(onnx.load("o.onnx"), feeds(onnx.load("o.onnx")))


# float16


def growing(scale: float) -> ModelProto:
    """A 1×1 Conv whose values are x times scale, and a Mul that brings them back, too late to be folded."""
    return text(
        "[up] c = Conv <kernel_shape = [1,1]> (x, w)",
        "[size] d = Abs (c)",
        "[down] y = Mul (d, k)",
        inputs="float[1,1,4,4] x",
        outputs="float[1,1,4,4] y",
        initializers=f"float[1,1,1,1] w = {{{scale}}}, float k = {{{1 / scale}}}",
    )


@pytest.mark.parametrize(
    ("scale", "severity", "says"),
    [(8.0, "note", "within 0.000"), (60000.0, "warning", "NaN or infinity in different places")],
)
def test_what_float16_does_to_the_outputs(scale: float, severity: str, says: str) -> None:
    """Values beyond 65504 become infinity; the model is written all the same, and the report has it."""
    saved(growing(scale), Path("m.onnx"))
    arguments = ("optimize", "m.onnx", "--target", "atc", "-o", "o.onnx", "--report", "report.json")
    done = onnx_fuser(*arguments, "--precision", "fp16")
    assert done.status == 0
    assert f"{severity} float16" in done.out
    assert says in " ".join(done.out.split())
    target = report()["target"]
    assert target["float16"]["verdict"] == {"note": "passed", "warning": "failed"}[severity]
    assert target["float16"]["outputs"][0]["tolerance"] == 4e-3
    assert report()["parity"]["verdict"] == "passed"


# the bundle


def bundled(*arguments: str) -> set[str]:
    """What stands in out/ after writing a bundle there."""
    done = onnx_fuser("optimize", "m.onnx", "--target", "atc", "-o", "out/", *arguments)
    assert (done.status, done.err) == (0, "")
    assert "Next, where CANN is: out/convert.sh" in done.out
    return {str(path.relative_to("out")) for path in Path("out").rglob("*") if path.is_file()}


BUNDLE = {"model.onnx", "convert.sh", "report.json", "README.md"}


def test_bundle() -> None:
    """The files, atc's options in the script, the report of the run."""
    saved(conv_bn_leaky(), Path("m.onnx"))
    switched = ("--fusion-switch", "ConvBatchnormFusionPass:off", "--precision", "allow_mix_precision")
    found = bundled("--soc", "Ascend310P3", "--shape", "x:2x3x8x8", *switched)
    assert found == {*BUNDLE, "fusion_switch.cfg"}
    script = Path("out/convert.sh").read_text()
    for part in ("Ascend310P3", "x:2,3,8,8", "--precision_mode=allow_mix_precision", "fusion_switch.cfg"):
        assert part in script
    assert subprocess.run(["sh", "-n", "out/convert.sh"], check=False).returncode == 0
    assert Path("out/convert.sh").stat().st_mode & 0o111
    assert Path("out/fusion_switch.cfg").read_text() == "ConvBatchnormFusionPass:off\n"
    facts = report("out/report.json")["model"]
    assert facts["output"] == "out/model.onnx"
    assert facts["output_sha256"] == load("out/model.onnx").sha256
    assert report("out/report.json")["parity"]["draws"][0]["shapes"] == {"x": [2, 3, 8, 8]}


@pytest.mark.parametrize(("scale", "verdict"), [(8.0, "passed"), (60000.0, "failed")])
def test_the_readme_of_a_bundle_says_what_was_found(scale: float, verdict: str) -> None:
    """What float16 does to each output where that was compared; warnings, with the fix."""
    saved(growing(scale), Path("m.onnx"))
    bundled()
    assert "## Compared in float16" not in Path("out/README.md").read_text("utf-8")
    bundled("--precision", "fp16")
    readme = Path("out/README.md").read_text("utf-8")
    assert f"rounded to float16, beside the original: {verdict}." in readme
    assert re.search(rf"^\| `y` \| .+ \| 0.004 \| {verdict} \|$", readme, re.MULTILINE)
    assert ("- warning float16: `in float16" in readme) == (verdict == "failed")
    assert ("→ `try --inputs" in readme) == (verdict == "failed")


def test_bundle_with_a_plugin() -> None:
    saved(conv_bn_leaky(), Path("m.onnx"))
    found = bundled("--fused-as", "node")
    names = ("CMakeLists.txt", "conv_leaky_relu_plugin.cc", "fused_ops.h", "install.sh")
    assert found == BUNDLE | {f"plugin/{name}" for name in names}
    assert Path("out/plugin/install.sh").stat().st_mode & 0o111


def test_a_bundle_is_replaced_and_what_else_lies_there_stays() -> None:
    """As a second run of the same, with a .om beside it."""
    saved(conv_bn_leaky(), Path("m.onnx"))
    bundled("--fused-as", "node")
    before = Path("out/model.onnx").read_bytes()
    Path("out/model.om").write_text("compiled")
    bundled("--fused-as", "node")
    assert Path("out/model.onnx").read_bytes() == before
    assert Path("out/model.om").read_text() == "compiled"
    saved(conv_bn_leaky(seed=1), Path("m.onnx"))
    bundled()
    assert Path("out/model.onnx").read_bytes() != before
    assert sorted(path.name for path in Path().iterdir()) == ["m.onnx", "out"]


def test_a_bundle_that_can_not_be_finished_leaves_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third file can't be moved: the first two are back as they were."""
    saved(conv_bn_leaky(), Path("m.onnx"))
    bundled()
    before = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    saved(conv_bn_leaky(seed=1), Path("m.onnx"))
    real, moved = Path.replace, []

    def failing(self: Path, target: Path) -> Path:
        if self.parent.name == "new":
            moved.append(self.name)
            if len(moved) == 3:
                raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    done = onnx_fuser("optimize", "m.onnx", "--target", "atc", "-o", "out")
    assert done.status == 2
    assert "No space left on device" in done.err
    assert len(moved) == 3
    assert {path.name: path.read_bytes() for path in Path("out").iterdir()} == before
    assert sorted(path.name for path in Path().iterdir()) == ["m.onnx", "out"]


def test_a_bundle_does_not_replace_the_input() -> None:
    """model.onnx where the bundle goes: --force says that this is meant. Its weights' file: never."""
    saved(conv_bn_leaky(), Path("model.onnx"))
    done = onnx_fuser("optimize", "model.onnx", "--target", "atc", "-o", "./")
    assert done.status == 2
    assert "is the input itself" in done.err
    assert onnx_fuser("optimize", "model.onnx", "--target", "atc", "-o", "./", "--force").status == 0
    assert operators("model.onnx") == ["Conv", "LeakyRelu"]
    onnx.save(conv_bn_leaky(), "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    weights = Path("w.bin").read_bytes()
    done = onnx_fuser("optimize", "m.onnx", "--target", "atc", "--bundle", ".", "--force")
    assert done.status == 2
    assert "holds weights of the input" in done.err
    assert Path("w.bin").read_bytes() == weights


def test_external_weights_go_along() -> None:
    """In a file of their own beside the bundle's model, which onnxruntime loads."""
    Path("in").mkdir()
    model = conv_bn_leaky(channels=(8, 32))
    whole = ModelProto.FromString(model.SerializeToString())
    onnx.save(whole, "in/m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    assert onnx_fuser("optimize", "in/m.onnx", "--target", "atc", "-o", "out/").status == 0
    assert {"model.onnx", "w.bin"} <= {path.name for path in Path("out").iterdir()}
    [before], [after] = run(model, feeds(model)), run(onnx.load("out/model.onnx"), feeds(model))
    np.testing.assert_allclose(after, before, rtol=2e-5, atol=2e-5)


def test_a_users_own_fused_operator_gets_its_plugin() -> None:
    """From its rule file's definition; one that no GE operator is known for is written out, and that said."""
    rule = """<ir_version: 10, opset_import: ["" : 17, "pattern": 1, "rewrite": 1, "fuser": 1]>
main (float[1,2,4,4] x, float[2,2,1,1] w) => (float[1,2,4,4] p, float[1,2,4,4] r)
{
  p = pattern.ConvTanh (x, w)
  r = rewrite.ConvTanh (x, w)
}
<domain: "pattern", opset_import: ["" : 17]>
ConvTanh (x, w) => (y) { [conv] c = Conv (x, w)  [tanh] y = OP (c) }
<domain: "rewrite", opset_import: ["" : 17, "fuser": 1]>
ConvTanh (x, w) => (y) { y = fuser.ConvTanh (x, w) }
<domain: "fuser", opset_import: ["" : 17]>
ConvTanh (X, W) => (Y) { c = Conv (X, W)  Y = OP (c) }
"""
    random = np.random.default_rng(0)
    weight = helper.make_tensor("w", 1, [2, 2, 1, 1], random.standard_normal(4).astype(np.float32))
    for op in ("Tanh", "Erf"):
        Path("own.onnxtxt").write_text(rule.replace("OP", op))
        model = text(
            "[n] c = Conv (x, w)",
            f"[t] y = {op} (c)",
            inputs="float[1,2,4,4] x",
            outputs="float[1,2,4,4] y",
            imports='"" : 17',
            initializers="",
        )
        model.graph.initializer.append(weight)
        saved(model, Path("m.onnx"))
        done = onnx_fuser(
            "optimize", "m.onnx", "--target", "atc", "--fused-as", "node", "--bundle", op,
            "--patterns", "own.onnxtxt",
        )  # fmt: skip
        assert (done.status, done.err) == (0, "")
    assert operators("Tanh/model.onnx") == ["ConvTanh"]
    assert Path("Tanh/plugin/conv_tanh_plugin.cc").exists()
    said = " ".join(done.out.split())
    assert "no ATC plugin can be written for ConvTanh: its definition has Erf" in said
    assert operators("Erf/model.onnx") == ["Conv", "Erf"]
    assert not Path("Erf/plugin").exists()


# the documentation

DOCUMENT = ROOT / "docs" / "ascend.md"
BLOCKS = [
    [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    for block in re.findall(r"```console\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
]


@pytest.mark.parametrize("commands", BLOCKS, ids=lambda commands: commands[0][:60])
def test_commands_of_the_documentation(commands: list[str], folder: Path) -> None:
    """Each block is run as it stands, where atc, pip and the way to the server are played by scripts."""
    if any("install.sh" in command for command in commands) and not shutil.which("g++"):
        pytest.skip("there is no g++")
    saved(conv_bn_leaky(size=64), Path("model.onnx"))
    players = {
        "onnx-fuser": f'exec "{sys.executable}" -m fuser.cli "$@"',
        "atc": 'printf "%s\\n" "$@" > atc.txt',
        **dict.fromkeys(("pip", "scp", "ssh"), "exit 0"),
    }
    Path("bin").mkdir()
    for name, does in players.items():
        Path("bin", name).write_text(f"#!/bin/sh\n{does}\n")
        Path("bin", name).chmod(0o755)
    shutil.copytree(ROOT / "tests" / "targets" / "include", "toolkit/include")
    Path("opp/vendors").mkdir(parents=True)
    paths = {"ASCEND_OPP_PATH": str(folder / "opp"), "ASCEND_TOOLKIT_HOME": str(folder / "toolkit")}
    script = "\n".join(["set -e", "source() { :; }", *commands])
    done = subprocess.run(
        ["bash", "-c", script],
        env=environment(PATH=f"{folder / 'bin'}:{os.environ['PATH']}", CXXFLAGS="-O0", **paths),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    if any("convert.sh" in command for command in commands):
        assert "--input_shape=x:1,3,64,64" in Path("out/atc.txt").read_text().splitlines()
    if any("install.sh" in command for command in commands):
        [library] = Path("opp/vendors").glob("*/framework/onnx/libcust_onnx_parsers.so")
        assert library.parents[2].name == "onnx_fuser_conv_leaky_relu_opset17"


def test_every_finding_of_the_linter_is_in_the_documentation() -> None:
    """By the name of its rule, as the linter's source has it."""
    documented = set(re.findall(r"`([a-z0-9-]+)`", DOCUMENT.read_text("utf-8")))
    severities = {"error", "warning", "note"}
    named = set()
    for path in (ROOT / "fuser" / "targets" / "atc").glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in {"Finding", "_refused"}:
                last = call.args[-1]
                named |= {last.value} if isinstance(last, ast.Constant) else set()
    assert len(named) > 30
    assert named - severities <= documented
