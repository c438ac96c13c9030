"""Models of every kind, and what the check says of them."""

from __future__ import annotations

import json

import onnx
import pytest
from onnx import ModelProto, TensorProto, numpy_helper, parser

from fuser.errors import ConfigError, ModelError
from fuser.parity import check_parity
from fuser.parity.source import weight_tolerance
from tests.builders import conv_bn_leaky
from tests.parity.pairs import change, fused, initializer


def text(body: str, *, opset: int = 17, ir: int = 8, more: str = "") -> ModelProto:
    """A model from ONNX text."""
    return parser.parse_model(f'<ir_version: {ir}, opset_import: ["": {opset}{more}]> {body}')


@pytest.mark.parametrize(
    ("dtype", "judge"),
    [
        (TensorProto.FLOAT, "onnxruntime"),
        (TensorProto.FLOAT16, "onnxruntime"),
        (TensorProto.DOUBLE, "onnx.reference"),
        (TensorProto.BFLOAT16, "onnx.reference"),
    ],
)
def test_every_floating_type_has_a_judge(dtype, judge):
    """Where onnxruntime has no kernels the reference judges, and refuses an error as well."""
    a = conv_bn_leaky(dtype=dtype, opset=22, ir=10)
    b, sites = fused(a)
    found = check_parity(a, b, sites=sites)
    assert (found.verdict, found.judge.split(" ")[0]) == ("passed", judge)
    assert found.sites[0].negatives > 0.1
    change(initializer(b.graph, "W0_bias"), (1,), 5.0)
    wrong = check_parity(a, b, sites=sites)
    assert (wrong.verdict, list(wrong.guilty)) == ("failed", sites)


@pytest.mark.parametrize(
    "body",
    [
        "g (float[3] x) => (float[3] y) { r = RandomNormalLike(x) y = Add(x, r) }",
        "g (float[64] x) => (float[64] y) "
        "{ h = Constant<value_float = 0.5>() t = Constant<value = bool {1}>() y = Dropout(x, h, t) }",
        "g (float[1,8] x) => (int32[1,32] y) { y = Multinomial<sample_size = 32>(x) }",
    ],
)
def test_a_random_model_is_inconclusive(body):
    """A disagrees with itself."""
    a = text(body)
    found = check_parity(a, a)
    assert found.verdict == "inconclusive"
    assert "A disagrees with itself" in found.reason


def test_a_random_output_does_not_hide_a_wrong_one():
    """The other output is judged."""
    body = "g (float[3] x) => (float[3] y, float[3] z) {{ r = RandomNormalLike(x) y = Add(x, r) z = {}(x) }}"
    assert check_parity(text(body.format("Relu")), text(body.format("Abs"))).verdict == "failed"
    assert check_parity(text(body.format("Relu")), text(body.format("Relu"))).verdict == "inconclusive"


def test_a_seeded_random_model_can_be_judged():
    """It gives the same on every first run."""
    body = "g (float[3] x) => (float[3] y) {{ r = RandomNormalLike<seed = 1.0>(x) z = Add(x, r) y = {}(z) }}"
    assert check_parity(text(body.format("Relu")), text(body.format("Relu"))).verdict == "passed"
    assert check_parity(text(body.format("Relu")), text(body.format("Abs"))).verdict == "failed"


def test_a_random_model_whose_nodes_moved_is_inconclusive_too():
    """onnxruntime seeds by the node's position, so B draws something else."""
    a = text("g (float[3] x) => (float[3] y) { r = RandomNormalLike(x) y = Add(x, r) }")
    b = text("g (float[3] x) => (float[3] y) { z = Identity(x) r = RandomNormalLike(z) y = Add(z, r) }")
    assert check_parity(a, b).verdict == "inconclusive"


def test_the_draws_take_both_branches_of_an_if():
    """B is wrong in one of them only."""
    body = """g (float[3] x, bool c) => (float[3] y) {{ y = If(c)
        <then_branch = t () => (float[3] p) {{ p = {}(x) }},
         else_branch = e () => (float[3] q) {{ q = {}(x) }}> }}"""
    a = text(body.format("Relu", "Neg"))
    assert check_parity(a, a).verdict == "passed"
    assert check_parity(a, text(body.format("Abs", "Neg"))).verdict == "failed"
    assert check_parity(a, text(body.format("Relu", "Abs"))).verdict == "failed"


@pytest.mark.parametrize(
    ("body", "other", "reason"),
    [
        ("g (float[3] x) => (int64[1] y) { y = ArgMax(x) }", ("ArgMax", "ArgMin"), "values differ"),
        (
            "g (float[4] x) => (bool[4] y) { z = Constant<value_float = 0.0>() y = Less(x, z) }",
            ("Less", "Greater"),
            "",
        ),
        ("g (string[4] x) => (string[4] y) { y = Identity(x) }", None, ""),
        ("g (int64[3] i, float[5] x) => (float[3] y) { y = Gather(x, i) }", None, ""),
        ("g (uint8[1,3,4,4] x) => (float[1,3,4,4] y) { y = Cast<to = 1>(x) }", None, ""),
    ],
)
def test_integers_booleans_and_strings(body, other, reason):
    """At the input and at the output."""
    a = text(body)
    assert check_parity(a, a).verdict == "passed"
    if other:
        found = check_parity(a, text(body.replace(*other)))
        assert found.verdict == "failed"
        assert reason in found.reason


