"""What a value holds where it is a constant, and if it is none, why not.

A constant is an initializer, a Constant, or what the model computes from constants alone, such as a weight behind
Identity, Cast, Transpose or Div.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from fuser.engine.constant import Const, from_node, from_tensor
from fuser.engine.evaluate import evaluate, python_value
from fuser.engine.node import str_name
from fuser.engine.operators import OPERATORS, Undecided
from fuser.engine.spatial import FREE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fuser.engine.graph import Graph
    from fuser.engine.node import Node

OVERRIDABLE = "is an initializer that is also a graph input, which a caller may override"
ROOT = ", and "
"""What joins the node that computes a value and the reason, further up, that it is no constant."""
DEEPEST = 200
"""Constants are computed through at most so many nodes in a row."""


QUANTIZE, DEQUANTIZE = ("", "QuantizeLinear"), ("", "DequantizeLinear")
PARAMETERS: Mapping[str, tuple[int, ...]] = {
    "BatchNormalization": (1, 2, 3, 4), "Conv": (2,), "ConvTranspose": (2,), "Gemm": (2,)
}  # fmt: skip
"""Inputs that may become floats, with what reads them, where they are dequantized constants.

A weight is none of them: its DequantizeLinear is what makes the model a quantized one, and stays."""


def find_constant(graph: Graph, value: str) -> Const | str:
    """The value as a constant, or why it is none (as the end of a sentence that begins with its name)."""
    if not value:
        return "is absent"
    tensor = graph.initializers.get(value)
    if tensor is None:
        home = graph.home(value)
        if home is None:
            return "is not defined"
        if home is not graph:
            return home.constant(value) or home.why_not_constant(value)
        if value in graph.made_constants:
            return graph.made_constants[value]
    else:
        if graph.context.overridable(graph, value):
            return OVERRIDABLE
        return from_tensor(graph, tensor, value)
    if value in graph.sparse:
        return "is a sparse initializer"
    node = graph.producer.get(value)
    if node is None:
        return "is an input of the function" if graph.is_function else "is a graph input"
    if node.kind == ("", "Constant"):
        return from_node(graph, node)
    return fold_node(graph, node, value)


def computed_by(node: Node) -> str:
    """The reason that a value is no constant because a node computes it."""
    return f"is computed by {node.op_type} {str_name(node)!r}"


def _because(graph: Graph, node: Node, value: str) -> str:
    """The reason that a value is no constant because an input of its node is none: the node, and where that begins."""
    why = graph.why_not_constant(value)
    _, found, root = why.partition(ROOT)
    return f"{computed_by(node)}{ROOT}{root if found else f'{value!r} {why}'}"


def is_foldable(node: Node) -> bool:
    """Whether constants are computed through the operator, whoever reads the result."""
    return node.kind[0] == "" and (node.op_type in OPERATORS or node.op_type in ("Cast", "CastLike", "Shape"))


def fold_node(graph: Graph, node: Node, value: str) -> Const | str:
    """What the node computes when all its inputs are constant, or why that is not so."""
    if node.outputs[0] != value or not (is_foldable(node) or _is_parameter(graph, node)):
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
                    return f"{computed_by(node)}{ROOT}the type of {v!r} is not known"
                inputs.append(Const(np.zeros(0), kind))
                continue
            found = graph.constant(v) if v else None
            if found is None and v:
                return _because(graph, node, v)
            inputs.append(found)
        attributes = {n: python_value(a) for n, a in node.attributes.items()}
        if any(a.ref_attr_name for a in node.attributes.values()):
            return f"{computed_by(node)} with an attribute of the function"
        compute = _dequantized if node.kind == DEQUANTIZE else partial(evaluate, node.op_type)
        return compute(inputs, attributes)
    except Undecided as e:
        return f"{computed_by(node)}{ROOT}{e}"
    finally:
        graph.context.depth = depth


def is_same_on_every_run(graph: Graph, value: str) -> bool:
    """Whether the value is a constant, or one that is quantized or dequantized, which no rule computes."""
    node = graph.producer.get(value)
    if node is not None and node.kind in (QUANTIZE, DEQUANTIZE):
        return all(is_same_on_every_run(graph, v) for v in node.inputs if v)
    return graph.constant(value) is not None


def _is_parameter(graph: Graph, node: Node) -> bool:
    """Whether the node dequantizes what is read as a parameter only."""
    value = node.outputs[0]
    return node.kind == DEQUANTIZE and all(
        not reader.kind[0]
        and value in reader.inputs
        and all(k in PARAMETERS.get(reader.op_type, ()) for k, v in enumerate(reader.inputs) if v == value)
        for reader in graph.readers_of(value)
    )


def _dequantized(inputs: Sequence[Const | None], attributes: Mapping[str, Any]) -> Const:
    """(x - zero point) * scale, with one scale for all or one per index of the axis (ONNX, DequantizeLinear)."""
    x, scale, zero = (*inputs, None)[:3]
    if x is None or scale is None or attributes.get("block_size") or attributes.get("output_dtype"):
        raise Undecided("it has blocks or another type than its scale's")
    axis, rank = attributes.get("axis", 1), len(x.shape)

    def along_axis(c: Const) -> NDArray[Any]:
        if c.size > 1 and not -rank <= axis < rank:
            raise Undecided(f"it has no axis {axis}")
        form = [-1 if k == axis % rank else 1 for k in range(rank)] if c.size > 1 else []
        return c.array().astype(np.float64).reshape(form)

    centred = x.array().astype(np.float64)
    if zero is not None:
        centred = centred - along_axis(zero)
    return Const(centred * along_axis(scale), scale.dtype)


def shape_of(graph: Graph, node: Node) -> Const | str:
    """What a Shape node gives; dims that are not known are NaN."""
    shape = graph.shape(node.inputs[0])
    if shape is None:
        return f"{computed_by(node)}{ROOT}the shape of {node.inputs[0]!r} is not known"
    given = {n: a.i for n, a in node.attributes.items()}
    part = shape[given.get("start", 0) : given.get("end", len(shape))]
    return Const(dims_array(part), TensorProto.INT64)


def dims_array(shape: tuple[int, ...]) -> NDArray[Any]:
    """A shape as rules compute with it: int64, or float64 with NaN for dims that are not known, which equal nothing."""
    if FREE in shape:
        return np.asarray([np.nan if d == FREE else d for d in shape], np.float64)
    return np.asarray(shape, np.int64)
