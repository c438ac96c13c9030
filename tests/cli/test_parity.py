"""``parity``: two models compared, and the three ways that ends."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from tests.builders import conv_bn_leaky
from tests.cli.running import onnx_fuser, saved


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """a.onnx; the same.onnx; a slope that is 1 % off; one that gives another shape."""
    monkeypatch.chdir(tmp_path)
    saved(conv_bn_leaky(), Path("a.onnx"))
    saved(conv_bn_leaky(), Path("same.onnx"))
    saved(conv_bn_leaky(slope=0.202), Path("off.onnx"))
    saved(conv_bn_leaky(channels=(3, 5)), Path("other.onnx"))


def test_models_that_agree_are_status_0() -> None:
    done = onnx_fuser("parity", "a.onnx", "same.onnx")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("Parity passed (onnxruntime ")
    assert max(map(len, done.out.splitlines())) <= 80


def test_models_that_differ_are_status_1_with_a_row_per_output() -> None:
    done = onnx_fuser("parity", "a.onnx", "off.onnx")
    assert done.status == 1
    header, row = (line.split() for line in done.out.splitlines()[-2:])
    assert header == ["output", "type", "max", "diff", "SNR", "dB", "needs", "allowed", "verdict"]
    assert (row[0], row[1], row[-1]) == ("y", "float32", "failed")
    assert float(row[-3]) > float(row[-2])


def test_quiet_leaves_one_sentence_where_they_differ() -> None:
    assert onnx_fuser("parity", "a.onnx", "same.onnx", "-q") == (0, "", "")
    done = onnx_fuser("parity", "a.onnx", "off.onnx", "-q")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("onnx-fuser: parity failed: output 'y' differs")


def test_the_smallest_tolerance_it_shows_passes_and_less_does_not() -> None:
    shown = json.loads(onnx_fuser("parity", "a.onnx", "off.onnx", "--json").out)["outputs"][0]
    needed = shown["smallest_tolerance"]
    assert onnx_fuser("parity", "a.onnx", "off.onnx", "--tolerance", needed * 1.001).status == 0
    assert onnx_fuser("parity", "a.onnx", "off.onnx", "--tolerance", needed * 0.999).status == 1


def test_other_interfaces_differ() -> None:
    done = onnx_fuser("parity", "a.onnx", "other.onnx")
    assert done.status == 1
    assert "y" in done.out


def test_what_can_not_be_run_can_not_be_judged() -> None:
    done = onnx_fuser("parity", "a.onnx", "same.onnx", "--timeout", "0.001")
    assert done.status == 2
    assert done.out.startswith("Parity inconclusive")


def test_json_is_the_report_s_parity() -> None:
    done = onnx_fuser("parity", "a.onnx", "off.onnx", "--json", "--draws", "2", "--shape", "x:1x3x8x8")
    found = json.loads(done.out)
    assert (done.status, done.err) == (1, "")
    assert found["verdict"] == "failed"
    assert [draw["shapes"] for draw in found["draws"]] == [{"x": [1, 3, 8, 8]}] * 2


def test_inputs_of_the_user_decide() -> None:
    """On zeros alone a slope makes no difference, which proves nothing."""
    model = conv_bn_leaky(bn=False)
    saved(model, Path("a.onnx"))
    for node in model.graph.node:
        if node.op_type == "LeakyRelu":
            node.attribute[0].f = 0.5
    saved(model, Path("b.onnx"))
    np.save("zeros.npy", np.zeros((1, 3, 8, 8), np.float32))
    Path("set").mkdir()
    Path("set/input_0.pb").write_bytes(
        numpy_helper.from_array(-np.ones((1, 3, 8, 8), np.float32)).SerializeToString()
    )
    zeros = onnx_fuser("parity", "a.onnx", "b.onnx", "--inputs", "zeros.npy")
    assert (zeros.status, "give inputs that vary" in " ".join(zeros.out.split())) == (2, True)
    assert onnx_fuser("parity", "a.onnx", "b.onnx", "--inputs", "set").status == 1
