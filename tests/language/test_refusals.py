"""What the loader refuses: each mistake with the line it stands on and the fix."""

# ruff: noqa: E501  (a table reads by rows)

from __future__ import annotations

from pathlib import Path

import onnx.parser
import pytest

from fuser.errors import ConfigError, PatternError
from fuser.language import load_rules
from tests.language.texts import CONV, HEADER, LEAKY, SPLIT, changed, load

REWRITE = "Leaky <alpha> (x) => (y) { y"
PATTERN = "Leaky <alpha> (x) => (y)\n"
WHERE = "Leaky <alpha> () => (slope_at_most_1)"

# text, what is replaced, by what, a piece of the line that is named, the sentence
MISTAKES = [
    # what onnx.parser lets pass
    (LEAKY, "= @alpha> (x)", "= @alpah> (x)", "@alpah", "@alpah is no attribute of rewrite.Leaky:max; did you mean @alpha?"),
    (LEAKY, REWRITE, "Leaky <alpha: float> (x) => (y) { y", "alpha: float>",
     "attribute alpha of rewrite.Leaky:max has a type or a default; write just <alpha>: "
     "defaults belong to the schema of the operator that takes the attribute"),
    (LEAKY, PATTERN, "Leaky <alpha: float = 0.01> (x) => (y)\n", "0.01", "write just <alpha>: defaults belong to the schema"),
    (LEAKY, WHERE, "Leaky <alpha: float = 1.0> () => (slope_at_most_1)", "<alpha: float = 1.0> ()", "write just <alpha>"),
    (LEAKY, PATTERN, 'Leaky <alpha: float = "abc"> (x) => (y)\n', "abc", "write just <alpha>: defaults belong to the schema"),
    (CONV, "TestLeaky <negative_slope> (X)", "TestLeaky <negative_slope: float = 0.01> (X)", "0.01", "write just <negative_slope>"),
    (CONV, "pads: ints = @pads, strides", "pads: ints = [@pads, 1], strides", "[@pads",
     "a list can't hold a reference: @pads would be dropped; make the whole list the attribute, as in `pads: ints = @pads`"),
    (CONV, "pads: ints = @pads, strides", "pads = [@pads, 1], strides", "[@pads", "a list can't hold a reference"),
    (CONV, "pads: ints = @pads, strides", "pads = [1, 2.0], strides", "[1, 2.0]",
     "column 51: Mismatch between expected type INT and specified value's typeFLOAT, in `conv = Conv <group"),
    (LEAKY, "value_float = 1.0", "value_float = 1.0, value_float = 2.0", "2.0", "attribute value_float is given twice; remove one"),
    (LEAKY, "  y = Max(x, s)\n", "", PATTERN, "output y of pattern.Leaky:max is never computed; known here: a, s, x"),
    (LEAKY, "(slope_at_most_1)", "(slope_at_most_one)", "(slope_at_most_one)",
     "output slope_at_most_one of where.Leaky:max is never computed; did you mean slope_at_most_1?"),
    (LEAKY, "one = Constant <value_float = 1.0> ()", "one = Constant <value_float = 1.0> ()\0", "one =",
     "holds a NUL byte, which ends the text for the parser; remove it"),
    # what contributes to nothing
    (LEAKY, "  y = Max(x, s)", "  t = Neg(s)\n  y = Max(x, s)", "Neg",
     "this Neg contributes to no output of pattern.Leaky:max; remove it, or use t"),
    (LEAKY, "{ y = Leaky", "{ t = Neg(x) y = Leaky", "Neg", "this Neg contributes to no output of rewrite.Leaky:max"),
    (LEAKY, "  one =", "  t = Neg(limit)\n  one =", "Neg", "this Neg contributes to no output of where.Leaky:max"),
    (LEAKY, "found = ", "t = Neg(x)\n  found = ", "Neg", "this Neg contributes to no output of main"),
    (LEAKY, "<alpha> (x) => (y)", "<alpha> (x, w) => (y)", "(x, w)", "input w of pattern.Leaky:max is never used; use it or remove it"),
    (LEAKY, "<alpha> (x) => (y)", "<alpha, beta> (x) => (y)", "beta", "attribute beta of pattern.Leaky:max is never used; use it or remove it"),
    (LEAKY, "<alpha: float = @alpha> (x)", "(x)", REWRITE,
     "attribute alpha of rewrite.Leaky:max is never used; use it, or call it _alpha in pattern and rewrite"),
    (LEAKY, "(float[N, 4] x)", "(float[N, 4] x, float w)", "float w", "input w of main is never used"),
    (SPLIT, "a = Abs(x)\n  low, high = Split", "a = Abs(x)\n  low, high, t = Split", "high, t =", 'nothing reads t; leave it out, or write "" in its place'),
    # names
    (LEAKY, "s = Mul(a, x)", "s = Mul(aa, x)", "Mul(aa", "aa is no value of pattern.Leaky:max; did you mean a?"),
    (LEAKY, "s = Mul(a, x)", "s = Mul(y, x)", "Mul(y", "y is used before line 14 computes it; move that node up"),
    (LEAKY, "s = Mul(a, x)", "x = Mul(a, x)", "x = Mul", "x has a value already; give this output another name"),
    (LEAKY, "[scaled]", "[slope]", "Mul(a", "label [slope] stands on line 12 already; choose another"),
    (LEAKY, "(x) => (y)", "(x, x) => (y)", "(x, x)", "pattern.Leaky:max has two inputs called x; rename one"),
    (LEAKY, "<alpha> (x)", "<alpha, alpha> (x)", "alpha, alpha", "pattern.Leaky:max has two attributes called alpha; rename one"),
    (LEAKY, "=> (y)", "=> (y, y)", "(y, y)", "pattern.Leaky:max has two outputs called y; rename one"),
    (LEAKY, REWRITE, "Leaky <alpha> (x) => () { y", "=> () {", "rewrite.Leaky:max has no output, so it does nothing; name what it computes"),
    (LEAKY, "=> (y)", "=> (x)", "=> (x)\n", "output x is an input; compute it, as in `x_out = Identity(x)`"),
    (LEAKY, REWRITE, "Leaky <alpha> (float[N] x) => (y) { y", "float[N] x) => (y) {", "x of rewrite.Leaky:max has a type"),
    (LEAKY, PATTERN, "Leaky <alpha> (float[N] x) => (y)\n", "float[N] x) => (y)\n", "x of pattern.Leaky:max has a shape, which is not matched; write `float[] x`"),
    # schemas
    (LEAKY, "y = Max(x, s)", "y = Maks(x, s)", "Maks", "ONNX has no operator Maks at opset 17; did you mean Max?"),
    (LEAKY, "y = Max(x, s)", "y = Max:fast(x, s)", "Max:fast", "ONNX has no operator Max:fast at opset 17; did you mean Max?"),
    (LEAKY, "y = Max(x, s)", "y = (x, s)", "y = (x", "ONNX has no operator (no name) at opset 17"),
    (LEAKY, "y = Max(x, s)", "y = Gelu(x)", "Gelu", "ONNX has no operator Gelu at opset 17; did you mean"),
    (LEAKY, "y = Max(x, s)", "y = Upsample(x, s)", "Upsample", "ONNX has no operator Upsample at opset 17; did you mean"),
    (LEAKY, "y = Max(x, s)", "y = acme.Max(x, s)", "acme",
     'pattern.Leaky:max does not import the domain of Max; add "acme" : 1 to the opset_import of its header'),
    (LEAKY, "y = Max(x, s)", "y = pattern.Leaky:max <alpha: float = @alpha> (x)", "y = pattern", "only `main` calls pattern.Leaky; write the nodes out here"),
    (LEAKY, "LeakyRelu <alpha: float", "LeakyRelu <alhpa: float", "alhpa", "LeakyRelu has no attribute alhpa; did you mean alpha?"),
    (LEAKY, "s = Mul(a, x)", "s = Mul <axis = 1> (a, x)", "axis", "Mul has no attribute axis; there is none here"),
    (LEAKY, "LeakyRelu <alpha: float = @alpha>", "LeakyRelu <alpha = @alpha>", "alpha = @alpha",
     "the reference must say the type of alpha, as in `alpha: float = @alpha`"),
    (LEAKY, "LeakyRelu <alpha: float = @alpha>", "LeakyRelu <alpha: int = @alpha>", "alpha: int", "attribute alpha is float, not int; write `alpha: float = @alpha`"),
    (LEAKY, "value_float = 1.0", "value_float = 1", "value_float = 1>", "attribute value_float is float, not int; write 1.0"),
    (LEAKY, "value_float = 1.0", 'value_float = "1"', '"1"', "attribute value_float is float, not string; write a value of type float"),
    (LEAKY, "value_float = 1.0", "value_float = g (q) => (r) { r = Neg(q) }", "r = Neg", "attribute value_float is a subgraph, which rules can't hold; write the nodes out"),
    (CONV, "strides: ints = @strides> (x, w, b)\n  y", "strides: int = @strides> (x, w, b)\n  y", "strides: int =", "attribute strides is ints, not int; write `strides: ints = @strides`"),
    (LEAKY, "Mul(a, x)", "Mul(a, x, x)", "Mul(", "Mul takes at most 2 inputs, not 3; remove some"),
    (LEAKY, "s = Mul(a, x)", "s = Mul(x)", "Mul(", "Mul takes at least 2 inputs, not 1; add some"),
    (LEAKY, "s = Mul(a, x)", 's = Mul(a, "")', "Mul(", "input 2 of Mul is not optional; name a value"),
    (LEAKY, "s = Mul(a, x)", "s, t = Mul(a, x)", "Mul(", "Mul has at most 1 output, not 2; remove some"),
    (LEAKY, "s = Mul(a, x)", "s = Concat(a, x)", "Concat", "Concat needs attribute axis; give it a value"),
    (LEAKY, "LeakyRelu <alpha: float = @alpha> (x)", "Elu <alpha: float = @alpha> (x) z = Relu(y)", "z = Relu", "this Relu contributes to no output"),
    (CONV, "y = fuser.TestConv", "y = fuser.TestConvv", "TestConvv", "no function fuser.TestConvv is defined; did you mean TestConv?"),
    (CONV, "negative_slope: float = @alpha", "slope: float = @alpha", "slope: float = @alpha", "TestConv has no attribute slope; did you mean negative_slope?"),
    (CONV, "negative_slope: float = @alpha", "negative_slope: int = @alpha", "slope: int = @alpha", "attribute negative_slope is float, not int"),
    (CONV, "Y = fuser.TestLeaky <negative_slope: float = @negative_slope> (conv)", "Y = fuser.TestConv <negative_slope: float = @negative_slope> (conv)", "TestConv <group", "fuser.TestConv calls itself; a definition is made of other operators"),
    (CONV, "alpha: float = @alpha> (c)", "alpha: float = @alpha, axis: int = @group> (c)", "axis", "LeakyRelu has no attribute axis"),
    (LEAKY, "(x) => (y) { y = LeakyRelu <alpha: float = @alpha> (x)", "(x) => (y) { e = Constant <value_int: int = @alpha> () f = CastLike(e, x) y = Mul(f, x)", "value_int",
     "@alpha is int here and float on line 12; make it two attributes"),
    # pattern, rewrite and where
    (LEAKY, '"rewrite", overload: "max"', '"rewrite", overload: "maks"', PATTERN, "pattern.Leaky:max has no rewrite.Leaky:max in its file; did you mean rewrite.Leaky:maks?"),
    (LEAKY, '"pattern", overload: "max"', '"pattern", overload: "maks"', PATTERN, "pattern.Leaky:maks has no rewrite.Leaky:maks in its file; did you mean rewrite.Leaky:max?"),
    (LEAKY, '"where", overload: "max"', '"where", overload: "maks"', WHERE, "where.Leaky:maks has no pattern.Leaky:maks in its file; did you mean pattern.Leaky:max?"),
    (LEAKY, '"where", overload', '"wehre", overload', WHERE, 'Leaky is in domain "wehre", which rule files do not have; did you mean where?'),
    (LEAKY, '"where", overload: "max"', '"rewrite", overload: "max"', WHERE, "rewrite.Leaky:max stands on line 17 already; give one another overload"),
    (LEAKY, REWRITE, "Leaky <alpha> (z) => (y) { y", "(z)", "rewrite.Leaky:max has inputs (z) and pattern.Leaky:max on line 10 has (x); give both the same names in the same order"),
    (SPLIT, "Halves <axis> (x) => (low, high)\n{\n  a", "Halves <axis> (x) => (high, low)\n{\n  a", "(high, low)", "rewrite.Halves has outputs (high, low) and pattern.Halves on line 8 has (low, high)"),
    (CONV, "Conv <alpha, group, pads, strides> (x, w, b) => (y)\n{\n  y", "Conv <group, alpha, pads, strides> (x, w, b) => (y)\n{\n  y", "<group, alpha", "rewrite.Conv has attributes (group, alpha, pads, strides) and"),
    (LEAKY, WHERE, "Leaky <alpha> (w) => (slope_at_most_1)", "(w)", "w of where.Leaky:max is none of the inputs of its pattern; known here: x"),
    (LEAKY, WHERE, "Leaky <alhpa> () => (slope_at_most_1)", "alhpa", "alhpa of where.Leaky:max is none of the attributes of its pattern; did you mean alpha?"),
    (LEAKY, 'overload: "max", opset_import: ["" : 17]>\nLeaky <alpha> ()', 'overload: "max", opset_import: ["" : 18]>\nLeaky <alpha> ()', WHERE,
     'where.Leaky:max imports opset 18, but its file 17; a file has one opset, so write opset_import: ["" : 17]'),
    (LEAKY, 'opset_import: ["" : 17]>\nLeaky <alpha> ()', 'opset_import: ["fuser" : 1]>\nLeaky <alpha> ()', WHERE, "imports opset none, but its file 17"),
    # what can't be matched
    (LEAKY, "Constant <value_float: float = @alpha> ()   #", "Constant <value = float[2] {1.0, 2.0}> ()   #", "float[2]",
     "a Constant of a pattern matches one value, given by value_float or value_int, not by value; make the constant an input"),
    (SPLIT, "high = Abs(h)", "high = Constant <value_float = 1.0> ()", "high = Const", "output high is a Constant, which any constant would match; use high"),
    # main
    (LEAKY, "  put = rewrite.Leaky:max <alpha: float = 0.1> (x)\n", "  put = Neg(x)\n", "found = pattern",
     "main calls pattern.Leaky:max once and rewrite.Leaky:max never; call both side by side on the same inputs and attributes"),
    (LEAKY, "pattern.Leaky:max <alpha: float = 0.1> (x)\n  put = rewrite.Leaky:max <alpha: float = 0.1> (x)\n", "Neg(x)\n  put = Abs(x)\n", "main (",
     "main calls pattern.Leaky:max never and rewrite.Leaky:max never"),
    (LEAKY, "pattern.Leaky:max", "pattern.Leaky:maks", "Leaky:maks", "no function pattern.Leaky:maks is defined; did you mean Leaky:max?"),
    (LEAKY, "rewrite.Leaky:max <alpha: float = 0.1>", "rewrite.Leaky:max <alpha: float = 0.2>", "0.2",
     "attribute alpha is 0.20000000298023224 for the rewrite and 0.10000000149011612 for its pattern on line 4; give both the same"),
    (LEAKY, "put = rewrite.Leaky:max <alpha: float = 0.1> (x)", "z = Neg(x)\n  put = rewrite.Leaky:max <alpha: float = 0.1> (z)", "put = rewrite",
     "the rewrite gets (z) and its pattern on line 4 gets (x); give both the same inputs"),
    (LEAKY, "pattern.Leaky:max <alpha: float = 0.1> (x)", "pattern.Leaky:max (x)", "found =", "Leaky needs attribute alpha; give it a value"),
    (LEAKY, "pattern.Leaky:max <alpha: float = 0.1> (x)", "pattern.Leaky:max <alpha = 1> (x)", "found =", "attribute alpha is float, not int; write 1.0"),
    (LEAKY, "float[N, 4] found, ", "float[N, 4] found, bool w, ", "main (", "output w of main is never computed"),
    (LEAKY.replace("float[N, 4] found, ", "float[N, 4] found, bool w, "), "  put =", "  w = where.Leaky:max <alpha = 0.3> ()\n  put =", "w = where",
     "no call of pattern.Leaky:max has these inputs and attributes; give where those of the pattern"),
    (LEAKY, "<ir_version: 10", "<ir_version: 8", "<ir_version", "the header needs an ir_version of 10 or more and an opset; write <ir_version: 10"),
    (LEAKY, HEADER, "", "main (", "the header needs an ir_version of 10 or more and an opset"),
    (LEAKY, '"rewrite": 1, ', "", "put = ", 'main does not import the domain of Leaky; add "rewrite" : 1 to the opset_import of its header'),
    # what onnx.parser refuses itself
    (LEAKY, "Mul(a, x)", "Mul(a x)", "Mul(a x)", "column 22: Expected character ) not found, in `[scaled] s = Mul(a x)`; correct the text before this column"),
    (LEAKY, "slope_at_most_1 = LessOrEqual(limit, one)\n}\n", "slope_at_most_1 = LessOrEqual(limit, one)\n}\nthe end", "the end", "Expected character ( not found, in `the end`"),
    (LEAKY, HEADER, '<domain: "pattern", overload: "max", opset_import: ["" : 17]>\n', "<domain", "column 30: Unhandled keyword, in `<domain"),
    (LEAKY, "value_float = 1.0", "value_float = 1e999", "1e999", "1e999 is no number that a float or an int64 can hold; write another"),
    (LEAKY, "value_float = 1.0", "value_float = 1.0e", "1.0e", "1.0e is no number"),
    (LEAKY, "value_float = 1.0", "value_int = 99999999999999999999", "999", "99999999999999999999 is no number"),
    (LEAKY, "value_float = 1.0", "value_float: flaot = 1.0", "flaot", "Unexpected attribute type, in `one = Constant <value_float: flaot = 1.0> ()`; an attribute is written `alpha: float"),
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=[m[4][:60] for m in MISTAKES])
def test_a_mistake_is_refused_with_its_line(tmp_path: Path, mistake: tuple[str, str, str, str, str]) -> None:
    """The line is that of the mistake, the sentence says what and how to fix it."""
    text, old, new, place, sentence = mistake
    mistaken = changed(text, old, new)
    with pytest.raises(PatternError) as refused:
        load(tmp_path, mistaken)
    line = mistaken.count("\n", 0, mistaken.index(place)) + 1
    assert sentence in refused.value.text
    assert (refused.value.line, refused.value.file) == (line, str(tmp_path / "rule.onnxtxt"))
    assert str(refused.value).startswith(f"{tmp_path / 'rule.onnxtxt'}:{line}: ")


