"""The bench: sound rules pass, and every way to get one wrong is refused."""

# ruff: noqa: E501  (a table reads by rows)

from __future__ import annotations

from pathlib import Path

import pytest

from fuser.errors import PatternError
from fuser.language import load_rules
from fuser.language.bench import Proof, prove
from tests.language.texts import CONV, FOLD, HEADER, LARGEST, LEAKY, SPLIT, changed, load

WHERE = '<domain: "where", overload: "max", opset_import: ["" : 17]>\n'
WITHOUT_WHERE = LEAKY[: LEAKY.index(WHERE)]


def proof_of(folder: Path, text: str) -> Proof:
    """Prove the one rule of a text."""
    (proof,) = prove(load(folder, text))
    return proof


@pytest.fixture(scope="module")
def proofs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Proof]:
    """The proof of every text of the tables below, from one start of onnxruntime; draws are each rule's own."""
    changes = [changed(*case[:3]) for case in (*MUTANTS, *OUTCOMES)]
    texts = [*(text for text, _ in SOUND), *changes, *(_conditional(*case[:2]) for case in CONDITIONS)]
    folder = tmp_path_factory.mktemp("rules")
    rules = [rule for text in texts for rule in load(folder, text)]
    return dict(zip(texts, prove(rules), strict=True))


def _conditional(signature: str, body: str) -> str:
    return f"{WITHOUT_WHERE}{WHERE}Leaky {signature} {{ {body} }}\n"


SOUND = [(LEAKY, True), (CONV, False), (FOLD, False), (SPLIT, False), (LARGEST, False)]


@pytest.mark.parametrize(("text", "outside"), SOUND, ids=["leaky", "conv", "fold", "split", "largest"])
def test_a_sound_rule_passes(proofs: dict[str, Proof], text: str, outside: bool) -> None:
    """With room to the tolerance, and with draws on the far side of `where` if there is one."""
    proof = proofs[text]
    assert (proof.verdict, proof.reason, proof.outside > 0) == ("passed", "", outside)
    assert proof.draws >= 10
    assert proof.difference < 2e-6
    assert proof.passed


MUTANTS = [
    (LEAKY, "y = LeakyRelu <alpha: float = @alpha> (x)", "a = Constant <value_float: float = @alpha> () y = PRelu(a, x)"),
    (LEAKY, "y = Max(x, s)", "y = Min(x, s)"),
    (LEAKY, "y = LeakyRelu <", "y = Elu <"),
    (LEAKY, "y = LeakyRelu <alpha: float = @alpha> (x)",
     "f = Constant <value_float = 1.01> () a = Constant <value_float: float = @alpha> () b = Mul(a, f) y = PRelu(x, b)"),
    (LEAKY, "y = LeakyRelu <alpha: float = @alpha> (x)", "a = Constant <value_float = 0.1> () b = Constant <value_float: float = @alpha> () c = CastLike(a, b) y = PRelu(x, c)"),
    (LEAKY, LEAKY[LEAKY.index(WHERE) :], ""),
    (LEAKY, "LessOrEqual(limit, one)", "GreaterOrEqual(limit, one)"),
    (LEAKY, "<value_float = 1.0>", "<value_float = 2.0>"),
    (CONV, "Y = LeakyRelu", "Y = ThresholdedRelu"),
    (FOLD, "ve = Add(var, e)", "ve = Sub(var, e)"),
    (FOLD, "ve = Add(var, e)\n  d = Sqrt(ve)", "z = Mul(e, var)\n  ez = Sub(z, z)\n  ve = Add(var, ez)\n  d = Sqrt(ve)"),
    (FOLD, "c0 = Sub(c, mean)", "c0 = Add(c, mean)"),
    (FOLD, "c2 = Add(c1, bias)", "c2 = Sub(c1, bias)"),
    (FOLD, "c2 = Add(c1, bias)", "c3 = Add(c1, bias)\n  c2 = Add(c3, mean)"),
    (FOLD, "k = Div(scale, d)", "k = Mul(scale, d)"),
    (FOLD, "y = Gemm(a, w1, c2)", "y = Gemm <alpha = 1.01> (a, w1, c2)"),
    (SPLIT, "a = Abs(x)\n  low, high", "a = Abs(x)\n  high, low"),
    (LARGEST, "ReduceMax <axes = [1]>", "ReduceMax <axes = [0]>"),
    (LARGEST, "ReduceMax <axes = [1]>", "ReduceMax <axes = [1], keepdims = 0>"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "old", "new"), MUTANTS)
