"""A model and its fused form: what each needs, in figures that follow from the shapes alone."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import ModelProto, TensorProto

import fuser
from fuser.errors import ConfigError
from fuser.memory import measured_peaks, memory_of
from fuser.memory.result import POINTS, Step, thinned
from fuser.memory.sizes import tensor_bytes
from tests.builders import conv_bn_leaky

VALUE = 4 * 8 * 8 * 4  # bytes of [1, 4, 8, 8] in float32


def fused(model: ModelProto, **options: object) -> ModelProto:
    """The fused form, as it is held: without its large weights."""
    return fuser.fuse(model, parity=False, **options).stored.proto  # type: ignore[arg-type]


def test_fusion_saves_the_values_inside() -> None:
    """Before, three values of a block are written, two at a time; after, one."""
    model = conv_bn_leaky(channels=(4, 4, 4), size=8)
    found = memory_of(model, fused(model))
    assert found.before is not None
    assert found.after is not None
    assert (found.before.peak, found.after.peak) == (2 * VALUE, 2 * VALUE)
    assert (found.before.in_place_peak, found.after.in_place_peak) == (2 * VALUE, VALUE)
    weights = 4 * (4 * 4 * 9)
    assert found.before.moved == 2 * (weights + 4 * 4 * 4 + 6 * VALUE)
    assert found.after.moved == 2 * (weights + 4 * 4 + 2 * VALUE)
    assert found.before.unknown == found.after.unknown == 0
    [reuse] = found.reuses
    assert (reuse.op, reuse.input, reuse.output, reuse.saves) == ("ConvLeakyRelu", "act0", "y", VALUE)


def test_a_fused_operator_whose_input_is_needed_later_is_not_in_place() -> None:
    """The residual Add reads what the second block reads."""
    model = conv_bn_leaky(channels=(4, 4, 4), size=8, check=False)
    model.graph.node[-1].output[0] = "act1"
    model.graph.node.append(onnx.helper.make_node("Add", ["act0", "act1"], ["y"]))
    onnx.checker.check_model(model, full_check=True)
    found = memory_of(model, fused(model))
    assert found.after is not None
    assert found.reuses == ()
    assert (found.after.peak, found.after.in_place_peak) == (3 * VALUE, 2 * VALUE)


def test_what_a_smaller_output_leaves_is_free_for_others() -> None:
    """8 channels, then 4 over them: while the last block makes 16, only the 4 are in use beside it."""
    model = conv_bn_leaky(channels=(8, 8, 4, 16), size=8)
    found = memory_of(model, fused(model))
    assert found.after is not None
    assert [s.bytes for s in found.after.steps] == [2 * VALUE, 3 * VALUE, 5 * VALUE]
    assert [s.in_place_bytes for s in found.after.steps] == [2 * VALUE, 2 * VALUE, 5 * VALUE]


def test_a_larger_output_does_not_fit() -> None:
    """Four channels in, eight out."""
    model = conv_bn_leaky(channels=(4, 4, 8), size=8)
    assert memory_of(model, fused(model)).reuses == ()


def test_standard_operators_are_counted_as_they_are() -> None:
    """Folded Conv and LeakyRelu; in place, the activation goes over what Conv made."""
    model = conv_bn_leaky(channels=(4, 4), size=8)
    found = memory_of(model, fused(model, fused_as="standard"))
    assert found.after is not None
    assert (found.after.peak, found.after.in_place_peak) == (2 * VALUE, VALUE)


def test_the_figures_repeat_exactly() -> None:
    """Two calls, equal in every field."""
    model = conv_bn_leaky(channels=(3, 4, 4), batch="N")
    after = fused(model)
    assert memory_of(model, after) == memory_of(model, after)


def test_shapes_are_the_given_ones_and_a_free_batch_is_one() -> None:
    """Twice the batch, twice the bytes."""
    model = conv_bn_leaky(channels=(4, 4), size=8)
    one, two = memory_of(model, fused(model)), memory_of(model, fused(model), {"x": (2, 4, 8, 8)})
    assert (one.shapes, two.shapes) == ({"x": (1, 4, 8, 8)}, {"x": (2, 4, 8, 8)})
    assert one.before is not None
    assert two.before is not None
    assert two.before.peak == 2 * one.before.peak


def test_a_free_size_is_not_guessed() -> None:
    """The sentence says what to give, and giving it is all it takes."""
    model = conv_bn_leaky(channels=(3, 4))
    for axis in (2, 3):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = "HW"[axis - 2]
        model.graph.output[0].type.tensor_type.shape.dim[axis].dim_param = "hw"[axis - 2]
    found = memory_of(model, fused(model))
    assert found.before is None
    assert found.reason == "input 'x' is [N, 3, H, W]: give its shape, such as --shape x:1x3x64x64"
    assert memory_of(model, fused(model), {"x": (1, 3, 64, 64)}).before is not None


def test_a_shape_that_does_not_fit_is_refused() -> None:
    """Rather than counted."""
    model = conv_bn_leaky(channels=(3, 4))
    with pytest.raises(ConfigError, match="does not fit"):
        memory_of(model, fused(model), {"x": (1, 5, 8, 8)})


def test_stale_value_info_does_not_count() -> None:
    """A size that the model states wrongly."""
    model = conv_bn_leaky(channels=(4, 4, 4), size=8)
    after = fused(model)
    right = memory_of(model, after)
    model.graph.value_info.append(
        onnx.helper.make_tensor_value_info("conv0", TensorProto.FLOAT, [1, 4, 99, 99])
    )
    assert memory_of(model, after) == right


def test_a_site_in_a_function_is_found() -> None:
    """Functions of the model's own are counted as what they hold."""
    model = conv_bn_leaky(channels=(4, 4), size=8)
    names = {t.name for t in model.graph.initializer}
    nodes = list(model.graph.node)
    function = onnx.helper.make_function(
        "own", "Block", ["x", *sorted(names)], ["y"], nodes, [onnx.helper.make_opsetid("", 17)]
    )
    call = onnx.helper.make_node("Block", ["x", *sorted(names)], ["y"], "call", domain="own")
    del model.graph.node[:]
    model.graph.node.append(call)
    model.functions.append(function)
    model.opset_import.append(onnx.helper.make_opsetid("own", 1))
    onnx.checker.check_model(model, full_check=True)
    found = memory_of(model, model)
    assert found.before is not None
    assert found.before.peak == 2 * VALUE


