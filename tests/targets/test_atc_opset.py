"""Operators at another opset: what is kept or converted computes the same, run at both."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper

from fuser.targets.atc import to_atc_form
from fuser.targets.atc.convert import DOWN, UP
from fuser.targets.atc.opset import keeps_meaning
from tests.builders import model as build
from tests.builders import tensor
from tests.targets.running import assert_same, feeds, run

I64 = onnx.TensorProto.INT64
AXIS = [tensor("k", [1], I64)]
REDUCE = sorted(name for name in UP if name.startswith("Reduce"))


def single(
    op: str,
    opset: int,
    attributes: dict[str, object],
    constants: list[onnx.TensorProto],
    *,
    shapes: tuple[tuple[int, ...], ...] = ((2, 3, 4),),
    outputs: int = 1,
) -> ModelProto:
    """A model of one node: inputs of these shapes, then constants."""
    inputs = {f"x{i}": shape for i, shape in enumerate(shapes)}
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, [*inputs, *(t.name for t in constants)], results, "n", **attributes)
    built = build([node], inputs, dict.fromkeys(results), constants, opset=opset, check=False)
    if op == "TopK":
        built.graph.output[1].type.tensor_type.elem_type = I64
    return built


CONVERTED = [
    *(("up", single(op, 17, {"axes": [1], "keepdims": 0}, []), 18) for op in REDUCE if op != "ReduceSum"),
    *(("down", single(op, 18, {"keepdims": 0}, AXIS), 17) for op in REDUCE if op != "ReduceSum"),
    *(("down", single(op, 18, {"noop_with_empty_axes": 0}, AXIS), 11) for op in REDUCE),
    ("up", single("ReduceSum", 11, {"axes": [1]}, []), 13),
    ("up", single("Unsqueeze", 11, {"axes": [-1, 0]}, []), 18),
    ("down", single("Unsqueeze", 18, {}, AXIS), 11),
    ("up", single("Squeeze", 11, {"axes": [1]}, [], shapes=((2, 1, 4),)), 13),
    ("down", single("Squeeze", 13, {}, AXIS, shapes=((2, 1, 4),)), 11),
    ("up", single("Softmax", 11, {"axis": 1}, []), 13),
    ("up", single("Softmax", 9, {}, []), 18),
    ("up", single("LogSoftmax", 11, {"axis": 1}, []), 13),
    ("up", single("Clip", 10, {"min": -0.5, "max": 0.5}, []), 11),
    ("up", single("Clip", 8, {"min": -0.5}, []), 18),
    ("up", single("Pad", 10, {"pads": [0, 1, 0, 0, 0, 1], "value": 2.0}, []), 11),
    ("up", single("Pad", 8, {"pads": [0, 1, 0, 0, 0, 1], "mode": "reflect"}, []), 18),
    ("up", single("Slice", 9, {"starts": [0], "ends": [1], "axes": [1]}, []), 10),
    ("up", single("Slice", 8, {"starts": [0, 1], "ends": [1, 3]}, []), 11),
    ("up", single("Split", 11, {"axis": 1, "split": [1, 2]}, [], outputs=2), 13),
    ("down", single("Split", 13, {"axis": 1}, [tensor("k", [1, 2], I64)], outputs=2), 11),
    ("up", single("TopK", 9, {"k": 2, "axis": 1}, [], outputs=2), 11),
]


@pytest.mark.parametrize(
    ("model", "target"),
    [pytest.param(m, t, id=f"{m.graph.node[0].op_type}-{d}-{t}") for d, m, t in CONVERTED],
)
def test_converted_node_computes_the_same(model: ModelProto, target: int) -> None:
    """onnx's converter, for what the tables say it gets right."""
    emitted, findings = to_atc_form(model, opset=target)
    assert [f.rule for f in findings] == ["retarget"], findings
    assert emitted.opset_import[0].version == target
    expected = run(model, feeds(model))
    assert_same(expected, run(emitted, feeds(model)))
    for value, array in zip(emitted.graph.output, expected, strict=True):  # the checker wants shapes
        value.type.tensor_type.shape.dim.extend(
            onnx.TensorShapeProto.Dimension(dim_value=size) for size in array.shape
        )
    onnx.checker.check_model(emitted, full_check=True)


def test_every_conversion_is_tested() -> None:
    """No entry of the tables without a run."""
    tested = {(direction, model.graph.node[0].op_type) for direction, model, _ in CONVERTED}
    assert tested >= {("up", op) for op in UP} | {("down", op) for op in DOWN}


def test_an_attribute_that_the_converter_leaves_behind_and_that_says_something_is_no_conversion() -> None:
    """Without axes it is the identity, and without the attribute it would reduce all."""
    model = single("ReduceMean", 18, {"noop_with_empty_axes": 1}, AXIS)
    emitted, findings = to_atc_form(model, opset=11)
    assert [f.rule for f in findings] == ["opset-conversion"]
    assert emitted.opset_import[0].version == 18