def test_an_index_input_stays_in_range():
    """A table with one row can only be asked for row 0: small integers fail, zeros run."""
    a = text("g (int64[3] i) => (float[3,2] y) <float[1,2] w = {1, 2}> { y = Gather(w, i) }")
    found = check_parity(a, a)
    assert found.verdict == "passed"


def test_free_dimensions_get_a_size_that_runs():
    """Equal symbols get equal sizes; the batch is drawn at 1 and at 2; this one flattens to 64 x 64 only."""
    a = text(
        """g (float[N, 3, H, W] x, float[N, H] m) => (float[N, K] y) {
        s = Shape<start = 0, end = 1>(x) w = Constant<value = int64[1] {12288}>() t = Concat<axis = 0>(s, w)
        f = Flatten(x) y = Reshape(f, t) }"""
    )
    found = check_parity(a, a)
    assert found.verdict == "passed"
    assert [draw.batch for draw in found.draws] == [1, 2, 1]
    assert dict(found.draws[1].shapes) == {"x": (2, 3, 64, 64), "m": (2, 64)}


def test_a_batch_that_can_only_be_one_is_one():
    """It is declared free, but a Reshape fixes it."""
    a = text(
        "g (float[N, 4] x) => (float[1, 4] y) { s = Constant<value = int64[2] {1, 4}>() y = Reshape(x, s) }"
    )
    assert [draw.batch for draw in check_parity(a, a).draws] == [1, 1, 1]


def test_given_shapes_are_used_and_checked():
    """A symbol that one input's shape fixes holds for the others."""
    a = text("g (float[N, C] x, float[C] b) => (float[N, C] y) { y = Add(x, b) }")
    found = check_parity(a, a, shapes={"x": (5, 7)})
    assert dict(found.draws[0].shapes) == {"x": (5, 7), "b": (7,)}
    for shapes, word in (
        ({"z": (1,)}, "no input 'z'"),
        ({"x": (1,)}, "does not fit"),
        ({"b": (-1,)}, "negative"),
    ):
        with pytest.raises(ConfigError, match=word):
            check_parity(a, a, shapes=shapes)


def test_an_input_of_unknown_rank_is_tried():
    """Conv takes rank 4 only here."""
    a = conv_bn_leaky()
    a.graph.input[0].type.tensor_type.ClearField("shape")
    assert check_parity(a, a).verdict == "passed"


def test_an_output_without_elements_is_no_evidence():
    """Nothing was compared, so nothing is claimed."""
    a = text("g (float[0, 3] x) => (float[0, 3] y) { y = Relu(x) }")
    found = check_parity(a, a)
    assert found.verdict == "inconclusive"
    assert "no element" in found.reason


def test_an_output_of_nan_alone_is_no_evidence():
    """Even when B has the same."""
    a = text("g (float[3] x) => (float[3] y) { z = Sub(x, x) y = Div(z, z) }")
    assert check_parity(a, a).verdict == "inconclusive"


def test_a_model_of_positive_inputs_gets_positive_inputs():
    """Only inputs from 0 to 1 leave anything finite here."""
    a = text("""g (float[64] x) => (float[64] y) {
        f = Floor(x) m = Abs(f) n = Neg(m) r = Sqrt(n) y = Add(x, r) }""")
    found = check_parity(a, a)
    assert found.verdict == "passed"


def test_a_sequence_output_is_compared_item_by_item():
    """And a wrong item fails."""
    body = """g (float[4] x) => (seq(float[2]) y) {{ n = Constant<value = int64 {{2}}>() z = {}(x)
        y = SplitToSequence<axis = 0>(z, n) }}"""
    a = text(body.format("Relu"))
    found = check_parity(a, a)
    assert [output.name for output in found.outputs] == ["y[0]", "y[1]"]
    assert found.verdict == "passed"
    assert check_parity(a, text(body.format("Neg"))).verdict == "failed"


def test_a_sequence_input_is_inconclusive():
    """It can be neither drawn nor given."""
    a = text("g (seq(float[2]) x) => (float[2] y) { i = Constant<value = int64 {0}>() y = SequenceAt(x, i) }")
    found = check_parity(a, a)
    assert (found.verdict, "no tensor" in found.reason) == ("inconclusive", True)


def test_a_model_nothing_runs_is_inconclusive():
    """A custom operator, and no sites to look at."""
    a = text("g (float[3] x) => (float[3] y) { y = com.example.Foo(x) }", more=', "com.example": 1')
    found = check_parity(a, a)
    assert (found.verdict, found.judge) == ("inconclusive", "none")
    assert "Foo" in found.reason