def test_pieces_that_share_no_value_are_refused(tmp_path: Path) -> None:
    """A pattern is one connected graph."""
    text = SPLIT.replace("axis = 1> (x)", "axis = 1> (x, x)").replace(
        "Halves <axis> (x)", "Halves <axis> (x, z)"
    )
    text = changed(changed(text, "l, h =", 'l, "" ='), "high = Abs(h)", "high = Abs(z)")
    with pytest.raises(
        PatternError, match="falls into 2 pieces that share no value; make each a rule of its own"
    ):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("content", "line", "sentence"),
    [
        (b"", 1, "is empty; a rule file holds <ir_version: 10"),
        (b"# nothing\n\n# here\n", 1, "is empty"),
        (b"# first\n# caf\xe9\n", 2, "is not UTF-8 text; save the file as UTF-8"),
        (f"{HEADER}main () => () {{ }}".encode(), 2, "there is no function after main; add a pattern and its rewrite"),
    ],
)  # fmt: skip
def test_content_that_holds_no_rules_is_refused(
    tmp_path: Path, content: bytes, line: int, sentence: str
) -> None:
    """Empty files, files of comments alone, and bytes that are no text."""
    file = tmp_path / "rule.onnxtxt"
    file.write_bytes(content)
    with pytest.raises(PatternError) as refused:
        load_rules(file)
    assert refused.value.line == line
    assert sentence in refused.value.text


