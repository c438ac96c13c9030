"""Emit: the form that the target takes. As standard operators, each fused one is written as its definition says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuser.engine.context import FUSED
from fuser.engine.functions import filled
from fuser.engine.node import Node, Origin, domain_of

if TYPE_CHECKING:
    from onnx import FunctionProto, NodeProto

    from fuser.passes.site import Work


def emit(work: Work) -> None:
    """Replace fused operators by the nodes of their definitions, where standard operators are asked for."""
    if not work.standard:
        return
    definitions = {f.name: f for r in work.rules.all for f in r.definitions}
    for node in [n for n in work.graph.added if n.kind[0] == FUSED]:
        parts = list(node.parts.values())
        if all(part.original for part in parts):  # nothing was folded: the model's own nodes are that form
            parts.sort(key=lambda n: n.order)
            work.rewriter.replace(node, parts)
        else:
            work.rewriter.replace(node, expanded(node, definitions[node.op_type], work))


def expanded(node: Node, definition: FunctionProto, work: Work) -> list[Node]:
    """The nodes of the definition in the place of a call: named, and their values named, as what they stand for was."""
    graph = work.graph
    values = dict(zip(definition.output, node.outputs, strict=False))
    values.update(zip(definition.input, [*node.inputs, *[""] * len(definition.input)], strict=False))
    given = node.attributes
    out: list[Node] = []
    for k, body in enumerate(definition.node):
        part = node.parts.get(body.name)
        for i, o in enumerate(body.output):
            if o not in values:
                was = part.outputs[i] if part is not None and i < len(part.outputs) else ""
                values[o] = (
                    was if was and not graph.is_local(was) else graph.context.fresh(f"{node.outputs[0]}_{o}")
                )
        inputs = [values[v] if v else "" for v in body.input]
        while inputs and not inputs[-1]:
            inputs.pop()
        new = Node(
            (domain_of(body.domain), body.op_type),
            inputs,
            [values[o] for o in body.output],
            (*node.order, k),
            name=_name(node, body, part, work),
            attributes={a.name: a for a in filled(body, given)},
        )
        new.origin = part.origin + Origin((), node.origin.rules[-1:]) if part is not None else node.origin
        out.append(new)
    return out


def _name(node: Node, body: NodeProto, part: Node | None, work: Work) -> str:
    if part is not None:
        return part.name
    return work.graph.context.fresh_node(f"{node.name}_{body.op_type}") if node.name else ""