def test_b_alone_needs_a_custom_operator():
    """That B does not load is its fault when A does; onnxruntime's sentence is quoted."""
    a = text("g (float[3] x) => (float[3] y) { y = Relu(x) }", more=', "com.example": 1')
    b = text("g (float[3] x) => (float[3] y) { y = com.example.Foo(x) }", more=', "com.example": 1')
    found = check_parity(a, b)
    assert found.verdict == "failed"
    assert (
        "B does not load, A does: Fatal error: com.example:Foo(-1) is not a registered function/op"
        in found.reason
    )


def test_models_on_disk_with_external_data(tmp_path):
    """Paths go to onnxruntime as they are."""
    a = conv_bn_leaky(channels=(3, 64))
    b, sites = fused(a)
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for model, path in zip((a, b), paths, strict=True):
        copy = ModelProto()
        copy.CopyFrom(model)
        onnx.save(copy, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=0)
    found = check_parity(*paths, sites=sites)
    assert found.verdict == "passed"
    assert found.sites[0].negatives > 0.1
    change(initializer(b.graph, "W0_bias"), (1,), 5.0)
    (tmp_path / "b.onnx.data").unlink()
    onnx.save(b, paths[1], save_as_external_data=True, location="b.onnx.data", size_threshold=0)
    assert check_parity(*paths, sites=sites).guilty == tuple(sites)


def test_models_in_memory_are_not_touched():
    """Byte for byte."""
    a = conv_bn_leaky()
    b, sites = fused(a)
    before = a.SerializeToString(), b.SerializeToString()
    change(initializer(b.graph, "W0_bias"), (1,), 0.0)
    wrong = b.SerializeToString()
    check_parity(a, b, sites=sites)
    assert (a.SerializeToString(), b.SerializeToString()) == (before[0], wrong)


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ({"draws": 0}, "at least 1"),
        ({"tolerance": -1.0}, "0 to below 1"),
        ({"tolerance": float("nan")}, "0 to below 1"),
        ({"timeout": 0}, "positive"),
        ({"memory": 0}, "positive"),
    ],
)
def test_options_that_check_nothing_are_refused(option, word):
    """With what to give instead."""
    a = conv_bn_leaky()
    with pytest.raises(ConfigError, match=word):
        check_parity(a, a, **option)


def test_a_file_that_is_no_model_is_refused(tmp_path):
    """Missing, or something else."""
    path = tmp_path / "a.onnx"
    with pytest.raises(ModelError):
        check_parity(path, path)
    path.write_text("hello")
    with pytest.raises(ModelError):
        check_parity(path, path)


@pytest.mark.parametrize(
    ("types", "cast", "expected"),
    [
        ([TensorProto.FLOAT], None, 2e-5),
        ([TensorProto.DOUBLE], None, 1e-9),
        ([TensorProto.FLOAT, TensorProto.FLOAT16], None, 4e-3),
        ([TensorProto.DOUBLE, TensorProto.FLOAT], None, 2e-5),
        ([TensorProto.FLOAT], TensorProto.BFLOAT16, 2e-2),
        ([TensorProto.FLOAT, TensorProto.INT8], None, 2e-5),
        ([TensorProto.INT64], None, 2e-5),
    ],
)
def test_the_tolerance_follows_the_coarsest_weight(types, cast, expected):
    """Or a Cast on the way; but not one that only makes the output's type."""
    model = conv_bn_leaky(bn=False)
    del model.graph.initializer[:]
    for i, elem_type in enumerate(types):
        model.graph.initializer.add(name=f"w{i}", data_type=elem_type, dims=[0])
    model.graph.node.add(op_type="Cast", input=["x"], output=["last"]).attribute.add(name="to", i=10, type=2)
    model.graph.output.add(name="last")
    if cast:
        model.graph.node.add(op_type="Cast", input=["x"], output=["inner"]).attribute.add(
            name="to", i=cast, type=2
        )
    assert weight_tolerance(model) == expected


def test_a_given_tolerance_replaces_the_policy():
    """For better and for worse."""
    a = conv_bn_leaky()
    b, _ = fused(a)
    assert check_parity(a, b, tolerance=1e-12).verdict == "failed"
    change(
        initializer(b.graph, "W0_bias"),
        (1,),
        float(numpy_helper.to_array(initializer(b.graph, "W0_bias"))[1]) + 1e-3,
    )
    assert check_parity(a, b, tolerance=1e-2).verdict == "passed"


def test_the_same_seed_draws_the_same():
    """And another seed another."""
    a = conv_bn_leaky()
    b, _ = fused(a)
    one, same, other = (check_parity(a, b, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one.outputs != other.outputs


def test_the_json_is_plain():
    """No infinity, no NaN, no tuple, whatever was found."""
    a = text("g (float[3] x) => (float[3] y) { y = Relu(x) }")
    b = text("g (float[3] x) => (float[3] y) { z = Constant<value_float = inf>() y = Mul(x, z) }")
    for found in (check_parity(a, b), check_parity(a, a)):
        plain = found.to_json()
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
        assert plain["draws"][0]["shapes"] == {"x": [3]}
        assert set(plain) == {"verdict", "reason", "judge", "draws", "outputs", "sites", "guilty"}
