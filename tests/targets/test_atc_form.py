"""ATC's form: what it must look like, that it computes the same, and that people's names survive."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, parser

from fuser.targets.atc import lint, to_atc_form
from fuser.targets.atc.names import all_graphs, generated
from tests.builders import conv_bn_leaky, tensor
from tests.builders import model as build
from tests.targets.running import assert_same, feeds, run
from tests.targets.texts import CONV, block, text, with_domain

NESTED = """
<ir_version: 10, opset_import: ["" : 17, "f" : 1]>
g (float[N,3] x, bool c) => (float[N,3] y)
{
  [one] a = f.Act <alpha = 0.3> (x)
  [two] b = f.Outer (a)
  [pick] y = If (c) <
    then_branch = t () => (float[N,3] p) { [q] p = f.Act <alpha = 0.2> (b) },
    else_branch = e () => (float[N,3] q) { q = Identity (b) }
  >
}
<domain: "f", opset_import: ["" : 17]> Act <alpha> (X) => (Y)
{ [leak] t = LeakyRelu <alpha: float = @alpha> (X)  Y = Identity (t) }
<domain: "f", opset_import: ["" : 17, "f" : 1]> Outer (X) => (Y)
{ [in1] Z = f.Act <alpha = 0.7> (X)  [in2] Y = f.Act <alpha = 0.1> (Z) }
"""


def constants() -> ModelProto:
    """Every kind of Constant that onnxruntime runs."""
    return text(
        "a = Constant <value_float = 0.5> ()",
        "b = Constant <value_floats = [1.0, 2.0]> ()",
        "e = Constant <value_ints = [1, 2]> ()",
        "f = Constant <value_int = 2> ()",
        "h = Constant <value = float[2] {3, 4}> ()",
        "i = Reshape (x, e)",
        "j = Mul (i, a)",
        "k = Add (j, b)",
        "l = Add (k, h)",
        "m = Cast <to = 1> (f)",
        "y = Mul (l, m)",
        imports='"" : 14',
        inputs="float[2] x",
        outputs="float[1,2] y",
        initializers="",
    )


def function_of_another_opset(version: int) -> ModelProto:
    model = parser.parse_model(NESTED)
    for function in model.functions:
        function.opset_import[0].version = version
    return model


def collisions() -> ModelProto:
    """Two nodes of one name, one named like the input, one like an initializer's node, two without a name."""
    return text(
        "[x] a = LeakyRelu (x)",
        "[n] b = LeakyRelu (a)",
        "[n] c = LeakyRelu (b)",
        "[k_Initializer_0] d = Mul (c, k)",
        "[Relu_0] e = Relu (d)",
        "f = Relu (e)",
        "y = Relu (f)",
        inputs="float[4] x",
        outputs="float[4] y",
        initializers="float k = {2}",
    )


def trailing() -> ModelProto:
    return text(CONV.replace("w)", 'w, "")'), "[act] y, m = Dropout (c)".replace(", m", ""))


MODELS: dict[str, Callable[[], ModelProto]] = {
    "plain": block,
    "opset 24": lambda: conv_bn_leaky(opset=24, ir=11),
    "opset 21": lambda: conv_bn_leaky(opset=21, ir=10, transpose=True),
    "opset 7": lambda: conv_bn_leaky(opset=7),
    "overridable": lambda: conv_bn_leaky(overridable=True),
    "IR 3": lambda: conv_bn_leaky(opset=8, ir=3, overridable=True),
    "default slope": lambda: text(CONV, "[act] y = LeakyRelu (c)"),
    "no attributes": lambda: text("[n] y = Conv (x, w)"),
    "auto_pad VALID": lambda: text('[n] y = Conv <auto_pad = "VALID"> (x, w)'),
    "auto_pad SAME": lambda: text(
        '[n] y = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, w)', outputs="float[1,1,4,4] y"
    ),
    "ai.onnx spelled": lambda: with_domain(block('"ai.onnx" : 11'), ""),
    "unused import": lambda: block('"" : 11, "com.x" : 1'),
    "functions": lambda: parser.parse_model(NESTED),
    "functions of opset 15": lambda: function_of_another_opset(15),
    "Constants": constants,
    "collisions": collisions,
    "trailing empty input": trailing,
}


@pytest.mark.parametrize("name", MODELS)
def test_form(name: str) -> None:
    """One default import, no functions, no Constants, nothing ATC refuses, the same results bit for bit."""
    model = MODELS[name]()
    before = model.SerializeToString()
    emitted, findings = to_atc_form(model)
    assert model.SerializeToString() == before
    assert [(e.domain, 8 <= e.version <= 18) for e in emitted.opset_import] == [("", True)]
    assert not emitted.functions
    assert "Constant" not in {node.op_type for graph in all_graphs(emitted.graph) for node in graph.node}
    assert [f for f in (*findings, *lint(emitted), *lint(emitted, cann="9.1")) if f.severity == "error"] == []
    onnx.checker.check_model(emitted, full_check=True)
    values = feeds(model)
    assert_same(run(model, values), run(emitted, values))


