"""The verdicts of CANN's real ONNX parser on small models, master's and 9.1's; the linter's are the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from onnx import ModelProto

from fuser.targets.atc import lint
from tests.targets.texts import ACT, ACT_OF_CONV, BN, CONV, STATISTICS, WEIGHT, block, text, with_domain

ACCEPT = ("", "")
FOLDED = f"{WEIGHT}, {STATISTICS}"
COM_X = '"ai.onnx" : 11, "com.x" : 1'
FUNCTION = '<domain: "com.x", opset_import: ["" : 11]> F (X) => (Y) { Y = LeakyRelu <alpha = 0.1> (X) }'
BODY = "b (int64 i, bool k, float[] s) => (bool k, float[] t) { t = LeakyRelu(s) }"
LOOP = f'[lp] y = Loop ("", "", c) <body = {BODY}>'


def explicit(model: ModelProto, custom: int | None = None) -> ModelProto:
    """Every node of domain ai.onnx, but one of com.x."""
    with_domain(model, "ai.onnx")
    if custom is not None:
        model.graph.node[custom].domain = "com.x"
    return model


def typed_weight(dtype: str) -> ModelProto:
    return text(CONV, ACT_OF_CONV, initializers=WEIGHT.replace("float", dtype))


# case → (model, (code, node) at master, (code, node) at 9.1); an empty code is a model that is accepted.
Verdict = tuple[str, str]
CASES: dict[str, tuple[Callable[[], ModelProto], Verdict, Verdict]] = {
    "plain at opset 11": (block, ACCEPT, ACCEPT),
    "opset 18": (lambda: block('"" : 18'), ACCEPT, ACCEPT),
    "opset 19": (lambda: block('"" : 19'), ("E13010", "conv"), ("E13010", "conv")),
    "two imports": (lambda: block('"" : 11, "com.x" : 1'), ACCEPT, ("E16005", "conv")),
    "two imports, explicit domains": (lambda: explicit(block(COM_X)), ACCEPT, ACCEPT),
    "import spelled ai.onnx": (lambda: block('"ai.onnx" : 11'), ACCEPT, ACCEPT),
    "unregistered operator": (
        lambda: text(CONV, BN, "[act] y = FusedAct <alpha = 0.1> (d)", initializers=FOLDED),
        ("E13010", "act"),
        ("E13010", "act"),
    ),
    "duplicate node name": (
        lambda: text(CONV, BN.replace("[bn]", "[conv]"), ACT, initializers=FOLDED),
        ("E13009", "conv"),
        ("E13009", "conv"),
    ),
    "IR 13": (lambda: block(ir=13), ACCEPT, ACCEPT),
    "local function": (
        lambda: explicit(
            text(CONV, BN, "[act] y = com.x.F (d)", imports=COM_X, initializers=FOLDED, functions=FUNCTION), 2
        ),
        ("E13010", "act"),
        ("E13010", "act"),
    ),
    "no names": (
        lambda: text(*(line.split("] ", 1)[1] for line in (CONV, BN, ACT)), initializers=FOLDED),
        ACCEPT,
        ACCEPT,
    ),
    "opset 7": (lambda: block('"" : 7'), ("E13010", "conv"), ("E13010", "conv")),
    "nodes ai.onnx, import empty": (lambda: explicit(block()), ACCEPT, ("E19999", "conv")),
    "only com.x imported": (
        lambda: with_domain(block('"com.x" : 1'), ""),
        ("E19999", "conv"),
        ("E13010", "conv"),
    ),
    "default domain imported twice": (lambda: block('"" : 11, "ai.onnx" : 11'), ACCEPT, ("E16005", "conv")),
    "initializer is also an input": (
        lambda: text(CONV, ACT_OF_CONV, inputs="float[1,1,8,8] x, float[1,1,3,3] w"),
        ACCEPT,
        ACCEPT,
    ),
    "trailing empty input": (
        lambda: text(CONV.replace("w)", 'w, "")'), ACT_OF_CONV),
        ("E19999", "conv"),
        ("E19999", "conv"),
    ),
    "dangling input": (
        lambda: text(CONV.replace("w)", "nowhere)"), ACT_OF_CONV),
        ("E19999", "conv"),
        ("E19999", "conv"),
    ),
    "node named like an input": (
        lambda: text(CONV.replace("[conv]", "[x]"), ACT_OF_CONV),
        ("E13009", "x"),
        ("E13009", "x"),
    ),
    "automatic name that is taken": (
        lambda: text(CONV.replace("[conv]", "[LeakyRelu_0]"), "t = LeakyRelu (c)", "y = LeakyRelu (t)"),
        ("E13009", "LeakyRelu_0"),
        ("E13009", "LeakyRelu_0"),
    ),
    "no input": (lambda: text("[a] y = LeakyRelu (w)", inputs=""), ("E16001", ""), ("E16001", "")),
    "double weight": (lambda: typed_weight("double"), ACCEPT, ACCEPT),
    "int64 weight": (lambda: typed_weight("int64"), ACCEPT, ACCEPT),
    "Constant with value_float": (
        lambda: text("[k] k = Constant <value_float = 1.0> ()", "[z] z = LeakyRelu (k)", CONV, ACT_OF_CONV),
        ACCEPT,
        ACCEPT,
    ),
    "Constant with value": (
        lambda: text(
            f"[k] w = Constant <value = {WEIGHT.replace(' w =', '')}> ()", CONV, ACT_OF_CONV, initializers=""
        ),
        ACCEPT,
        ACCEPT,
    ),
    "Loop": (lambda: text(CONV, LOOP), ("E13010", "lp"), ("E13010", "lp")),
    "value produced twice": (
        lambda: text(CONV, CONV.replace("[conv]", "[conv2]"), ACT_OF_CONV),
        ("E18888", "conv2"),
        ("E18888", "conv2"),
    ),
    "not in topological order": (lambda: text(ACT_OF_CONV, CONV), ACCEPT, ACCEPT),
    "symbolic sizes": (
        lambda: text(CONV, ACT_OF_CONV, inputs="float[N,1,H,W] x", outputs="float[N,1,h,w] y"),
        ACCEPT,
        ACCEPT,
    ),
    "plugin's operator, no plugin": (
        lambda: text("[f] y = ConvLeakyRelu <kernel_shape = [3,3]> (x, w)"),
        ("E13010", "f"),
        ("E13010", "f"),
    ),
    "plugin's operator in a domain": (
        lambda: explicit(text("[f] c = ConvLeakyRelu (x, w)", ACT_OF_CONV, imports=COM_X), 0),
        ("E13010", "f"),
        ("E13010", "f"),
    ),
    "output is an input": (
        lambda: text(CONV, ACT_OF_CONV, outputs="float[1,1,6,6] y, float[1,1,8,8] x"),
        ACCEPT,
        ACCEPT,
    ),
    "unused initializer": (
        lambda: text(CONV, ACT_OF_CONV, initializers=f"{WEIGHT}, float[2] unused = {{1, 2}}"),
        ACCEPT,
        ACCEPT,
    ),
}


@pytest.mark.parametrize("release", ["master", "9.1"])
@pytest.mark.parametrize("case", CASES)
def test_verdict_is_the_parsers(case: str, release: str) -> None:
    """Accepted and refused alike, with the parser's code and, where it names one, its node."""
    build, master, older = CASES[case]
    code, node = master if release == "master" else older
    errors = [f for f in lint(build(), cann=release) if f.severity == "error"]
    assert [(f.code, f.node) for f in errors] == ([(code, node)] if code else []), errors
