"""Whether an operator means the same at another opset, so that its node can be kept as it is.

Decided from onnx's own schemas: the same since_version, or schemas that differ in the types they take only.
An attribute that one of them lacks may have the value, and only the value, that the table below says the
other version always has. Anything else is another operator with the same name.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from onnx import AttributeProto, TensorProto, defs, helper

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import NodeProto

# Attributes that some versions of an operator lack, and the value with which the others do what those do.
_NEUTRAL: dict[tuple[str, str], object] = {
    ("ArgMax", "select_last_index"): 0,
    ("ArgMin", "select_last_index"): 0,
    ("AveragePool", "ceil_mode"): 0,
    ("AveragePool", "count_include_pad"): 0,
    ("BatchNormalization", "is_test"): 1,
    ("BatchNormalization", "spatial"): 1,
    ("BatchNormalization", "training_mode"): 0,
    ("Cast", "round_mode"): "up",
    ("Cast", "saturate"): 1,
    ("CastLike", "saturate"): 1,
    ("DepthToSpace", "mode"): "DCR",
    ("Dropout", "is_test"): 1,
    ("GatherND", "batch_dims"): 0,
    ("GRU", "layout"): 0,
    ("LSTM", "layout"): 0,
    ("LpPool", "ceil_mode"): 0,
    ("MaxPool", "ceil_mode"): 0,
    ("MaxPool", "storage_order"): 0,
    ("Reshape", "allowzero"): 0,
    ("Resize", "antialias"): 0,
    ("Resize", "exclude_outside"): 0,
    ("Resize", "keep_aspect_ratio_policy"): "stretch",
    ("RoiAlign", "coordinate_transformation_mode"): "output_half_pixel",
    ("ScatterElements", "reduction"): "none",
    ("ScatterND", "reduction"): "none",
    ("Shape", "start"): 0,
} | {
    (f"Reduce{kind}", "noop_with_empty_axes"): 0
    for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
}

# Attributes whose default changed, and the value that means the same in every version that takes it: along
# the last axis, the flattening of opset 12 and before makes no difference. Written out, because the default
# does.
_LAST_AXIS = frozenset({"Hardmax", "LogSoftmax", "Softmax"})

# Say nothing: a Dropout that does not train (before opset 12 it can't, after it takes a third input) has no
# use for a ratio, and broadcasting without an axis is what these operators always do since opset 7.
_BROADCASTING = "Add And Div Equal Gemm Greater Less Mul Or Pow Sub Xor"
_IDLE = {("Dropout", "ratio"), ("Dropout", "seed")} | {(name, "broadcast") for name in _BROADCASTING.split()}

# Attribute values that only some versions know: (first, one past the last).
_VALUES: dict[tuple[str, str, str], tuple[int, int]] = {
    ("Pad", "mode", "wrap"): (19, 1000),
    ("Resize", "coordinate_transformation_mode", "half_pixel_symmetric"): (19, 1000),
    ("Resize", "coordinate_transformation_mode", "tf_half_pixel_for_nn"): (11, 13),
    ("ScatterElements", "reduction", "max"): (18, 1000),
    ("ScatterElements", "reduction", "min"): (18, 1000),
    ("ScatterND", "reduction", "max"): (18, 1000),
    ("ScatterND", "reduction", "min"): (18, 1000),
}


@cache
def schema(op_type: str, opset: int) -> defs.OpSchema | None:
    """The default domain's schema of an operator at an opset; None where it has none, or a deprecated one."""
    try:
        found = defs.get_schema(op_type, opset, "")
    except defs.SchemaError:
        return None
    return None if found.deprecated else found


Edits = dict[str, object]  # attribute → value to write, or None to drop it


