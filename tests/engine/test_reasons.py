"""Every sentence that says why not: what is there, and what the pattern needs."""

from __future__ import annotations

from pathlib import Path

import pytest

import fuser
from fuser.engine.compiled import compile_rule
from fuser.engine.context import Context
from fuser.engine.match import match
from fuser.engine.mismatch import Mismatch
from fuser.language import load_rules
from fuser.storage import from_proto
from tests.engine.casefile import draw_weights, parse

X, Y = "float[2,3,6,6] x", "float[A,B,C,D] y"
W, BN = "float[4,3,3,3] w", "float[4] gamma, float[4] beta, float[4] mean, float[4] var"
CONV = "[conv] c = Conv (x, w) "
NORM = "[bn] n = BatchNormalization (c, gamma, beta, mean, var) "
ACT = "[act] y = LeakyRelu <alpha = 0.2> (n) "
SLOPE = "a = Constant <value_float = 0.2> () "


def reasons(
    nodes: str, *, more: str = "", weights: str = "", outputs: str = "", opset: int = 17
) -> list[str]:
    """What the report says of a model of these nodes, with the usual input and weights and ``more``."""
    declared = ", ".join(w for w in (W, BN, weights) if w)
    text = (
        f'<ir_version: 8, opset_import: ["" : {opset}]> g ({X}{more and ", " + more}) => ({Y}{outputs and ", " + outputs})'
        f"<{declared}> {{ {nodes} }}"
    )
    model = parse(text)
    draw_weights(model)
    return [str(d) for d in fuser.fuse(model, parity=False).report.declined]


END_TO_END = [
    (
        "training_mode",
        CONV + NORM.replace("(c", "<training_mode = 1> (c") + ACT,
        {},
        ["[bn] BatchNormalization 'bn': training_mode is 1, the pattern needs 0"],
    ),
    (
        "spatial",
        CONV + NORM.replace("(c", "<spatial = 0> (c") + ACT,
        {"opset": 7},
        ["[bn] BatchNormalization 'bn': spatial is 0, the pattern needs 1"],
    ),
    (
        "five outputs",
        CONV + NORM.replace("n =", "n, m1, v1, m2, v2 =") + ACT,
        {"opset": 9},
        ["[bn] BatchNormalization 'bn': has 5 outputs, which is training; the pattern needs 1"],
    ),
    (
        "an output in the middle",
        CONV + NORM + ACT,
        {"outputs": "float[A,B,C,D] c"},
        ["[conv] Conv 'conv': its output 'c' is an output of the graph; the pattern needs it inside"],
    ),
    (
        "another reader",
        CONV + NORM + ACT + "[other] z = Sigmoid (c)",
        {"outputs": "float[A,B,C,D] z"},
        [
            "[conv] Conv 'conv': its output 'c' is also read by Sigmoid 'other'; the pattern needs no other reader"
        ],
    ),
    (
        "a weight that is an input",
        CONV.replace("w)", "u)") + NORM + ACT,
        {"more": "float[4,3,3,3] u"},
        ["[conv] Conv 'conv': W 'u' is not constant: it is a graph input"],
    ),
    (
        "a weight that is computed",
        "[neg] v = Neg (u) " + CONV.replace("w)", "v)") + NORM + ACT,
        {"more": "float[4,3,3,3] u"},
        ["[conv] Conv 'conv': W 'v' is not constant: it is computed by Neg 'neg', and 'u' is a graph input"],
    ),
    (
        "a weight that begins far up with an initializer that callers may override",
        "[id] i = Identity (init_w) [neg] u = Neg (i) [turn] v = Transpose <perm = [0,1,3,2]> (u) "
        + CONV.replace("w)", "v)")
        + NORM
        + ACT,
        {"more": "float[4,3,3,3] init_w"},
        [
            "[conv] Conv 'conv': W 'v' is not constant: it is computed by Transpose 'turn', and 'init_w' is an initializer that "
            "is also a graph input, which a caller may override; --freeze-inputs would help"
        ],
    ),
    (
        "a bias that is an input",
        CONV.replace("w)", "w, b)") + NORM + ACT,
        {"more": "float[4] b"},
        ["[conv] Conv 'conv': B 'b' is not constant: it is a graph input"],
    ),
    (
        "an initializer that callers may override",
        CONV.replace("w)", "init_w)") + NORM + ACT,
        {"more": "float[4,3,3,3] init_w"},
        [
            "[conv] Conv 'conv': W 'init_w' is not constant: it is an initializer that is also a graph input, which a caller "
            "may override; --freeze-inputs would help"
        ],
    ),
    (
        "a constant along another axis",
        CONV + "[mul] n = Mul (c, k) " + ACT,
        {"weights": "float[4] k"},
        ["[affine] Mul 'mul': it does not hold that scale and shift run along the channel axis only"],
    ),
    (
        "a constant that widens",
        "[conv] c = Conv (x, w1) [mul] n = Mul (c, k) " + ACT,
        {"weights": "float[1,3,3,3] w1, float[1,4,1,1] k"},
        ["[affine] Mul 'mul': it does not hold that there are as many channels"],
    ),
    (
        "an infinite scale",
        CONV + NORM.replace("(c", "<epsilon = 0.0> (c").replace("var", "zero_var") + ACT,
        {"weights": "float[4] zero_var"},
        ["[bn] BatchNormalization 'bn': Affine s1 would not be finite in 4 of 4 values"],
    ),
    (
        "a threshold that is not zero",
        CONV
        + SLOPE
        + "h = Constant <value_float = 0.5> () [test] t = Greater (c, h) [scaled] s = Mul (c, a) y = Where (t, c, s)",
        {},
        [
            "[test] Greater 'test': the constant 'h' is 0.5, the pattern needs 0.0",
        ],
    ),
    (
        "branches exchanged",
        CONV
        + SLOPE
        + "z = Constant <value_float = 0.0> () [test] t = Greater (c, z) [scaled] s = Mul (c, a) "
        "[where] y = Where (t, s, c)",
        {},
        ["[where] Where 'where': reads 's' where the pattern needs 'c' again"],
    ),
]


