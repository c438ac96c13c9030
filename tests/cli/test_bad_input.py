"""Everything a user can get wrong: one sentence with the fix, status 2, no traceback, no file left."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import conv_bn_leaky
from tests.cli.running import Done, onnx_fuser, saved

HEADER = '<ir_version: 10, opset_import: ["" : 17, "pattern": 1, "rewrite": 1]>\n'


@cache
def good() -> bytes:
    return conv_bn_leaky(channels=(3, 4, 5)).SerializeToString()


def contradictory() -> bytes:
    """A BatchNormalization over 5 channels after a Conv that gives 4."""
    model = conv_bn_leaky(check=False)
    for tensor in model.graph.initializer:
        if tensor.name in ("scale0", "shift0", "mean0", "var0"):
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.ones(5, np.float32), tensor.name))
    return model.SerializeToString()


def files(folder: Path) -> dict[str, bytes]:
    """All files below a folder with what is in them."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(folder: Path, *arguments: object) -> str:
    """The sentence, once it is sure that the run ended as a refusal has to and changed no file."""
    before = files(folder)
    done = onnx_fuser(*arguments)
    assert_refusal(done)
    assert files(folder) == before
    return done.err.strip()


def assert_refusal(done: Done) -> None:
    assert "Traceback" not in done.err
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("onnx-fuser: ")
    assert len(done.err.strip().splitlines()) == 1


class Bad(NamedTuple):
    """What is in model.onnx (None: nothing is there), and words of the sentence and of the fix."""

    content: bytes | None
    says: str
    fix: str


