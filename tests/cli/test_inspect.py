"""``inspect``: a report or a model, for people, programs and pull requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import conv_bn_leaky
from tests.cli.running import onnx_fuser, saved


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """model.onnx, and the out.onnx and report.json made of it."""
    monkeypatch.chdir(tmp_path)
    model = conv_bn_leaky(channels=(3, 4, 5))
    model.producer_name, model.producer_version = "pytorch", "2.13"
    saved(model, Path("model.onnx"))
    assert onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", "--report", "report.json", "-q").status == 0


def test_a_report_reads_as_the_run_that_wrote_it() -> None:
    again = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", "--report", "again.json")
    shown = onnx_fuser("inspect", "report.json")
    assert (shown.status, shown.err) == (0, "")
    assert shown.out == again.out


def test_a_report_as_json_is_itself() -> None:
    done = onnx_fuser("inspect", "report.json", "--format", "json")
    assert json.loads(done.out) == json.loads(Path("report.json").read_text())


def test_a_report_as_markdown_begins_with_the_answer() -> None:
    lines = onnx_fuser("inspect", "report.json", "--format", "markdown").out.splitlines()
    assert lines[0] == "## onnx-fuser: `model.onnx`"
    assert lines[2] == "**2 fused, 0 of 2 BatchNormalization left, parity passed ✅**"


def test_a_report_with_a_field_of_a_later_release_is_read() -> None:
    report = json.loads(Path("report.json").read_text())
    report["energy"] = {"joules": 1}
    report["fusions"][0]["flops"] = 2
    Path("report.json").write_text(json.dumps(report))
    assert onnx_fuser("inspect", "report.json").status == 0


def test_a_report_with_a_byte_order_mark_is_read() -> None:
    Path("report.json").write_bytes(b"\xef\xbb\xbf" + Path("report.json").read_bytes())
    assert onnx_fuser("inspect", "report.json").status == 0


def test_a_model_shows_what_it_consists_of_and_what_could_be_fused() -> None:
    done = onnx_fuser("inspect", "model.onnx")
    assert (done.status, done.err) == (0, "")
    said = " ".join(done.out.split())
    for part in (
        "IR version 8", "opset ai.onnx 17", "producer pytorch 2.13", "input x float[N, 3, 8, 8]",
        "6 nodes 2 BatchNormalization 2 Conv 2 LeakyRelu", "Could be fused: 2",
        "2 Conv + BatchNormalization + LeakyRelu -> ConvLeakyRelu",
    ):  # fmt: skip
        assert part in said
    assert "Fused operators" not in said
    assert max(map(len, done.out.splitlines())) <= 80


def test_a_fused_model_shows_where_its_operators_came_from() -> None:
    said = " ".join(onnx_fuser("inspect", "out.onnx").out.split())
    assert "2 nodes 2 fuser::ConvLeakyRelu" in said
    assert "Fused operators: 2" in said
    assert "stands for Conv_1, BN_1, LeakyRelu_1" in said
    assert "Nothing could be fused" in said


def test_a_model_as_json_counts_what_the_text_shows() -> None:
    found = json.loads(onnx_fuser("inspect", "out.onnx", "--format", "json").out)
    assert found["operators"] == {"fuser::ConvLeakyRelu": 2}
    assert [f["replaces"] for f in found["fused"]] == [
        "Conv_0, BN_0, LeakyRelu_0",
        "Conv_1, BN_1, LeakyRelu_1",
    ]
    assert found["functions"] == ["fuser::ConvLeakyRelu"]
    assert found["initializer_bytes"] == sum(4 * (a * b * 9 + b) for a, b in ((3, 4), (4, 5)))


def test_a_model_as_markdown_has_its_operators() -> None:
    done = onnx_fuser("inspect", "model.onnx", "--format", "markdown")
    assert "| `BatchNormalization` | 2 |" in done.out
    assert "| could be fused | 2 |" in done.out
