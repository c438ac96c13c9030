"""The body of a pattern, a rewrite or a `where`, as the matcher and the rewriter read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuser.language.operators import key_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import AttributeProto, FunctionProto

    from fuser.language.text import Block


@dataclass(frozen=True)
class Ref:
    """A reference `@name` to an attribute of the rule."""

    name: str


@dataclass(frozen=True, eq=False)
class RuleNode:
    """One node; `attributes` holds what is written, in that order; an absent input is ""."""

    label: str
    op_type: str
    domain: str  # "" for ai.onnx
    overload: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeProto | Ref]
    block: Block
    index: int

    @property
    def line(self) -> int:
        """The line of the file that it stands on."""
        return self.block.lines.nodes[self.index]


@dataclass(frozen=True, eq=False)
class Body:
    """One function of a rule; nodes in the file's order, which is topological; `opset` is that of ai.onnx."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[str, ...]
    nodes: tuple[RuleNode, ...]
    opset: int
    proto: FunctionProto
    doc: str
    block: Block

    @property
    def line(self) -> int:
        """The line of the file that its name stands on."""
        return self.block.lines.block


def body_of(block: Block) -> Body:
    """Convert a checked function; nodes without a label get their operator's name and a number."""
    assert block.proto is not None
    labels = {node.name for node in block.nodes}
    nodes = []
    for index, node in enumerate(block.nodes):
        domain, op_type, overload = key_of(node)
        label = node.name or _free_label(op_type.lower(), labels)
        labels.add(label)
        attributes = {a.name: Ref(a.ref_attr_name) if a.ref_attr_name else a for a in node.attribute}
        inputs, outputs = tuple(node.input), tuple(node.output)
        nodes.append(RuleNode(label, op_type, domain, overload, inputs, outputs, attributes, block, index))
    return Body(
        block.inputs,
        block.outputs,
        block.attributes,
        tuple(nodes),
        block.imports[""],
        block.proto,
        block.proto.doc_string,
        block,
    )


def _free_label(stem: str, taken: set[str]) -> str:
    number = 1
    while f"{stem}{number}" in taken:
        number += 1
    return f"{stem}{number}"
