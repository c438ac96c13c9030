"""Every rule of the ATC linter, on models that break just that one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from onnx import ModelProto, TensorProto, helper, parser

from fuser.errors import TargetError
from fuser.targets.atc import lint
from fuser.targets.finding import Finding, refuses
from tests.targets.texts import ACT_OF_CONV, CONV, WEIGHT, block, text


def one(node: str, *, opset: int = 11, extra: str = "", inputs: str = "float[1,2,8,8] x") -> ModelProto:
    """A model of one node whose output is y, with a constant ``extra``."""
    return text(node, imports=f'"" : {opset}', inputs=inputs, outputs="float[] y", initializers=extra)


def conv(attributes: str, weight: str = "float[1,1,3,3] w = {1,1,1,1,1,1,1,1,1}") -> ModelProto:
    return text(f"[n] y = Conv {attributes} (x, w)", initializers=weight)


def no_graph() -> ModelProto:
    return ModelProto(opset_import=[helper.make_opsetid("", 11)])


def sparse() -> ModelProto:
    model = text(CONV, ACT_OF_CONV, initializers="")
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [0])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [1, 1, 3, 3]))
    return model


def constant(
    dtype: int, *, dims: tuple[int, ...] = (1,), data: bytes = b"\0" * 8, name: str = "k"
) -> ModelProto:
    model = text(CONV, ACT_OF_CONV)
    model.graph.initializer.append(TensorProto(name=name, data_type=dtype, dims=dims, raw_data=data))
    return model


def external_in_branch() -> ModelProto:
    model = text(
        "[i] y = If (x) <then_branch = t () => (float[1] p) { p = Identity(k) },"
        " else_branch = e () => (float[1] q) { q = Identity(k) }>",
        inputs="bool x",
        outputs="float[1] y",
        initializers="float[1] k = {1}",
    )
    tensor = TensorProto(name="k", data_type=1, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    model.graph.node[0].attribute[0].g.initializer.append(tensor)
    return model


def unnamed_hole() -> ModelProto:
    return text(
        "y = Dropout (c)",
        '[n] c = MaxUnpool <kernel_shape = [2,2]> (x, w, "")',
        initializers=WEIGHT,
    )


# name → (model, rule, code, severity, node)
RULES: dict[str, tuple[Callable[[], ModelProto], str, str | None, str, str]] = {
    "no graph": (no_graph, "no-graph", "E16004", "error", ""),
    "no output": (lambda: text(CONV, outputs=""), "no-output", "E16001", "error", ""),
    "output nobody computes": (
        lambda: text(CONV, ACT_OF_CONV, outputs="float[1,1,6,6] z"),
        "dangling-output",
        "E19999",
        "error",
        "",
    ),
    "operator of another opset": (
        lambda: one("[n] y = LayerNormalization (x, k)", extra="float[8] k = {1,1,1,1,1,1,1,1}"),
        "opset",
        "E13010",
        "error",
        "n",
    ),
    "Mish before 18": (lambda: one("[n] y = Mish (x)", opset=17), "opset", "E13010", "error", "n"),
    "Upsample at 10": (
        lambda: one("[n] y = Upsample (x, k)", opset=10, extra="float[4] k = {1,1,2,2}"),
        "opset",
        "E13010",
        "error",
        "n",
    ),
    "quantization": (
        lambda: one("[n] y = QuantizeLinear (x, k)", opset=13, extra="float k = {1}"),
        "unregistered",
        "E13010",
        "error",
        "n",
    ),
    "unnamed initializer": (lambda: constant(1, name=""), "unnamed-initializer", None, "warning", ""),
    "initializer twice": (
        lambda: text(CONV, ACT_OF_CONV, initializers=f"{WEIGHT}, {WEIGHT}"),
        "duplicate-initializer",
        None,
        "warning",
        "w",
    ),
    "fp8 constant": (
        lambda: constant(TensorProto.FLOAT8E4M3FN),
        "tensor-dtype",
        "E19999",
        "error",
        "k",
    ),
    "uint4 constant": (lambda: constant(TensorProto.UINT4), "tensor-dtype", "E19999", "error", "k"),
    "no data": (lambda: constant(1, data=b""), "tensor-data", "E19999", "error", "k"),
    "negative size": (lambda: constant(1, dims=(-1,)), "tensor-shape", "E19999", "error", "k"),
    "sparse initializer": (sparse, "sparse-initializer", "E19999", "error", "w"),
    "Constant without value": (
        lambda: text("[k] c = Constant <value_float = 1.0> ()", ACT_OF_CONV),
        "constant-without-value",
        None,
        "warning",
        "k",
    ),
    "external data in a branch": (external_in_branch, "external-data", None, "warning", "k"),
    "unnamed nodes": (lambda: one("y = Relu (x)"), "unnamed-nodes", None, "note", ""),
    "zero size": (
        lambda: one("[n] y = Relu (x)", inputs="float[0,2] x"),
        "zero-dim",
        None,
        "error",
        "x",
    ),
    "int64 input": (
        lambda: one("[n] y = Relu (x)", inputs="int64[1,2] x"),
        "input-dtype",
        None,
        "warning",
        "x",
    ),
    "open sizes": (
        lambda: one("[n] y = Relu (x)", inputs="float[N,2] x"),
        "open-dims",
        "E10001",
        "warning",
        "",
    ),
    "Conv without attributes": (lambda: conv(""), "attribute", "E11010", "error", "n"),
    "Conv with odd pads": (lambda: conv("<pads = [1,1,1]>"), "attribute", "E11010", "error", "n"),
    "Conv of four axes": (lambda: conv("<kernel_shape = [1,1,1,1]>"), "rank", "E19999", "error", "n"),
    "3-D Conv with auto_pad": (
        lambda: conv('<kernel_shape = [1,1,1], strides = [1,1,1], auto_pad = "SAME_UPPER">'),
        "attribute",
        "E19999",
        "error",
        "n",
    ),
    "3-D Conv with kernel_shape only": (
        lambda: conv("<kernel_shape = [1,1,1]>"),
        "explicit",
        None,
        "warning",
        "n",
    ),
    "Conv with a long stride": (
        lambda: conv("<kernel_shape = [3,3], strides = [64,1]>"),
        "limit",
        None,
        "warning",
        "n",
    ),
    "Conv with four inputs": (
        lambda: text("[n] y = Conv <kernel_shape = [3,3]> (x, w, w, w)"),
        "inputs",
        "E19999",
        "error",
        "n",
    ),
    "Conv of int64": (
        lambda: conv("<kernel_shape = [3,3]>", WEIGHT.replace("float", "int64")),
        "dtype",
        "EZ3003",
        "warning",
        "n",
    ),
    "ConvTranspose without kernel_shape": (
        lambda: text("[n] y = ConvTranspose <strides = [2,2]> (x, w)"),
        "attribute",
        "E11010",
        "error",
        "n",
    ),
    "MaxPool with indices": (
        lambda: one("[n] y, i = MaxPool <kernel_shape = [2,2]> (x)"),
        "outputs",
        "E11010",
        "error",
        "n",
    ),
    "MaxPool with storage_order": (
        lambda: one("[n] y = MaxPool <kernel_shape = [2,2], storage_order = 1> (x)"),
        "attribute",
        "E11010",
        "error",
        "n",
    ),
    "AveragePool with SAME_LOWER": (
        lambda: one('[n] y = AveragePool <kernel_shape = [2,2], auto_pad = "SAME_LOWER"> (x)'),
        "ignored-attribute",
        None,
        "warning",
        "n",
    ),
    "Clip without bounds": (lambda: one("[n] y = Clip (x)"), "inputs", "E11010", "error", "n"),
    "Resize with two inputs": (
        lambda: one("[n] y = Resize (x, k)", extra="float[4] k = {1,1,2,2}"),
        "inputs",
        "E11010",
        "error",
        "n",
    ),
    "Resize with antialias": (
        lambda: one('[n] y = Resize <antialias = 1> (x, "", k)', opset=18, extra="float[4] k = {1,1,2,2}"),
        "ignored-attribute",
        None,
        "warning",
        "n",
    ),
    "Upsample with another mode": (
        lambda: one('[n] y = Upsample <mode = "cubic"> (x, k)', opset=9, extra="float[4] k = {1,1,2,2}"),
        "attribute",
        "E11010",
        "error",
        "n",
    ),
    "hole in an expanded operator": (unnamed_hole, "empty-input", "E19999", "warning", "n"),
    "output without a name": (
        lambda: one(
            '[n] "", h = LSTM <hidden_size = 1> (x, k, k)  [m] y = Clip (h, "", s)',
            extra="float[1] k = {1}, float s = {1}",
        ),
        "empty-output",
        None,
        "warning",
        "n",
    ),
    "unknown chip": (block, "soc-version", "E10054", "error", ""),
    "BatchNormalization on A2": (block, "batchnorm-not-folded", None, "note", "bn"),
}
SOC = {"unknown chip": "Ascend9999", "BatchNormalization on A2": "Ascend910B3"}


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str) -> None:
    """The finding has the rule's code, severity and place, and says what to do."""
    build, rule, code, severity, node = RULES[name]
    found = [f for f in lint(build(), soc=SOC.get(name)) if f.rule == rule]
    assert [(f.code, f.severity, f.node) for f in found] == [(code, severity, node)]
    assert found[0].message
    assert found[0].fix