@pytest.mark.parametrize("name", MODELS)
def test_form_is_stable(name: str) -> None:
    """The same model gives the same bytes, and its form's form is itself."""
    emitted, _ = to_atc_form(MODELS[name]())
    assert to_atc_form(MODELS[name]())[0].SerializeToString() == emitted.SerializeToString()
    assert to_atc_form(emitted)[0].SerializeToString() == emitted.SerializeToString()


@pytest.mark.parametrize("name", [name for name in MODELS if name != "overridable"])
def test_inputs_and_outputs_stay(name: str) -> None:
    """What --input_shape and --out_nodes address."""
    model = MODELS[name]()
    emitted, _ = to_atc_form(model)
    fixed = {t.name for t in model.graph.initializer}
    assert list(emitted.graph.input) == [v for v in model.graph.input if v.name not in fixed]
    assert list(emitted.graph.output) == list(model.graph.output)


def test_node_names_stay() -> None:
    """A node keeps its name unless another has it first, and unnamed ones get ATC's or the next free."""
    emitted, _ = to_atc_form(collisions())
    assert [n.name for n in emitted.graph.node] == [
        "x_1",
        "n",
        "n_1",
        "k_Initializer_0_1",
        "Relu_0",
        "Relu_1",
        "Relu_2",
    ]


def test_inlined_nodes_tell_their_call() -> None:
    """A node that came from a function is called after the call and its name in the function."""
    emitted, _ = to_atc_form(parser.parse_model(NESTED))
    assert [n.name for graph in all_graphs(emitted.graph) for n in graph.node] == [
        "one/leak",
        "one/Identity",
        "two/in1/leak",
        "two/in1/Identity",
        "two/in2/leak",
        "two/in2/Identity",
        "pick",
        "q/leak",
        "q/Identity",
        "Identity_0",
    ]


def test_everything_of_a_conv_is_written() -> None:
    """Conv and LeakyRelu say all they do."""
    emitted, _ = to_atc_form(text('[n] c = Conv <auto_pad = "VALID"> (x, w)', "[a] y = LeakyRelu (c)"))
    conv, leaky = ({a.name: helper.get_attribute_value(a) for a in n.attribute} for n in emitted.graph.node)
    assert conv == {
        "kernel_shape": [3, 3],
        "strides": [1, 1],
        "dilations": [1, 1],
        "group": 1,
        "pads": [0, 0, 0, 0],
    }
    assert leaky == {"alpha": pytest.approx(0.01)}


def test_padding_that_depends_on_open_sizes_is_said() -> None:
    """SAME with a stride over open sizes keeps auto_pad, with a warning."""
    model = text(
        '[n] y = Conv <auto_pad = "SAME_UPPER", strides = [2,2]> (x, w)',
        inputs="float[1,1,H,W] x",
        outputs="float[1,1,h,w] y",
    )
    emitted, findings = to_atc_form(model)
    assert [(f.rule, f.severity, f.node) for f in findings] == [("auto-pad", "warning", "n")]
    assert "auto_pad" in {a.name for a in emitted.graph.node[0].attribute}


def test_marks_of_weights_survive() -> None:
    """A skeleton's weights keep their external_data entries, in functions and Constants too."""
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21, "f" : 1]> g (float[1,1,8,8] x) => (float[1,1,6,6] y)'
        "{ y = f.Block (x) }"
        '<domain: "f", opset_import: ["" : 21]> Block (X) => (Y)'
        "{ w = Constant <value = float[1,1,3,3] {0}> () c = Conv (X, w) Y = LeakyRelu (c) }"
    )
    weight = model.functions[0].node[0].attribute[0].t
    weight.ClearField("float_data")
    weight.external_data.add(key="somewhere", value="5")
    emitted, findings = to_atc_form(model)
    [held] = emitted.graph.initializer
    assert [(e.key, e.value) for e in held.external_data] == [("somewhere", "5")]
    assert [f.rule for f in findings] == ["retarget"]
    assert [a.ints for a in emitted.graph.node[0].attribute if a.name == "kernel_shape"] == [[3, 3]]


def test_metadata_survives() -> None:
    """What fusing noted on a node, and what the model says of itself, is still there."""
    model = block('"" : 21', ir=10)
    model.graph.node[0].metadata_props.add(key="fuser.rule", value="r")
    model.metadata_props.add(key="author", value="a")
    emitted, _ = to_atc_form(model)
    assert [(p.key, p.value) for p in emitted.graph.node[0].metadata_props] == [("fuser.rule", "r")]
    assert [(p.key, p.value) for p in emitted.metadata_props] == [("author", "a")]