MODELS = {
    "no file": Bad(None, "no such file", "give the path of an .onnx file"),
    "empty": Bad(b"", "the file is empty", "export or copy the model again"),
    "text": Bad(b"hello, I am text\n", "is text and no binary ONNX model", "give an .onnx file"),
    "truncated": Bad(good()[:-100], "is damaged, cut short, or no ONNX model", "export or copy it again"),
    "truncated early": Bad(good()[:20], "is damaged, cut short", "export or copy it again"),
    "corrupted": Bad(b"\xff" * 16 + good()[16:], "is damaged", "export or copy it again"),
    "a zip": Bad(b"PK\x03\x04" + bytes(60), "is a zip archive", "torch.onnx.export"),
    "contradictory": Bad(contradictory(), "BN_0", "export"),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("parity", ["on", "off"])
def test_bad_models_are_refused_by_optimize(name: str, parity: str, tmp_path: Path) -> None:
    bad, path = MODELS[name], tmp_path / "model.onnx"
    if bad.content is not None:
        path.write_bytes(bad.content)
    report = ("--report", tmp_path / "report.json")
    sentence = refused(tmp_path, "optimize", path, "-o", tmp_path / "out.onnx", "--parity", parity, *report)
    assert bad.says in sentence
    assert bad.fix in sentence


@pytest.mark.parametrize("name", [n for n in MODELS if n != "contradictory"])
@pytest.mark.parametrize(
    "command", [["explain"], ["inspect"], ["parity", "good.onnx"]], ids=lambda c: str(c[0])
)
def test_bad_models_are_refused_by_every_command(
    name: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.onnx").write_bytes(good())
    if (content := MODELS[name].content) is not None:
        Path("model.onnx").write_bytes(content)
    assert MODELS[name].says in refused(tmp_path, *command, "model.onnx")


@pytest.mark.parametrize(
    "command", [["optimize", "-o", "out.onnx"], ["explain"], ["inspect"], ["parity", "folder"]]
)
def test_a_folder_is_no_model(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    assert "folder: is a folder; give the path of a file in it" in refused(tmp_path, *command, "folder")


class Options(NamedTuple):
    """Options of optimize, and words of the sentence and of the fix."""

    options: str
    says: str
    fix: str


OPTIONS = {
    "output is a folder": Options("-o folder", "folder is a folder", "give the name of a file in it"),
    "output's folder is missing": Options("-o no/out.onnx", "the folder no does not exist", "make it"),
    "output is the input": Options("-o model.onnx", "model.onnx is the input itself", "say --force"),
    "output is the input by another path": Options(
        "-o folder/../model.onnx", "the input itself", "say --force"
    ),
    "output is a link to the input": Options("-o link.onnx", "is the input itself", "say --force"),
    "output is a device": Options("-o /dev/null", "is no regular file", "choose another"),
    "report is a folder": Options("-o o.onnx --report folder", "folder is a folder", "the name of a file"),
    "report's folder is missing": Options("-o o.onnx --report no/r.json", "no does not exist", "make it"),
    "report is a device": Options("-o o.onnx --report /dev/null", "no regular file", "write somewhere else"),
    "report is the model": Options("-o o.onnx --report model.onnx", "named twice", "a name of its own"),
    "report is the output": Options("-o o.onnx --report ./o.onnx", "named twice", "a name of its own"),
    "no rule of that name": Options("-o o.onnx --only LeakyRelu:mox", "'LeakyRelu:mox'", "'LeakyRelu:max'"),
    "no such rule to leave out": Options("-o o.onnx --disable zzzz", "no rule 'zzzz'", "patterns list"),
    "no such patterns": Options("-o o.onnx --patterns rules", "no such file or folder: rules", "name a rule"),
    "patterns without a rule": Options("-o o.onnx --patterns folder", "no rule file", "put one there"),
    "no inputs": Options("-o o.onnx --inputs x.npz", "x.npz does not exist", "give a .npz"),
    "inputs of no known kind": Options("-o o.onnx --inputs notes.txt", "none of .npz", "convert it"),
    "inputs that are no arrays": Options(
        "-o o.onnx --inputs text.npz", "text.npz can't be read", "numpy.savez"
    ),
    "inputs of another name": Options(
        "-o o.onnx --inputs other.npz", "lacks x", "the model takes x (float32)"
    ),
    "inputs of another shape": Options("-o o.onnx --inputs shape.npz", "takes [N, 3, 8, 8]", "reshape it"),
    "a shape for no input": Options("-o o.onnx --shape z:1x3", "no input 'z'", "the inputs are x"),
    "a shape that does not fit": Options("-o o.onnx --shape x:1x4x8x8", "does not fit", "give another shape"),
    "a shape of another rank": Options("-o o.onnx --shape x:1x3", "does not fit", "give another shape"),
}


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with a good model and files that are wrong for what they are given for."""
    monkeypatch.chdir(tmp_path)
    Path("model.onnx").write_bytes(good())
    Path("folder").mkdir()
    Path("link.onnx").symlink_to("model.onnx")
    Path("notes.txt").write_text("notes")
    Path("text.npz").write_text("this is no archive")
    np.savez("other.npz", other=np.zeros((1, 3, 8, 8), np.float32))
    np.savez("shape.npz", x=np.zeros((1, 3), np.float32))
    return tmp_path


@pytest.mark.parametrize("name", OPTIONS)
def test_bad_options_are_refused(name: str, workplace: Path) -> None:
    options, says, fix = OPTIONS[name]
    sentence = refused(workplace, "optimize", "model.onnx", *options.split())
    assert says in sentence
    assert fix in sentence


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(workplace: Path) -> None:
    Path("folder").chmod(0o500)
    for options in (["-o", "folder/out.onnx"], ["-o", "out.onnx", "--report", "folder/r.json"]):
        assert "permission" in refused(workplace, "optimize", "model.onnx", *options)


def test_what_can_not_be_written_is_refused_before_the_work(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("worked before it looked where to write")

    monkeypatch.setattr("fuser.optimize.run", work)
    for options in (
        ["-o", "no/out.onnx"],
        ["-o", "out.onnx", "--report", "no/report.json"],
        ["-o", "model.onnx"],
    ):
        refused(workplace, "optimize", "model.onnx", *options)


def test_the_input_is_replaced_with_force_and_keeps_computing(workplace: Path) -> None:
    before = Path("model.onnx").read_bytes()
    done = onnx_fuser("optimize", "model.onnx", "-o", "model.onnx", "--force")
    assert (done.status, done.err) == (0, "")
    assert [n.op_type for n in onnx.load("model.onnx").graph.node] == ["ConvLeakyRelu"] * 2
    Path("before.onnx").write_bytes(before)
    assert onnx_fuser("parity", "before.onnx", "model.onnx").status == 0


MISSPELT = (
    HEADER
    + """
main (float[2] x) => (float[2] p, float[2] r)
{
  p = pattern.L <alpha = 0.2> (x)
  r = rewrite.L <alpha = 0.2> (x)
}
<domain: "pattern", opset_import: ["" : 17]>
L <alpha> (x) => (y) { y = LeakyRelu <alpha: float = @alpah> (x) }
<domain: "rewrite", opset_import: ["" : 17]>
L <alpha> (x) => (y) { y = LeakyRelu <alpha: float = @alpha> (x) }
"""
)
RULES = {
    "not a rule file": ("hello", 1, "correct the text"),
    "a misspelt reference": (MISSPELT, 9, "did you mean @alpha?"),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(
    "arguments",
    [
        ["optimize", "model.onnx", "-o", "out.onnx", "--patterns", "folder"],
        ["explain", "model.onnx", "--patterns", "folder"],
        ["patterns", "list", "--patterns", "folder"],
        ["patterns", "show", "LeakyRelu:max", "--patterns", "folder"],
        ["patterns", "check", "folder/rule.onnxtxt"],
    ],
    ids=lambda a: " ".join(a[:2]),
)
def test_a_mistake_in_a_rule_file_has_its_file_line_and_fix(
    name: str, arguments: list[str], workplace: Path
) -> None:
    text, line, fix = RULES[name]
    Path("folder/rule.onnxtxt").write_text(text)
    sentence = refused(workplace, *arguments)
    assert f"rule.onnxtxt:{line}: " in sentence
    assert fix in sentence


def test_unknown_rules_and_nodes_get_the_nearest_name(workplace: Path) -> None:
    assert "the nearest is 'LeakyRelu:max'" in refused(workplace, "patterns", "show", "LeakyRelu:mx")
    assert "the nearest is 'Conv_0'" in refused(workplace, "explain", "model.onnx", "Conv_00")


REPORTS = {
    "cut short": ('{"format": 1, "tool"', "is no JSON", "give a file that --report wrote"),
    "other JSON": ('{"name": "x"}', "is JSON but no report", "give a file that --report wrote"),
    "a newer format": (
        '{"format": 2}',
        "format 2, and this onnx-fuser reads format 1",
        "read it with the release",
    ),
    "incomplete": ('{"format": 1}', "no report of format 1: report: ", "write it again with --report"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_bad_reports_are_refused(name: str, workplace: Path) -> None:
    text, says, fix = REPORTS[name]
    Path("report.json").write_text(text)
    sentence = refused(workplace, "inspect", "report.json")
    assert says in sentence
    assert fix in sentence


def test_a_report_with_a_wrong_field_is_refused_by_its_path(workplace: Path) -> None:
    assert (
        onnx_fuser(
            "optimize", "model.onnx", "-o", "out.onnx", "--report", "report.json", "--no-parity"
        ).status
        == 0
    )
    report = json.loads(Path("report.json").read_text())
    report["fusions"][1]["output"] = 3
    Path("report.json").write_text(json.dumps(report))
    assert "report.fusions[1].output: 3 is not of type 'string'" in refused(
        workplace, "inspect", "report.json"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


Damage = Callable[[bytes], bytes]


def cut(at: int) -> Damage:
    return lambda data: data[: at % len(data)]


def changed(at: int, to: int) -> Damage:
    return lambda data: bytes((*data[: at % len(data)], to, *data[at % len(data) + 1 :]))


PLACE = st.integers(0, 3000)


@given(damage=st.one_of(st.builds(cut, PLACE), st.builds(changed, PLACE, st.integers(0, 255))))
@settings(max_examples=60, deadline=None)
def test_a_damaged_model_never_ends_in_a_traceback(damage: Damage, folder: Path) -> None:
    """Cut or changed anywhere, it is refused in one sentence, or is still a model, and then it is written."""
    model, out = folder / "model.onnx", folder / "out.onnx"
    model.write_bytes(damage(good()))
    out.unlink(missing_ok=True)
    done = onnx_fuser("optimize", model, "-o", out, "--no-parity", "--quiet")
    if done.status:
        assert_refusal(done)
    assert out.exists() == (done.status == 0)
    assert {p.name for p in folder.iterdir()} <= {"model.onnx", "out.onnx"}


def test_an_unexpected_error_keeps_its_traceback(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("fuser.optimize.run", broken)
    done = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx")
    assert done.status == 2
    assert "Traceback (most recent call last)" in done.err
    assert "RuntimeError: a bug" in done.err
    assert "please report it" in done.err


def test_the_checks_of_this_file_see_what_they_look_for(tmp_path: Path) -> None:
    """A run that succeeds is no refusal, and one that writes is seen."""
    path = saved(conv_bn_leaky(), tmp_path / "model.onnx")
    with pytest.raises(AssertionError):
        refused(tmp_path, "optimize", path, "-o", tmp_path / "out.onnx", "--no-parity")