@pytest.mark.parametrize(
    ("node", "opset", "extra"),
    [
        ('[n] y = Clip (x, "", k)', 11, "float k = {1}"),
        ('[n] y = Resize (x, "", k)', 13, "float[4] k = {1,1,2,2}"),
        ("[n] y = AveragePool <kernel_shape = [2,2]> (x)", 18, ""),
        ("[n] y = HardSwish (x)", 14, ""),
        ("[n] y = NPUMish (x)", 11, ""),
    ],
)
def test_accepted(node: str, opset: int, extra: str) -> None:
    """Neighbours of the rules that break none, such as inputs left out where the plugin looks."""
    assert lint(one(node, opset=opset, extra=extra)) == ()


def test_empty_constant_is_no_missing_data() -> None:
    """A constant without elements (a Resize's empty roi) has nothing to hold."""
    assert lint(constant(1, dims=(0,), data=b"")) == ()


def test_skeleton_needs_no_data() -> None:
    """A weight whose bytes are elsewhere is marked by external_data entries and is not missing."""
    model = constant(1, data=b"")
    model.graph.initializer[-1].external_data.add(key="anything", value="7")
    assert lint(model) == ()


def test_external_data_must_lie_beside_the_model(tmp_path: Path) -> None:
    """ATC joins a tensor's location with the model's folder."""
    model = constant(1, data=b"")
    tensor = model.graph.initializer[-1]
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    assert [f.rule for f in lint(model, path=tmp_path / "m.onnx")] == ["external-data"]
    (tmp_path / "w.bin").write_bytes(b"\0" * 4)
    assert lint(model, path=tmp_path / "m.onnx") == ()