def test_constant_inputs_are_said() -> None:
    """From IR 4 on, a caller could have given another value for an input with a default."""
    assert [f.rule for f in to_atc_form(conv_bn_leaky(overridable=True))[1]] == ["constant-input"]
    assert to_atc_form(conv_bn_leaky(opset=8, ir=3, overridable=True))[1] == ()


@pytest.mark.parametrize(
    ("opset", "version", "rules"), [(24, 18, ["retarget"]), (7, 11, ["retarget"]), (13, 13, []), (9, 9, [])]
)
def test_nearest_opset_is_taken(opset: int, version: int, rules: list[str]) -> None:
    """A model stays where it is if ATC knows that opset, else it moves as little as ATC documents."""
    emitted, findings = to_atc_form(conv_bn_leaky(opset=opset, ir=8))
    assert emitted.opset_import[0].version == version
    assert [f.rule for f in findings] == rules


@pytest.mark.parametrize("opset", [11, 13, 15])
def test_opset_that_was_asked_for(opset: int) -> None:
    """The caller's choice, converted where an operator changed: Unsqueeze's axes became an input at 13."""
    model = text(
        "[u] t = Unsqueeze <axes = [1]> (x)" if opset > 11 else "[u] t = Unsqueeze (x, k)",
        "[n] y = LeakyRelu (t)",
        imports='"" : 11' if opset > 11 else '"" : 17',
        inputs="float[2,3] x",
        outputs="float[2,1,3] y",
        initializers="" if opset > 11 else "int64[1] k = {1}",
    )
    emitted, findings = to_atc_form(model, opset=opset)
    assert emitted.opset_import[0].version == opset
    assert "1 nodes converted" in findings[0].message
    onnx.checker.check_model(emitted, full_check=True)
    assert_same(run(model, feeds(model)), run(emitted, feeds(model)))
    assert [n.name for n in emitted.graph.node][-2:] == ["u", "n"]


@pytest.mark.parametrize(
    ("node", "opset", "target", "why"),
    [
        ("[s] y = Softmax <axis = 1> (x)", 13, 11, "Softmax means something else at opset 11"),
        ("[s] y = Gelu (x)", 20, 18, "Gelu does not exist at opset 18"),
        ("[s] y = BitwiseNot (x)", 18, 17, "BitwiseNot does not exist at opset 17"),
    ],
)
def test_what_no_conversion_gets_right_is_refused(node: str, opset: int, target: int, why: str) -> None:
    """The operator is named, and the model stays at its opset."""
    model = text(
        node, imports=f'"" : {opset}', inputs="float[2,3,4] x", outputs="float[2,3,4] y", initializers=""
    )
    emitted, findings = to_atc_form(model, opset=target)
    assert [(f.code, f.severity, f.node) for f in findings] == [("E13010", "error", "s")]
    assert why in findings[0].message
    assert emitted.opset_import[0].version == opset


def test_types_an_older_operator_lacks_are_said() -> None:
    """bfloat16 came to Conv at opset 22."""
    model = conv_bn_leaky(opset=22, ir=11, dtype=TensorProto.BFLOAT16)
    assert "Conv takes other element types at opset 18" in to_atc_form(model)[1][0].message


def test_function_that_can_not_be_moved_is_called_still() -> None:
    """Softmax means another thing at the function's opset: the call stays, and the linter names it."""
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 17, "f" : 1]> g (float[2,3,4] x) => (float[2,3,4] y)'
        "{ [n] y = f.S(x) }"
        '<domain: "f", opset_import: ["" : 11]> S (X) => (Y) { Y = Softmax <axis = 1> (X) }'
    )
    emitted, _ = to_atc_form(model)
    assert len(emitted.functions) == 1
    assert [(f.rule, f.node) for f in lint(emitted) if f.severity == "error"] == [("local-function", "n")]


names = st.lists(
    st.sampled_from(["", "a", "a_1", "x", "w", "w_Initializer_0", "Relu_0", "Relu_1", "Relu_2", "x_1"]),
    min_size=1,
    max_size=8,
)


@given(names)
@settings(max_examples=200, deadline=None)
def test_names_end_up_unique(given_names: list[str]) -> None:
    """All different, none an input's or an initializer's, and nobody loses one for nothing."""
    values = ["x", *(f"v{i}" for i in range(len(given_names)))]
    nodes = [
        helper.make_node("Relu", [values[i]], [values[i + 1]], name) for i, name in enumerate(given_names)
    ]
    model = build(nodes, {"x": [1]}, {values[-1]: [1]}, [tensor("w", np.zeros(1))], opset=11, check=False)
    emitted, _ = to_atc_form(model)
    found = [node.name for node in emitted.graph.node]
    reserved = {*generated(emitted.graph)}
    assert len({*found}) == len(found)
    assert all(name and name not in reserved for name in found)
    for i, name in enumerate(given_names):
        if name and name not in reserved and name not in given_names[:i]:
            assert found[i] == name
