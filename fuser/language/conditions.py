"""What a condition of a `where` function looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import AttributeProto

if TYPE_CHECKING:
    from onnx import FunctionProto

_OF_THE_SHAPE = ("Shape", "Size")


def by_shape_alone(where: FunctionProto, condition: str) -> bool:
    """Tell whether a condition looks at shapes of inputs, and at nothing that the bench draws.

    That is values of inputs and float attributes. Other attributes may go with the shapes, as the number of
    groups goes with the channels of a weight.
    """
    wanted, sees_shape = {condition}, False
    for node in reversed(where.node):
        if not wanted.intersection(node.output):
            continue
        if any(a.ref_attr_name and a.type == AttributeProto.FLOAT for a in node.attribute):
            return False
        if node.op_type in _OF_THE_SHAPE and not node.domain:
            sees_shape = True
        else:
            wanted.update(node.input)
    return sees_shape and not wanted.intersection(where.input)
