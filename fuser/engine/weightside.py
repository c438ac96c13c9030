"""Arithmetic that the model does on constants alone, such as a weight behind Identity, Cast, Transpose or Div."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from fuser.engine.constant import Const, computed_by
from fuser.engine.evaluate import evaluate, python_value
from fuser.engine.operators import OPERATORS, Undecided
from fuser.engine.shapes import FREE

if TYPE_CHECKING:
    from fuser.engine.graph import Graph
    from fuser.engine.node import Node

DEEPEST = 200
"""Constants are computed through at most so many nodes in a row."""


def is_foldable(node: Node) -> bool:
    """Whether constants are computed through the operator at all."""
    return node.kind[0] == "" and (node.op_type in OPERATORS or node.op_type in ("Cast", "CastLike", "Shape"))


def fold_node(graph: Graph, node: Node, value: str) -> Const | str:
    """What the node computes when all its inputs are constant, or why that is not so."""
    if not is_foldable(node) or node.outputs[0] != value:
        return computed_by(node)
    if node.op_type == "Shape":
        return shape_of(graph, node)
    depth = graph.context.depth
    if depth >= DEEPEST:
        return f"is computed through more than {DEEPEST} nodes"
    inputs: list[Const | None] = []
    graph.context.depth = depth + 1
    try:
        for k, v in enumerate(node.inputs):
            if node.op_type == "CastLike" and k == 1:
                kind = graph.dtype(v)
                if not kind:
                    return f"{computed_by(node)}, and the type of {v!r} is not known"
                inputs.append(Const(np.zeros(0), kind))
                continue
            found = graph.constant(v) if v else None
            if found is None and v:
                return computed_by(node)
            inputs.append(found)
        attributes = {n: python_value(a) for n, a in node.attributes.items()}
        if any(a.ref_attr_name for a in node.attributes.values()):
            return f"{computed_by(node)} with an attribute of the function"
        return evaluate(node.op_type, inputs, attributes)
    except Undecided as e:
        return f"{computed_by(node)}, and {e}"
    finally:
        graph.context.depth = depth


def shape_of(graph: Graph, node: Node) -> Const | str:
    """What a Shape node gives; dims that are not known are NaN."""
    shape = graph.shape(node.inputs[0])
    if shape is None:
        return f"{computed_by(node)}, and the shape of {node.inputs[0]!r} is not known"
    given = {n: a.i for n, a in node.attributes.items()}
    part = shape[given.get("start", 0) : given.get("end", len(shape))]
    return Const(dims_array(part), TensorProto.INT64)


def dims_array(shape: tuple[int, ...]) -> NDArray[Any]:
    """A shape as rules compute with it: int64, or float64 with NaN for dims that are not known, which equal nothing."""
    if FREE in shape:
        return np.asarray([np.nan if d == FREE else d for d in shape], np.float64)
    return np.asarray(shape, np.int64)