def keeps_meaning(node: NodeProto, old: int, new: int, types: Mapping[str, int]) -> Edits | None:
    """Edits with which the node means at opset ``new`` what it means at ``old``; None where none can do that.

    ``types`` gives the element types of values as far as they are known.
    """
    before, after = schema(node.op_type, old), schema(node.op_type, new)
    if before is None or after is None:
        return None if defs.has(node.op_type) else {}  # an operator of ATC's own has no versions
    if before.since_version == after.since_version:
        return {}
    written = {a.name: _plain(a) for a in node.attribute}
    trains = (
        node.op_type == "BatchNormalization" and len(node.output) > 1
    )  # which each version says differently
    alike = _same_operands(node, before, after) and takes(node, new, types)
    if trains or not alike or not _knows(node.op_type, written, new):
        return None
    edits: Edits = {}
    for name in sorted({*before.attributes, *after.attributes}):
        edit = _edit(node.op_type, name, before, after, written)
        if edit is None:
            return None
        edits.update(edit)
    if node.op_type == "Split" and len(node.input) == 1 and before.since_version < 18 <= after.since_version:
        edits["num_outputs"] = len(node.output)  # says what was understood before
    return edits


def takes(node: NodeProto, opset: int, types: Mapping[str, int]) -> bool:
    """Whether the operator takes these element types at an opset, as far as they are known."""
    found = schema(node.op_type, opset)
    if found is None or not found.inputs:
        return True
    last = len(found.inputs) - 1
    return all(
        _type_string(types[value]) in found.inputs[min(i, last)].types
        for i, value in enumerate(node.input)
        if types.get(value, TensorProto.UNDEFINED) != TensorProto.UNDEFINED
        and found.inputs[min(i, last)].types
    )


def strangers(node: NodeProto, opset: int) -> Edits | None:
    """Edits that drop the attributes which the operator lacks at this opset; None where one says something.

    onnx's version converter leaves those behind that came with a later version.
    """
    found = schema(node.op_type, opset)
    extra = [] if found is None else [a for a in node.attribute if a.name not in found.attributes]
    if any(_NEUTRAL.get((node.op_type, a.name)) != _plain(a) for a in extra):
        return None
    return {a.name: None for a in extra}


def _knows(op_type: str, written: Mapping[str, object], opset: int) -> bool:
    for name, value in written.items():
        first, end = _VALUES.get((op_type, name, str(value)), (0, 1000))
        if not first <= opset < end:
            return False
    return True


def _edit(
    op_type: str, name: str, before: defs.OpSchema, after: defs.OpSchema, written: Mapping[str, object]
) -> Edits | None:
    """What to do about one attribute, or None where nothing keeps the meaning."""
    was, becomes = before.attributes.get(name), after.attributes.get(name)
    value = written.get(name, _default(was)) if was is not None else None
    neutral = _NEUTRAL.get((op_type, name))
    if (op_type, name) in _IDLE:
        return {name: None} if becomes is None and name in written else {}
    if was is not None and becomes is not None:
        if _default(was) == _default(becomes):
            return {}
        last = op_type in _LAST_AXIS and name == "axis" and value == -1 and after.since_version >= 11
        return {name: value} if last else None
    if becomes is None:  # the new version always has the neutral value
        drop: Edits = {name: None} if name in written else {}
        return drop if value is None or value == neutral else None
    default = _default(becomes)
    if becomes.required or (default is not None and neutral is None):
        return None
    return {} if default == neutral or default is None else {name: neutral}


def _same_operands(node: NodeProto, before: defs.OpSchema, after: defs.OpSchema) -> bool:
    """The operands this node has play the same roles; those it lacks may be left out."""
    for used, was, becomes in (
        (len(node.input), before.inputs, after.inputs),
        (len(node.output), before.outputs, after.outputs),
    ):
        variadic = defs.OpSchema.FormalParameterOption.Variadic
        if any(p.option == variadic for p in (*was, *becomes)):
            if [p.option for p in was] != [p.option for p in becomes]:
                return False
            continue
        if used > min(len(was), len(becomes)):
            return False
        if any(p.option == defs.OpSchema.FormalParameterOption.Single for p in becomes[used:]):
            return False
    return True


@cache
def _type_string(dtype: int) -> str:
    return f"tensor({TensorProto.DataType.Name(dtype).lower()})"


def _default(attribute: defs.OpSchema.Attribute) -> object:
    found = attribute.default_value
    return _plain(found) if found.type != AttributeProto.UNDEFINED else None


def _plain(attribute: AttributeProto) -> object:
    if attribute.ref_attr_name:  # in a function's body: some value, which is none that a table has
        return attribute
    value = helper.get_attribute_value(attribute)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
