"""What the loader gives: rules, their bodies, the lines and the definitions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import checker

from fuser.language import Ref, RewriteRule, builtin_folder, load_rules
from fuser.language.text import HEADER as SHOWN
from tests.language.texts import CONV, FOLD, HEADER, LARGEST, LEAKY, SPLIT, changed, load


def test_a_rule_is_read_whole(tmp_path: Path) -> None:
    """Names, labels, references, literals, documentation, opset."""
    (rule,) = load(tmp_path, LEAKY)
    pattern, rewrite, where = rule.pattern, rule.rewrite, rule.where
    assert (rule.id, rule.name, rule.overload, rule.file) == (
        "Leaky:max",
        "Leaky",
        "max",
        tmp_path / "rule.onnxtxt",
    )
    assert (pattern.inputs, pattern.outputs, pattern.attributes, pattern.opset) == (
        ("x",),
        ("y",),
        ("alpha",),
        17,
    )
    assert pattern.doc == "max(x, a*x)\nis # LeakyRelu } for a <= 1"
    assert [(n.label, n.op_type, n.domain, n.inputs, n.outputs, n.line) for n in pattern.nodes] == [
        ("slope", "Constant", "", (), ("a",), 12),
        ("scaled", "Mul", "", ("a", "x"), ("s",), 13),
        ("max1", "Max", "", ("x", "s"), ("y",), 14),
    ]
    assert pattern.nodes[0].attributes == {"value_float": Ref("alpha")}
    assert [(n.label, n.line) for n in rewrite.nodes] == [("leakyrelu1", 17)]
    assert where is not None
    assert (where.inputs, where.outputs, where.attributes) == ((), ("slope_at_most_1",), ("alpha",))
    assert [(n.label, n.line) for n in where.nodes] == [
        ("constant1", 21),
        ("constant2", 22),
        ("lessorequal1", 23),
    ]
    literal = where.nodes[1].attributes["value_float"]
    assert not isinstance(literal, Ref)
    assert literal.f == 1.0
    assert rule.definitions == ()


def test_labels_that_the_loader_gives_are_free(tmp_path: Path) -> None:
    """A label that is written keeps its name; the numbers go on past it."""
    (rule,) = load(tmp_path, changed(LEAKY, "[scaled] s = Mul(a, x)", "[max1] s = Mul(a, x)"))
    assert [n.label for n in rule.pattern.nodes] == ["slope", "max1", "max2"]


def test_absent_inputs_and_outputs_are_empty_names(tmp_path: Path) -> None:
    """As ONNX writes them."""
    text = changed(SPLIT, "l, h =", 'l, "" =')
    text = changed(text, "  high = Abs(h)", '  h = Clip(l, "", l)\n  high = Abs(h)')
    (rule,) = load(tmp_path, text)
    assert rule.pattern.nodes[0].outputs == ("l", "")
    assert rule.pattern.nodes[2].inputs == ("l", "", "l")


def test_definitions_come_with_what_they_call(tmp_path: Path) -> None:
    """Callees first; rules that call none have none."""
    (conv,) = load(tmp_path, CONV)
    assert [f"{d.domain}.{d.name}" for d in conv.definitions] == ["fuser.TestLeaky", "fuser.TestConv"]


def test_definitions_of_the_built_in_folder_are_visible(tmp_path: Path) -> None:
    """A user's rule may make the operators that onnx-fuser makes."""
    text = CONV[: CONV.index('<domain: "fuser"')] + CONV[CONV.index('<domain: "pattern"') :]
    (rule,) = load(tmp_path, text.replace("fuser.TestConv", "fuser.ConvLeakyRelu"))
    assert [d.name for d in rule.definitions] == ["ConvLeakyRelu"]
    checker.check_function(rule.definitions[0], _context())


def _context() -> checker.C.CheckerContext:
    context = checker.C.CheckerContext()
    context.ir_version, context.opset_imports = 10, {"": 17, "fuser": 1}
    return context