@pytest.mark.parametrize(
    ("nodes", "options", "expected"), [e[1:] for e in END_TO_END], ids=[e[0] for e in END_TO_END]
)
def test_a_declined_site_says_why(nodes: str, options: dict[str, str], expected: list[str]) -> None:
    """The report's reason names the node, the fact, and what the pattern needs."""
    assert set(expected) <= set(reasons(nodes, **options))


# ---- the matcher alone, by rules of the test's own

RULE = """<ir_version: 10, opset_import: ["" : 17, "pattern" : 1, "rewrite" : 1]>
main (float[2,3] p) => (float[2,3] one, float[2,3] two)
{{
   one = pattern.Own{call} (p)
   two = rewrite.Own{call} (p)
}}
<domain: "pattern", opset_import: ["" : 17]>
Own {signature} ({types}x) => (y) {{ {pattern} }}
<domain: "rewrite", opset_import: ["" : 17]>
Own {signature} (x) => (y) {{ {rewrite} }}
"""
SAME = {"signature": "", "call": "", "types": "", "rewrite": "[abs] y = Abs(x)"}
ALPHA = {
    **SAME,
    "signature": "<alpha>",
    "call": " <alpha = 0.5>",
    "rewrite": "[leaky] y = LeakyRelu <alpha: float = @alpha> (x)",
}