def test_a_rule_edited_wrongly_does_not_pass(proofs: dict[str, Proof], text: str, old: str, new: str) -> None:
    """Another operator, a slope off by 1 %, a literal for an attribute, a lost epsilon, another axis, swapped outputs."""
    proof = proofs[changed(text, old, new)]
    assert not proof.passed
    assert proof.reason


# A rule whose `where` has more to say: text of its signature and body, and what the bench finds.
CONDITIONS = [
    ("<alpha> () => (ok)", "a = Constant <value_float: float = @alpha> () one = Constant <value_float = 1.0> () ok = LessOrEqual(a, one)", "passed", ""),
    ("<alpha> () => (ok, also)",
     "a = Constant <value_float: float = @alpha> () one = Constant <value_float = 1.0> () ok = LessOrEqual(a, one) big = Constant <value_float = -0.05> () also = GreaterOrEqual(a, big)",
     "failed", "condition also is needless: pattern and rewrite agree in all 2 draws that it keeps out; remove it"),
    ("<alpha> () => (ok, also)",
     "a = Constant <value_float: float = @alpha> () one = Constant <value_float = 1.0> () ok = LessOrEqual(a, one) big = Constant <value_float = 99.0> () also = LessOrEqual(a, big)",
     "failed", "condition also holds in every draw, so nothing shows that it is needed; let main call pattern and rewrite where it fails, or remove it"),
    ("<alpha> (x) => (ok, rank_2)",
     "a = Constant <value_float: float = @alpha> () one = Constant <value_float = 1.0> () ok = LessOrEqual(a, one) d = Shape(x) r = Size(d) two = Constant <value_int = 2> () rank_2 = Equal(r, two)",
     "passed", ""),
    ("<alpha> () => (ok)", "a = Constant <value_float: float = @alpha> () z = Constant <value_float = -9.0> () ok = Less(a, z)",
     "inconclusive", "`where` allows no draw; let main call the rule with attributes and inputs that it allows"),
    ("<alpha> (x) => (ok)", "a = Constant <value_float: float = @alpha> () ok = LessOrEqual(a, x)",
     "inconclusive", "condition ok is bool["),
    ("<alpha> () => (ok)", "a = Constant <value_float: float = @alpha> () ok = Ceil(a)",
     "inconclusive", "condition ok is float32[]; reduce it to one boolean, for normal inputs, alpha = 0.1 (called on line 4)"),
    ("<alpha> (x) => (ok)", "a = Constant <value_float: float = @alpha> () ok = LessOrEqual(a, d) d = Shape(x)".replace("ok = LessOrEqual(a, d) d = Shape(x)", "d = Shape(x) ok = LessOrEqual(a, d)"),
     "inconclusive", "`where` can't run: "),
]  # fmt: skip


@pytest.mark.parametrize(
    ("signature", "body", "verdict", "reason"), CONDITIONS, ids=[c[3][:40] or c[0] for c in CONDITIONS]
)
def test_conditions_have_to_be_needed(
    proofs: dict[str, Proof], signature: str, body: str, verdict: str, reason: str
) -> None:
    """Each condition keeps out, alone, a draw where values differ; only what looks at shapes alone is excused."""
    proof = proofs[_conditional(signature, body)]
    assert (proof.verdict, proof.reason[: len(reason)]) == (verdict, reason)
    assert bool(proof.reason) == (verdict != "passed")


OUTCOMES = [
    (LEAKY, "float[N, 4] x", "float[N, 0] x", "inconclusive", "the pattern gives no value, for normal inputs, alpha = 0.1 (called on line 4)"),
    (FOLD, "Abs(var0)", "Neg(var0)", "passed", ""),  # half of the draws has a NaN; the others count
    (FOLD, "var = Abs(var0)", "var1 = Abs(var0)\n  var2 = Neg(var1)\n  var = Log(var2)", "inconclusive", "the pattern gives values that are not finite"),
    (CONV, "x, float[4, 2, 3, 3]", "x, float[4, 3, 3, 3]", "inconclusive", "the pattern can't run: "),
    (SPLIT, "a = Abs(x)\n  low, high", "n = Neg(x)\n  c = Concat <axis = 0> (n, n, n)\n  a = Abs(c)\n  low, high", "failed", "output high differs (A is the pattern, B the rewrite): A gives float32["),
    (FOLD, "y = Gemm(a, w1, c2)", "y = Gemm(w1, a, c2)", "failed", "the rewrite can't run: "),
    (LEAKY, "y = Max(x, s)", "y = Min(x, s)", "failed", "output y differs (A is the pattern, B the rewrite): "),
]  # fmt: skip


