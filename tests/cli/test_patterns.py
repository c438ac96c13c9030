"""``patterns``: the list, the text of a rule, and the proof."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from fuser.language import builtin_folder, load_rules
from tests.builders import model, tensor
from tests.cli.running import ROOT, onnx_fuser, saved

DOCUMENT = (ROOT / "docs" / "patterns.md").read_text("utf-8")


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The worked example of docs/patterns.md, in the folder it names."""
    monkeypatch.chdir(tmp_path)
    found = re.search(r"`(my-rules/\S+\.onnxtxt)`.*?```onnxtxt\n(.*?)```", DOCUMENT, re.DOTALL)
    assert found is not None
    path = Path(found[1])
    path.parent.mkdir()
    path.write_text(found[2])
    return path


def test_list_has_every_built_in_rule_once_with_its_file() -> None:
    done = onnx_fuser("patterns", "list")
    assert (done.status, done.err) == (0, "")
    listed = [line.split()[0] for line in done.out.splitlines() if re.match(r"  \S", line)]
    assert listed == [rule.id for rule in load_rules(builtin_folder())]
    for file in builtin_folder().glob("*.onnxtxt"):
        assert file.name in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_list_has_the_meaning_of_a_rule() -> None:
    assert re.search(
        r"^  LeakyRelu:max +max\(x, a\*x\) is LeakyRelu", onnx_fuser("patterns", "list").out, re.M
    )


@pytest.mark.parametrize("rule", [r.id for r in load_rules(builtin_folder())])
def test_show_gives_the_functions_of_a_rule_whole(rule: str) -> None:
    """With a header and a graph in front it parses, and holds pattern, rewrite and what they call."""
    done = onnx_fuser("patterns", "show", rule)
    assert (done.status, done.err) == (0, "")
    file = '<ir_version: 10, opset_import: ["" : 17]>\nmain (float x) => (float y) { y = Relu(x) }\n'
    functions = onnx.parser.parse_model(file + done.out).functions
    expected = [r for r in load_rules(builtin_folder()) if rule in (r.id, r.name)]
    own = {(f.domain, f.name, f.overload) for f in functions if f.domain != "fuser"}
    assert own == {
        (domain, r.name, r.overload)
        for r in expected
        for domain in ("pattern", "rewrite", *(["where"] if r.where else []))
    }
    called = {f.name for f in functions if f.domain == "fuser"}
    assert called == {f.name for r in expected for f in r.definitions}


def test_show_by_name_gives_all_rules_that_share_it() -> None:
    text = onnx_fuser("patterns", "show", "LeakyRelu").out
    for rule in load_rules(builtin_folder()):
        assert (f"# {rule.id}, from" in text) == (rule.name == "LeakyRelu")


def test_show_keeps_the_comment_above_a_function() -> None:
    assert "# MindSpore" in onnx_fuser("patterns", "show", "LeakyRelu:max").out


def test_check_proves_a_built_in_file() -> None:
    done = onnx_fuser("patterns", "check", builtin_folder() / "leaky_relu.onnxtxt")
    assert (done.status, done.err) == (0, "")
    assert done.out.count(" passed ") == len(load_rules(builtin_folder() / "leaky_relu.onnxtxt"))
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("s = Mul(a, x)\n  [max]", "s = Add(a, x)\n  [max]"),
        ("[where] y = Where(c, x, s)", "[where] y = Where(c, s, x)"),
        ("s = Mul(a, x)\n  [max] y = Max(x, s)", "s = Mul(a, x)\n  [max] y = Min(x, s)"),
    ],
)
def test_check_refuses_a_rule_that_was_edited_wrongly(right: str, wrong: str, tmp_path: Path) -> None:
    text = (builtin_folder() / "leaky_relu.onnxtxt").read_text()
    assert right in text
    path = tmp_path / "edited.onnxtxt"
    path.write_text(text.replace(right, wrong, 1))
    done = onnx_fuser("patterns", "check", path)
    assert done.status == 1
    assert " failed " in done.out
    assert re.search(r"onnx-fuser: rule LeakyRelu:\w+ is refused: ", done.err)


def test_check_quietly_prints_only_refusals(example: Path) -> None:
    assert onnx_fuser("patterns", "check", example, "--quiet") == (0, "", "")
    example.write_text(example.read_text().replace("value_float = 3.0", "value_float = 3.1"))
    done = onnx_fuser("patterns", "check", example, "-q")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("onnx-fuser: rule HardSwish:clip is refused: ")


def test_the_worked_example_is_proved_and_listed(example: Path) -> None:
    done = onnx_fuser("patterns", "check", example)
    assert (done.status, done.err) == (0, "")
    listed = onnx_fuser("patterns", "list", "--patterns", "my-rules").out
    assert listed.index("HardSwish:clip") < listed.index("LeakyRelu:max")
    assert "HardSwish:clip" not in onnx_fuser("patterns", "list").out


@pytest.mark.usefixtures("example")
def test_the_worked_example_rewrites_a_model() -> None:
    """HardSwish written out becomes the operator; the same model without the rule stays as it is."""
    nodes = [
        helper.make_node("Add", ["three", "x"], ["s"]),
        helper.make_node("Clip", ["s", "low", "six"], ["c"]),
        helper.make_node("Mul", ["x", "c"], ["p"]),
        helper.make_node("Div", ["p", "six"], ["y"]),
    ]
    constants = [tensor(name, np.float32(value)) for name, value in (("three", 3), ("low", 0), ("six", 6))]
    built = model(nodes, {"x": ("N", 8)}, {"y": ("N", 8)}, constants, dtype=TensorProto.FLOAT)
    saved(built, Path("model.onnx"))
    done = onnx_fuser("optimize", "model.onnx", "-o", "out.onnx", "--patterns", "my-rules")
    assert (done.status, done.err) == (0, "")
    assert [node.op_type for node in onnx.load("out.onnx").graph.node] == ["HardSwish"]
    assert onnx_fuser("parity", "model.onnx", "out.onnx").status == 0
    assert onnx_fuser("optimize", "model.onnx", "-o", "plain.onnx").status == 0
    assert [node.op_type for node in onnx.load("plain.onnx").graph.node] == ["Add", "Clip", "Mul", "Div"]