MATCHER = [
    ("another operator", SAME, "[neg] n = Neg(x) [abs] y = Abs(n)", "e = Exp (p) [abs] y = Abs (e)", "[neg] Exp 'e': is Exp, the pattern needs Neg"),
    ("no producer", SAME, "[neg] n = Neg(x) [abs] y = Abs(n)", "[abs] y = Abs (p)", "[abs] Abs 'abs': reads 'p', which is no output of Neg here"),
    ("a literal", SAME, "[leaky] y = LeakyRelu <alpha = 0.5> (x)", "[l] y = LeakyRelu <alpha = 0.25> (p)", "[leaky] LeakyRelu 'l': alpha is 0.25, the pattern needs 0.5"),
    ("an unwritten default", SAME, "[soft] y = Softmax(x)", "[s] y = Softmax <axis = 0> (p)", "[soft] Softmax 's': axis is 0, the pattern needs -1"),
    ("one variable twice", ALPHA, "[one] n = LeakyRelu <alpha: float = @alpha> (x) [two] y = LeakyRelu <alpha: float = @alpha> (n)",
     "[l1] n = LeakyRelu <alpha = 0.5> (p) [l2] y = LeakyRelu <alpha = 0.25> (n)",
     "[one] LeakyRelu 'l1': alpha is 0.5 here and 0.25 elsewhere in the pattern"),
    ("one input twice", SAME, "[sub] y = Sub(x, x)", "[s] y = Sub (p, q)", "[sub] Sub 's': reads 'q' where the pattern needs 'p' again"),
    ("one node twice", SAME, "[e] e = Exp(x) [n] n = Neg(e) [s] y = Sub(n, e)", "e1 = Exp (p) e2 = Exp (p) n = Neg (e1) [s] y = Sub (n, e2)",
     "[s] Sub 's': reads 'e2' where the pattern needs 'e1' again"),
    ("two nodes that are one", SAME, "[e1] a = Exp(x) [e2] b = Exp(x) [s] y = Sub(a, b)", "e = Exp (p) [s] y = Sub (e, e)",
     "[e2] Exp 'e': already stands for another node of the pattern"),
    ("no constant", ALPHA, "[slope] a = Constant <value_float: float = @alpha> () [mul] y = Mul(a, x)", "[m] y = Mul (p, q)",
     "[mul] Mul 'm': 'p' is a graph input; the pattern needs a constant"),
    ("a constant of different values", ALPHA, "[slope] a = Constant <value_float: float = @alpha> () [mul] y = Mul(a, x)",
     "k = Constant <value_floats = [1.0, 2.0, 3.0]> () [m] y = Mul (k, p)",
     "[mul] Mul 'm': the constant 'k' of shape [3] holds different values, the pattern needs one"),
    ("a constant that may widen", ALPHA, "[slope] a = Constant <value_float: float = @alpha> () [mul] y = Mul(a, x)",
     "k = Constant <value: tensor = float[2,1,1] {2, 2}> () [m] y = Mul (k, p)",
     "[mul] Mul 'm': the constant 'k' of shape [2, 1, 1] may widen the result; the pattern needs one value"),
    ("a constant of another value", SAME, "[half] h = Constant <value_float = 0.5> () [mul] y = Mul(h, x)",
     "k = Constant <value_float = 2.0> () [m] y = Mul (k, p)", "[mul] Mul 'm': the constant 'k' is 2.0, the pattern needs 0.5"),
    ("an element type", {**SAME, "types": "double "}, "[abs] y = Abs(x)", "[a] y = Abs (p)",
     "[abs] Abs 'a': 'p' has element type 1, the pattern needs 11"),
    ("an input too many", SAME, "[low] l = Constant <value_float = 0.0> () [clip] y = Clip(x, l)",
     "l = Constant <value_float = 0.0> () h = Constant <value_float = 6.0> () [c] y = Clip (p, l, h)",
     "[clip] Clip 'c': has max 'h', the pattern has none"),
    ("another reader", SAME, "[neg] n = Neg(x) [abs] y = Abs(n)", "[n] n = Neg (p) [abs] y = Abs (n) [r] z = Exp (n)",
     "[neg] Neg 'n': its output 'n' is also read by Exp 'r'; the pattern needs no other reader"),
    ("an output", SAME, "[neg] n = Neg(x) [abs] y = Abs(n)", "[n] z = Neg (p) [abs] y = Abs (z)",
     "[neg] Neg 'n': its output 'z' is an output of the graph; the pattern needs it inside"),
    ("another output", SAME, "[drop] n = Dropout(x) [not] y = Abs(n)", "d, z = Dropout (p) c = Cast <to = 1> (z) [a] y = Abs (c)",
     "[drop] Cast 'c': is Cast, the pattern needs Dropout"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "pattern", "nodes", "expected"), [m[1:] for m in MATCHER], ids=[m[0] for m in MATCHER]
)
def test_a_mismatch_names_label_node_and_fact(
    tmp_path: Path, parts: dict[str, str], pattern: str, nodes: str, expected: str
) -> None:
    """The matcher's own sentence for one rule at one node."""
    (tmp_path / "own.onnxtxt").write_text(RULE.format(pattern=pattern, **parts))
    (rule,) = load_rules(tmp_path)
    outputs = "float[2,3] y" + (", float[A,B] z" if " z = " in f" {nodes}" or ", z =" in nodes else "")
    model = parse(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] p, float[2,3] q) => ({outputs}) {{ {nodes} }}'
    )
    graph = Context(from_proto(model)).main
    found = match(compile_rule(rule), graph.producer["y"], graph)
    assert isinstance(found, Mismatch)
    assert not found
    assert str(found) == expected


def test_the_same_rule_matches_what_it_says(tmp_path: Path) -> None:
    """So that the sentences above are about what the models lack."""
    for parts, pattern, nodes in (
        (SAME, "[neg] n = Neg(x) [abs] y = Abs(n)", "n = Neg (p) y = Abs (n)"),
        (ALPHA, "[slope] a = Constant <value_float: float = @alpha> () [mul] y = Mul(a, x)", "k = Constant <value_float = 2.0> () y = Mul (p, k)"),
        (SAME, "[soft] y = Softmax(x)", "y = Softmax <axis = -1> (p)"),
    ):  # fmt: skip
        (tmp_path / "own.onnxtxt").write_text(RULE.format(pattern=pattern, **parts))
        (rule,) = load_rules(tmp_path)
        model = parse(
            f'<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] p) => (float[2,3] y) {{ {nodes} }}'
        )
        graph = Context(from_proto(model)).main
        assert match(compile_rule(rule), graph.producer["y"], graph)