@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        (
            "float[N,3,8,8] x",
            ['--input_shape="x:1,3,8,8"', '--input_shape="x:-1,3,8,8" --dynamic_batch_size="1,2,4,8"'],
        ),
        (
            "float[1,3,H,W] x",
            [
                '--input_shape="x:1,3,<H>,<W>"',
                '--input_shape="x:1,3,-1,-1" --dynamic_image_size="<H1>,<W1>;<H2>,<W2>"',
            ],
        ),
        (
            "float[N,T] x, float[2] z",
            [
                '--input_shape="x:1,<T>;z:2"',
                '--input_format=ND --input_shape="x:-1,-1;z:2" --dynamic_dims="<p1.1>,<p1.2>;<p2.1>,<p2.2>"',
            ],
        ),
    ],
)
def test_open_sizes_name_the_option(inputs: str, options: list[str]) -> None:
    """Open sizes come with the literal option that gives them, fixed and in profiles."""
    [finding] = [f for f in lint(one("[n] y = Relu (x)", inputs=inputs)) if f.rule == "open-dims"]
    assert finding.fix == f"pass {options[0]}, or {options[1]}"


def test_nodes_inside_branches_are_checked() -> None:
    """ATC parses the branches of an If like the main graph."""
    model = text(
        "[i] y = If (x) <then_branch = t () => (float[1] p) { [in] p = Foo(k) },"
        " else_branch = e () => (float[1] q) { q = Identity(k) }>",
        inputs="bool x",
        outputs="float[1] y",
        initializers="float[1] k = {1}",
    )
    assert [(f.code, f.node) for f in lint(model) if f.severity == "error"] == [("E13010", "in")]