KEPT = [
    (single("Softmax", 13, {}, []), 11),
    (single("Softmax", 13, {"axis": -1}, []), 12),
    (single("LogSoftmax", 11, {"axis": -1}, []), 17),
    (
        single(
            "BatchNormalization", 9, {}, [tensor(n, np.full(3, 0.5)) for n in "abcd"], shapes=((2, 3, 4, 4),)
        ),
        18,
    ),
    (single("BatchNormalization", 17, {"training_mode": 0}, [tensor(n, np.full(3, 0.5)) for n in "abcd"]), 9),
    (single("Dropout", 11, {"ratio": 0.3}, []), 17),
    (single("Dropout", 13, {}, []), 11),
    (single("AveragePool", 18, {"kernel_shape": [2], "ceil_mode": 0}, []), 9),
    (single("MaxPool", 12, {"kernel_shape": [2], "dilations": [1]}, []), 11),
    (single("Reshape", 14, {"allowzero": 0}, [tensor("k", [3, 8], I64)]), 13),
    (single("Gemm", 13, {"alpha": 0.5}, [], shapes=((2, 3), (3, 4), (4,))), 11),
    (single("LeakyRelu", 16, {}, []), 8),
    (single("Conv", 22, {}, [tensor("k", np.ones((2, 3, 1)))]), 11),
    (single("DepthToSpace", 13, {"blocksize": 2, "mode": "DCR"}, [], shapes=((1, 4, 2, 2),)), 9),
    (single("ReduceMean", 18, {}, []), 11),
    (single("ReduceSum", 13, {}, []), 11),
    (
        single(
            "ScatterND", 16, {"reduction": "none"}, [tensor("k", [[0]], I64), tensor("u", np.ones((1, 3, 4)))]
        ),
        13,
    ),
    (single("Split", 11, {"axis": 0}, [], outputs=2), 18),
    (single("PRelu", 9, {}, [tensor("k", [[0.3]])]), 17),
]


@pytest.mark.parametrize(
    ("model", "target"), KEPT, ids=lambda v: v.graph.node[0].op_type if isinstance(v, ModelProto) else v
)
def test_kept_node_computes_the_same(model: ModelProto, target: int) -> None:
    """One node stays one node, at most with an attribute more or less."""
    emitted, findings = to_atc_form(model, opset=target)
    assert [f.message.endswith("no operator changes meaning") for f in findings] == [True]
    assert len(emitted.graph.node) == 1
    expected = run(model, feeds(model))
    assert_same(expected, run(emitted, feeds(model)))
    for value, array in zip(emitted.graph.output, expected, strict=True):  # the checker wants shapes
        value.type.tensor_type.shape.dim.extend(
            onnx.TensorShapeProto.Dimension(dim_value=size) for size in array.shape
        )
    onnx.checker.check_model(emitted, full_check=True)


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "attributes", "old", "new"),
    [
        ("Softmax", 1, 1, {"axis": 1}, 13, 11),
        ("Softmax", 1, 1, {}, 11, 13),
        ("BatchNormalization", 5, 1, {"training_mode": 1}, 15, 11),
        ("BatchNormalization", 5, 3, {}, 11, 15),
        ("BatchNormalization", 5, 1, {}, 6, 8),
        ("Dropout", 1, 1, {}, 6, 8),
        ("Dropout", 3, 1, {}, 13, 11),
        ("Add", 2, 1, {"broadcast": 1, "axis": 1}, 6, 8),
        ("Resize", 2, 1, {}, 10, 11),
        ("RoiAlign", 3, 1, {}, 16, 11),
        ("Pad", 2, 1, {"mode": "wrap"}, 19, 18),
        ("ScatterND", 3, 1, {"reduction": "max"}, 18, 16),
        ("ReduceMean", 1, 1, {"axes": [1]}, 17, 18),
        ("Split", 1, 2, {"num_outputs": 2}, 18, 17),
        ("Clip", 1, 1, {"min": 0.0}, 10, 11),
        ("MaxPool", 1, 1, {"kernel_shape": [2], "ceil_mode": 1}, 11, 9),
        ("Gelu", 1, 1, {}, 20, 18),
    ],
)
def test_changed_meaning_is_seen(
    *, op: str, inputs: int, outputs: int, attributes: dict[str, object], old: int, new: int
) -> None:
    """What may not simply be kept."""
    node = helper.make_node(
        op, [f"x{i}" for i in range(inputs)], [f"y{i}" for i in range(outputs)], **attributes
    )
    assert keeps_meaning(node, old, new, {}) is None


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "old", "new", "edits"),
    [
        ("RoiAlign", 3, {}, 11, 16, {"coordinate_transformation_mode": "output_half_pixel"}),
        ("BatchNormalization", 5, {"is_test": 1}, 6, 9, {"is_test": None}),
        ("Add", 2, {"broadcast": 1}, 6, 8, {"broadcast": None}),
        ("Softmax", 1, {}, 13, 11, {"axis": -1}),
        ("NPUMish", 1, {}, 11, 17, {}),
        ("Conv", 2, {}, 11, 21, {}),
    ],
)
def test_edits(
    *, op: str, inputs: int, attributes: dict[str, object], old: int, new: int, edits: dict[str, object]
) -> None:
    """Attributes to write or to drop."""
    node = helper.make_node(op, [f"x{i}" for i in range(inputs)], ["y"], **attributes)
    assert keeps_meaning(node, old, new, {}) == edits