@pytest.mark.parametrize(
    ("elem_type", "dims", "nbytes"),
    [
        (TensorProto.FLOAT, (2, 3), 24),
        (TensorProto.FLOAT16, (), 2),
        (TensorProto.BFLOAT16, (5,), 10),
        (TensorProto.INT4, (5,), 3),
        (TensorProto.DOUBLE, (0, 7), 0),
        (TensorProto.STRING, (2,), None),
        (99, (2,), None),
    ],
)
def test_bytes_of_a_tensor(elem_type: int, dims: tuple[int, ...], nbytes: int | None) -> None:
    """Two 4-bit values share a byte; the length of strings is not known."""
    assert tensor_bytes(elem_type, dims) == nbytes


def test_a_long_timeline_keeps_its_peaks() -> None:
    """Thinned to at most POINTS, the largest of each figure is still there."""
    steps = [Step(i, i % 97, (i * 7) % 89) for i in range(5 * POINTS + 3)]
    kept = thinned(steps)
    assert len(kept) <= POINTS
    assert max(s.bytes for s in kept) == max(s.bytes for s in steps)
    assert max(s.in_place_bytes for s in kept) == max(s.in_place_bytes for s in steps)
    assert thinned(steps[:POINTS]) == tuple(steps[:POINTS])


def test_both_timelines_count_the_operators_of_the_model_before() -> None:
    """A fused operator stands where the last of its nodes stood."""
    model = conv_bn_leaky(channels=(4, 4, 4), size=8)
    found = memory_of(model, fused(model))
    assert found.before is not None
    assert found.after is not None
    assert [s.at for s in found.before.steps] == [0, 1, 2, 3, 4, 5]
    assert [s.at for s in found.after.steps] == [2, 5]


def test_onnxruntime_measures_what_is_counted(tmp_path: Path) -> None:
    """On a chain, its own peak lies between the figures in place and out of place."""
    model = conv_bn_leaky(channels=(4, 8, 8, 8), size=32, batch=1)
    result = fuser.fuse(model, parity=False)
    paths = tmp_path / "a.onnx", tmp_path / "b.onnx"
    onnx.save(model, paths[0])
    result.save(paths[1])
    found = memory_of(model, result.stored.proto)
    measured = measured_peaks(paths, model, found.shapes, timeout=60)
    assert measured is not None
    for own, counted in zip(measured, (found.before, found.after), strict=True):
        assert counted is not None
        assert counted.in_place_peak <= own <= counted.peak * 1.1


def test_a_model_that_does_not_run_is_not_measured(tmp_path: Path) -> None:
    """An operator that nobody has."""
    model = conv_bn_leaky(channels=(4, 4), batch=1)
    model.graph.node[0].op_type = "NoSuchOperator"
    path = tmp_path / "a.onnx"
    path.write_bytes(model.SerializeToString())
    assert measured_peaks((path, path), model, {"x": (1, 4, 8, 8)}, timeout=60) is None