def test_rules_come_by_file_name_then_as_they_stand(tmp_path: Path) -> None:
    """Folders and files may be mixed; a file that is named twice counts once; other files are left alone."""
    two = LARGEST.replace("Largest", "Alpha")
    body = two[two.index("<domain") :]
    main = changed(LARGEST, "}\n", "  a = pattern.Alpha (x)\n  b = rewrite.Alpha (x)\n}\n")
    main = changed(main, "=> (", "=> (float[4, 1] a, float[4, 1] b, ")
    (tmp_path / "folder").mkdir()
    last = tmp_path / "z.onnxtxt"
    last.write_text(FOLD)
    load(tmp_path / "folder", main + body, "m.onnxtxt")
    load(tmp_path / "folder", SPLIT, "b.onnxtxt")
    (tmp_path / "folder" / "notes.txt").write_text("not a rule")
    rules = load_rules(last, tmp_path / "folder", last)
    assert [rule.id for rule in rules] == ["Halves", "Largest", "Alpha", "Fold"]


def test_a_rule_may_drop_what_it_says_it_drops(tmp_path: Path) -> None:
    """A leading underscore: the pattern binds the value and the rewrite does without it."""
    text = changed(LEAKY.replace("alpha>", "_alpha>"), "= @_alpha> ()   #", "= @_alpha> ()   #")
    text = text.replace("<alpha: float = 0.1>", "<_alpha: float = 0.1>")
    text = changed(text, "y = LeakyRelu <alpha: float = @_alpha> (x)", "y = Relu(x)")
    (rule,) = load(tmp_path, text)
    assert rule.rewrite.attributes == ("_alpha",)


def test_a_pattern_may_ask_for_an_element_type(tmp_path: Path) -> None:
    """As `float16[] x`; the type is in the function that the matcher reads."""
    (rule,) = load(
        tmp_path, changed(LEAKY, "Leaky <alpha> (x) => (y)\n{", "Leaky <alpha> (float16[] x) => (y)\n{")
    )
    assert [(v.name, v.type.tensor_type.elem_type) for v in rule.pattern.proto.value_info] == [("x", 10)]


def test_operators_of_other_domains_are_taken_at_their_word(tmp_path: Path) -> None:
    """No schema is known, so only references are checked; the domain has to be imported."""
    text = LEAKY.replace("y = Max(x, s)", "y = com.acme.Fancy <axis = 1> (x, s)")
    text = changed(text, '["" : 17], doc_string', '["" : 17, "com.acme" : 1], doc_string')
    (rule,) = load(tmp_path, text)
    assert (rule.pattern.nodes[-1].domain, rule.pattern.nodes[-1].op_type) == ("com.acme", "Fancy")


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    """Lines stay the lines of the file."""
    file = tmp_path / "rule.onnxtxt"
    file.write_bytes(b"\xef\xbb\xbf" + LEAKY.replace("\n", "\r\n").encode())
    (rule,) = load_rules(file)
    assert [n.line for n in rule.pattern.nodes] == [12, 13, 14]


NOISE = st.lists(st.sampled_from(["\n", "# } a { comment\n", '# "\n', "  \n", "\t# <[(\n"]), max_size=3).map(
    "".join
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_lines_are_those_of_the_file(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever comments and empty lines stand between, before and after: every node knows its line."""
    for text in (LEAKY, CONV):
        rows = re.split(r"(?<=\n)(?!is #)", text)  # not inside the string that goes over two lines
        noisy = "".join(data.draw(NOISE) + row for row in rows)
        (plain,), (rule,) = load(tmp_path, text), load(tmp_path, noisy)
        lines, noisy_lines = text.split("\n"), noisy.split("\n")
        for before, after in zip(_nodes(plain), _nodes(rule), strict=True):
            assert noisy_lines[after - 1] == lines[before - 1]


def _nodes(rule: RewriteRule) -> list[int]:
    bodies = [rule.pattern, rule.rewrite, *([rule.where] if rule.where else [])]
    return [line for body in bodies for line in (body.line, *(node.line for node in body.nodes))]


@pytest.mark.parametrize("file", sorted(builtin_folder().glob("*.onnxtxt")), ids=lambda file: file.stem)
def test_every_built_in_node_stands_on_its_line(file: Path) -> None:
    """The line that a node names holds the node's first output and its operator."""
    lines = file.read_text().split("\n")
    for rule in load_rules(file):
        for body in (rule.pattern, rule.rewrite, *([rule.where] if rule.where else [])):
            assert lines[body.line - 1].startswith(rule.name)
            for node in body.nodes:
                assert re.search(rf"\b{node.outputs[0]}\b.*=.*\b{node.op_type}\b", lines[node.line - 1])


def test_header_is_shown_as_it_has_to_be() -> None:
    """The header that error messages show is the one that the tests' texts start with."""
    assert SHOWN + "\n" == HEADER
