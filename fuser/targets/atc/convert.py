"""Single nodes at another opset, by onnx's version converter, where it is right.

A node is converted alone, in a model of its own: the rest of the user's model is not touched, and its
weights need not be there. What the converter gets wrong, or has no way for, is refused: the table lists
what was compared by running.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    helper,
    version_converter,
)

from fuser.targets.atc.opset import Edits, keeps_meaning, strangers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_REDUCE = frozenset(
    f"Reduce{kind}"
    for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)
# Softmax going down would flatten, Resize and Upsample going up would change where they sample: not in the
# table.
UP = _REDUCE | {"Clip", "LogSoftmax", "Pad", "Slice", "Softmax", "Split", "Squeeze", "TopK", "Unsqueeze"}
DOWN = _REDUCE | {"Split", "Squeeze", "Unsqueeze"}


@dataclass(frozen=True)
class Converted:
    """What takes a node's place. Values the converter made up are called ``<first output>/<i>``."""

    nodes: tuple[NodeProto, ...]
    initializers: tuple[TensorProto, ...]


def convert_node(
    node: NodeProto,
    old: int,
    new: int,
    types: Mapping[str, TypeProto],
    constants: Mapping[str, TensorProto],
) -> Converted | None:
    """The node at opset ``new``, or None where the converter is not right or does not get there.

    ``types`` are those of the values around it, ``constants`` the tensors whose values are at hand.
    """
    if node.op_type not in (UP if new > old else DOWN):
        return None
    step = 1 if new > old else -1
    for between in range(old + step, new + step, step):
        alone = _alone(node, old, types, constants)
        try:
            result = version_converter.convert_version(alone, between)
        except RuntimeError:  # no adapter this far
            return None
        for inner in result.graph.node:
            left_behind = strangers(inner, between)
            if left_behind is None:
                return None
            apply_edits(inner, left_behind)
        elements = {name: t.tensor_type.elem_type for name, t in types.items()}
        edits = [keeps_meaning(n, between, new, elements) for n in result.graph.node]
        if all(edit is not None for edit in edits):
            for inner, edit in zip(result.graph.node, edits, strict=True):
                apply_edits(inner, edit or {})
            return _named(node, result.graph)
    return None


def apply_edits(node: NodeProto, edits: Edits) -> None:
    """Write and drop attributes."""
    if not edits:
        return
    kept = [a for a in node.attribute if a.name not in edits]
    kept += [helper.make_attribute(name, value) for name, value in edits.items() if value is not None]
    del node.attribute[:]
    node.attribute.extend(kept)


def _alone(
    node: NodeProto, opset: int, types: Mapping[str, TypeProto], constants: Mapping[str, TensorProto]
) -> ModelProto:
    graph = GraphProto(name="node", node=[node])
    for value in dict.fromkeys(node.input):
        if value in constants:
            graph.initializer.append(constants[value])
        elif value:
            graph.input.append(_value(value, types))
    graph.output.extend(_value(value, types) for value in node.output if value)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _value(name: str, types: Mapping[str, TypeProto]) -> ValueInfoProto:
    known = types.get(name)
    if known is None:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    return helper.make_value_info(name, known)


def _named(node: NodeProto, graph: GraphProto) -> Converted:
    own = {*node.input, *node.output}
    made = (value for inner in graph.node for value in inner.output if value not in own)
    made_tensors = (tensor.name for tensor in graph.initializer if tensor.name not in own)
    names = {value: f"{node.output[0]}/{i}" for i, value in enumerate(dict.fromkeys([*made, *made_tensors]))}
    return Converted(
        tuple(_renamed(inner, node, names) for inner in graph.node),
        tuple(_renamed_tensors(graph, names)),
    )


def _renamed(inner: NodeProto, node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(inner)
    copy.input[:] = [names.get(value, value) for value in inner.input]
    copy.output[:] = [names.get(value, value) for value in inner.output]
    if inner.op_type == node.op_type:
        copy.name, copy.doc_string = node.name, node.doc_string
        copy.metadata_props.extend(node.metadata_props)
    elif node.name:
        copy.name = f"{node.name}/{inner.op_type}"
    return copy


def _renamed_tensors(graph: GraphProto, names: Mapping[str, str]) -> Iterator[TensorProto]:
    for tensor in graph.initializer:
        if tensor.name in names:
            copy = TensorProto()
            copy.CopyFrom(tensor)
            copy.name = names[tensor.name]
            yield copy