def test_one_finding_per_operator_type() -> None:
    """A thousand nodes of an unregistered operator are one finding."""
    nodes = [f"v{i + 1} = Foo (v{i})" for i in range(1000)]
    model = text(*nodes, inputs="float[1] v0", outputs="float[1] v1000", initializers="")
    [finding] = [f for f in lint(model) if f.severity == "error"]
    assert "(and 999 more)" in finding.message


def test_nearest_registered_operator_is_named() -> None:
    """A slip in an operator's name is found."""
    [finding] = [f for f in lint(one("[n] y = HardSwich (x)")) if f.severity == "error"]
    assert "HardSwish" in finding.fix


def test_local_function_is_told_from_an_unknown_operator() -> None:
    """What the model defines itself is to be inlined, not replaced."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 11, "f" : 1]> g (float[1] x) => (float[1] y) { y = f.Act(x) }'
        '<domain: "f", opset_import: ["" : 11]> Act (X) => (Y) { Y = LeakyRelu(X) }'
    )
    assert [f.rule for f in lint(model) if f.severity == "error"] == ["local-function"]


@pytest.mark.parametrize(
    ("cann", "code"), [("master", "E13010"), ("8.5.0", "E13010"), ("8.0.RC3", "E19010"), ("2022", "E19010")]
)
def test_code_of_the_release(cann: str, code: str) -> None:
    """CANN before 8.5 prints another code for the same thing."""
    errors = [f for f in lint(one("[n] y = Foo (x)"), cann=cann) if f.severity == "error"]
    assert [f.code for f in errors] == [code]


def test_release_that_is_not_known_is_said() -> None:
    """The next older release stands for it, which is said."""
    assert [f.rule for f in lint(one("[n] y = Relu (x)"), cann="8.0")] == ["unknown-release"]
    assert lint(one("[n] y = Relu (x)"), cann="v9.1.0") == ()


def test_no_version_is_refused() -> None:
    """A --cann that is no version is the user's mistake."""
    with pytest.raises(TargetError, match=r"'nine' is none that is known; use one of 2022, 8\.5"):
        lint(block(), cann="nine")


def test_lint_does_not_touch_the_model() -> None:
    """The linter only reads."""
    model = block()
    before = model.SerializeToString()
    lint(model, cann="9.1", soc="Ascend310P3")
    assert model.SerializeToString() == before


def test_finding_as_json() -> None:
    """What a report holds of a finding."""
    finding = Finding("E13009", "error", "x", "m", "f", "duplicate-name")
    assert finding.to_json() == {
        "code": "E13009",
        "severity": "error",
        "node": "x",
        "message": "m",
        "fix": "f",
        "rule": "duplicate-name",
    }
    assert refuses((finding,))
    assert not refuses(())


def test_an_operator_that_only_later_releases_have_says_which() -> None:
    """It is not true that no CANN has it."""
    model = one("[n] y = Mish (x)", opset=18)
    [finding] = [f for f in lint(model, cann="8.0") if f.rule == "unregistered"]
    assert (finding.code, finding.node) == ("E19010", "n")
    assert finding.message == "ai.onnx::18::Mish is not registered: this CANN has it at no opset"
    assert finding.fix == "the newest CANN has it, at opset 18: use that, or replace the operator"
