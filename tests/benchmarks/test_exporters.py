"""benchmarks/exporters.py: its counts, tools that are missing or fail, and the networks' files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import onnx.inliner
import onnx.parser
import pytest

from benchmarks import exporters
from benchmarks.exporters import CASES, MODELS, Case, Count, Tool, count, run, run_case

SCRIPT = Path(exporters.__file__)
NETWORKS = [case for case in CASES if case.file.startswith("networks/")]


def test_every_network_is_in_the_table_and_in_the_readme_and_small() -> None:
    files = list((MODELS / "networks").glob("*.onnx"))
    assert {f"networks/{path.stem}" for path in files} == {case.file for case in NETWORKS}
    assert max(path.stat().st_size for path in files) < 200_000
    readme = (MODELS / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in files if f"| networks/{path.name} |" not in readme] == []


SPELLED_OUT = [case for case in CASES if case.exporter != "MindSpore"]


@pytest.mark.parametrize("case", SPELLED_OUT, ids=lambda case: case.file)
def test_a_file_that_says_leakyrelu_says_it_once_a_site(case: Case) -> None:
    """The table's sites are checked against the file, where the exporter calls a LeakyRelu by its name."""
    model = onnx.load(MODELS / f"{case.file}.onnx")
    own = [(function.domain, function.name) for function in model.functions]
    if own:
        model = onnx.inliner.inline_selected_functions(model, own)
    assert sum(node.op_type == "LeakyRelu" for node in model.graph.node) == case.sites


@pytest.mark.parametrize("case", NETWORKS, ids=lambda case: case.file)
def test_all_sites_of_a_network_fuse_and_parity_holds(case: Case, tmp_path: Path) -> None:
    row = run_case(case, tmp_path, tools=())
    assert row.before.fused == 0
    assert isinstance(row.fuser, Count), row.fuser
    assert (row.fuser.fused, row.fuser.normalizations) == (case.sites, 0)
    assert row.parity.startswith("passed, ")
    assert row.good
    fused = onnx.load(tmp_path / "fused.onnx")
    if "jax2onnx" in case.exporter:  # it writes shapes into its files that are wrong, and what it wrote stays
        del fused.graph.value_info[:]
    onnx.checker.check_model(fused, full_check=True)


MODEL = """
<ir_version: 10, opset_import: ["" : 17, "fuser" : 1, "com.microsoft" : 1, "made" : 1]>
main (float[N, 2, 8, 8] x, bool c) => (float[N, 2, 8, 8] z)
<float[2, 2, 1, 1] w = {1, 2, 3, 4}, float[2] b = {0, 0}>
{
  a = fuser.ConvLeakyRelu (x, w, b)
  d = com.microsoft.FusedConv <activation = "LeakyRelu"> (a, w, b)
  e = com.microsoft.FusedConv <activation = "Relu"> (d, w, b)
  f = made.Norm (e, b)
  g = made.Norm (f, b)
  z = If (c) <then_branch = yes () => (y) { y = fuser.GemmLeakyRelu (g, w, b) },
              else_branch = no () => (n) { n = fuser.AdaptiveLeakyRelu (g) }>
}
<domain: "made", opset_import: ["" : 17]>
Norm (v, s) => (r)
{
  r = BatchNormalization (v, s, s, s, s)
}
<domain: "fuser", opset_import: ["" : 17]>
ConvLeakyRelu (v, k, s) => (r)
{
  q = Conv (v, k, s)
  r = LeakyRelu (q)
}
"""


def test_counts_bodies_calls_of_functions_and_only_what_ends_in_leakyrelu() -> None:
    assert count(onnx.parser.parse_model(MODEL)) == Count(fused=3, normalizations=2, nodes=8)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("raise ValueError('no such thing')", "failed: ValueError: no such thing"),
        ("pass", "failed: no output"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "crashed, signal 9"),
        ("import time; time.sleep(60)", "timed out"),
    ],
)
def test_a_tool_that_fails_spoils_its_own_cell_only(program: str, said: str, tmp_path: Path) -> None:
    assert run(["-c", program], tmp_path / "out.onnx", timeout=3) == said


def test_a_tool_that_is_not_there_is_said_to_be_not_installed(tmp_path: Path) -> None:
    row = run_case(NETWORKS[0], tmp_path, tools=(Tool("other", "no-such-distribution", "raise SystemExit"),))
    assert row.others == ("not installed",)
    assert row.good, "what other tools do is no fault of ours"


def test_the_table_in_markdown() -> None:
    command = [sys.executable, str(SCRIPT), "--markdown", "--only", "torch_discriminator"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if "|" in line
    ]
    header, rule, row = lines
    assert len(rule) == len(header)
    told = dict(zip(header, row, strict=True))
    assert (told["sites"], told["as exported"], told["onnx-fuser"]) == ("4", "0 / 3 / 13", "4 / 0 / 6")
    assert told["onnxruntime"] == "4 / 0 / 5"  # it fuses the last Conv with its Sigmoid, too
    for tool in ("onnxsim", "OnnxSlim"):
        assert told[tool] in {"not installed", "0 / 0 / 10"}