@pytest.mark.parametrize("case", OUTCOMES, ids=[c[4][:50] or c[2] for c in OUTCOMES])
def test_the_reason_says_what_happened(
    proofs: dict[str, Proof], case: tuple[str, str, str, str, str]
) -> None:
    """Nothing compared is no proof, whatever the cause; a rewrite that can't run where the pattern can is wrong."""
    text, old, new, verdict, reason = case
    proof = proofs[changed(text, old, new)]
    assert (proof.verdict, proof.reason[: len(reason)]) == (verdict, reason)


def test_every_call_of_main_counts(tmp_path: Path) -> None:
    """A rewrite that is right for the attributes of the first pair only is found by the second."""
    wrong = changed(CONV, "group: int = @group, negative", "group = 2, negative")
    wrong = wrong.replace("<alpha, group, ", "<alpha, _group, ").replace(
        "group = 2, pads = [", "_group = 2, pads = ["
    )
    wrong = changed(
        wrong, "group: int = @group, pads: ints = @pads,\n", "group: int = @_group, pads: ints = @pads,\n"
    )
    assert proof_of(tmp_path, wrong).passed
    call = "<alpha = 0.2, _group = 1, pads = [1, 1, 1, 1], strides = [2, 1]> (x, w1, b)"
    second = (
        f"  w1 = Concat <axis = 1> (w, w)\n  found1 = pattern.Conv {call}\n  put1 = rewrite.Conv {call}\n}}\n"
    )
    second = changed(wrong, "}\n", second)
    second = changed(second, "=> (", "=> (float[2, 4, J, K] found1, float[2, 4, J, K] put1, ")
    proof = proof_of(tmp_path, second)
    assert (proof.verdict, proof.reason[:23]) == ("failed", "the rewrite can't run: ")
    assert "called on line 8" in proof.reason


@pytest.mark.parametrize("called", [False, True], ids=["not called by main", "called by main"])
def test_main_may_leave_where_to_the_bench(tmp_path: Path, called: bool) -> None:
    """It follows from the call of the pattern; then the header needs no domain `where` either."""
    text = changed(LEAKY, '"where": 1, ', "")
    if called:
        text = changed(LEAKY, "  put =", "  allowed = where.Leaky:max <alpha = 0.1> ()\n  put =")
        text = changed(text, "(float[N, 4] found,", "(bool allowed, float[N, 4] found,")
    (proof,) = prove(load(tmp_path, text))
    assert (proof.verdict, proof.outside > 0) == ("passed", True)


def test_the_same_seed_gives_the_same_proof(tmp_path: Path) -> None:
    """Draws depend on the seed and on the rule, not on what else is proved."""
    rules = load(tmp_path, FOLD) + load(tmp_path, SPLIT, "other.onnxtxt")
    assert prove(rules, seed=3) == prove(rules[:1], seed=3) + prove(rules[1:], seed=3)
    assert prove(rules[:1], seed=3) != prove(rules[:1], seed=4)


def test_an_input_without_a_shape_is_refused(tmp_path: Path) -> None:
    """There is nothing to draw."""
    rules = load(tmp_path, changed(LEAKY, "main (float[N, 4] x)", "main (float[] x)"))
    with pytest.raises(
        PatternError, match=r"rule.onnxtxt:\d+: input x of main needs an element type and a shape"
    ):
        prove(rules)


def test_definitions_and_helpers_of_main_may_come_from_another_file(tmp_path: Path) -> None:
    """A rule calls an operator that a second file defines."""
    start, end = CONV.index('<domain: "fuser"'), CONV.index('<domain: "pattern"')
    (tmp_path / "definitions.onnxtxt").write_text(f"{HEADER}main () => () {{ }}\n{CONV[start:end]}")
    (tmp_path / "rule.onnxtxt").write_text(CONV[:start] + CONV[end:])
    (proof,) = prove(load_rules(tmp_path))
    assert proof.passed