def test_paths_without_rules_are_refused(tmp_path: Path) -> None:
    """A folder without rule files, and a path that does not exist."""
    (tmp_path / "README.md").write_text("no rule")
    with pytest.raises(
        ConfigError, match=r"no rule file \(\*.onnxtxt\) in .*; put one there or name another folder"
    ):
        load_rules(tmp_path)
    with pytest.raises(ConfigError, match=r"no such file or folder: .*nowhere; name a rule file"):
        load_rules(tmp_path / "nowhere")


def test_a_file_that_can_not_be_read_is_refused(tmp_path: Path) -> None:
    """Here because it is a folder by the name of a rule file."""
    (tmp_path / "rule.onnxtxt").mkdir()
    with pytest.raises(
        PatternError, match=r"rule.onnxtxt:1: can't be read \(.+\); check the path and its permissions"
    ):
        load_rules(tmp_path)


def test_an_error_of_the_parser_without_a_place_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a later onnx says, the sentence is kept."""

    def parse_model(text: str) -> None:
        raise onnx.parser.ParseError(f"{len(text) > 0} and no place")

    monkeypatch.setattr(onnx.parser, "parse_model", parse_model)
    with pytest.raises(PatternError, match=r"rule.onnxtxt:1: onnx.parser refuses it: True and no place"):
        load(tmp_path, LEAKY)


def test_an_error_shows_the_path_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative stays relative."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "a.onnxtxt").write_text(changed(LEAKY, "Max(", "Maks("))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PatternError) as refused:
        load_rules(Path("rules"))
    assert str(refused.value).startswith("rules/a.onnxtxt:14: ")


def test_a_rule_id_stands_once(tmp_path: Path) -> None:
    """In two files too; the sentence leads to the first."""
    load(tmp_path, LEAKY, "a.onnxtxt")
    load(tmp_path, LEAKY, "b.onnxtxt")
    with pytest.raises(PatternError) as refused:
        load_rules(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path / 'b.onnxtxt'}:10: rule Leaky:max stands in {tmp_path / 'a.onnxtxt'}:10 already; "
        "choose another overload"
    )


def test_two_definitions_of_one_operator_are_refused(tmp_path: Path) -> None:
    """Equal ones may stand in two files, as copies; others not."""
    other = (
        CONV.replace("Conv <alpha", "Other <alpha")
        .replace("n.Conv <", "n.Other <")
        .replace("e.Conv <", "e.Other <")
    )
    load(tmp_path, CONV, "a.onnxtxt")
    load(tmp_path, other, "b.onnxtxt")
    assert [rule.id for rule in load_rules(tmp_path)] == ["Conv", "Other"]
    text = changed(
        other,
        "Y = LeakyRelu <alpha: float = @negative_slope> (X)",
        "Y = Elu <alpha: float = @negative_slope> (X)",
    )
    load_rules(tmp_path / "a.onnxtxt")
    (tmp_path / "b.onnxtxt").write_text(text)
    with pytest.raises(
        PatternError,
        match=r"b.onnxtxt:15: fuser.TestLeaky is defined in .*a.onnxtxt:15 already; rename or remove one",
    ):
        load_rules(tmp_path)
