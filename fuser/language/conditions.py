"""What a condition of a `where` function looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuser.language.body import Ref

if TYPE_CHECKING:
    from fuser.language.body import Body

_OF_THE_SHAPE = ("Shape", "Size")


def by_shape_alone(where: Body, condition: str) -> bool:
    """Tell whether an output of `where` looks at shapes of inputs, not at their values or at attributes."""
    wanted, sees_shape = {condition}, False
    for node in reversed(where.nodes):
        if not wanted.intersection(node.outputs):
            continue
        if any(isinstance(value, Ref) for value in node.attributes.values()):
            return False
        if node.op_type in _OF_THE_SHAPE and node.domain == "":
            sees_shape = True
        else:
            wanted.update(node.inputs)
    return sees_shape and not wanted.intersection(where.inputs)
