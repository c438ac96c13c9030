"""Inline: calls of model-local functions are opened where what is inside may fuse with what is outside.

A function that holds a BatchNormalization alone, as module exporters write it, or that takes its weights as arguments,
can't be fused by itself. Its calls are replaced by its nodes; where none of these was rewritten in the end, the call is
put back as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from onnx import AttributeProto, FunctionProto, NodeProto

from fuser.engine.context import FUSED, function_key
from fuser.engine.functions import filled
from fuser.engine.node import Node, Origin, domain_of, str_name

if TYPE_CHECKING:
    from fuser.engine.graph import Graph
    from fuser.passes.site import Work

DEEPEST = 32
"""Calls within calls are opened at most so deep."""


def inline(work: Work) -> None:
    """Open every call that may be worth it; ``restore`` puts back those that were not."""
    calls = [(n, 0) for n in work.graph.live_nodes() if n.kind[0] not in ("", FUSED)]
    for node, depth in calls:
        function = work.graph.context.functions_by_key.get(function_key(node))
        if function is None or depth > DEEPEST or not _can_be_opened(work, node, function):
            continue
        inner = list(_opened(work.graph, node, function))
        work.rewriter.replace(node, inner)
        work.opened.append((node, tuple((n, tuple(n.inputs)) for n in inner)))
        calls += [(n, depth + 1) for n in inner if n.kind[0] not in ("", FUSED)]


def restore(work: Work) -> None:
    """Put back the calls of which nothing was rewritten, inner ones first."""
    for call, inner in reversed(work.opened):
        if all(work.is_in_graph(n) and tuple(n.inputs) == inputs for n, inputs in inner):
            work.rewriter.replace_all([n for n, _ in inner], [call])


def _can_be_opened(work: Work, call: Node, function: FunctionProto) -> bool:
    """The function means the same here (same opsets, no bodies) and holds something that a rule begins with."""
    graph, rules = work.graph, work.rules
    if function_key(call) in work.closed or set(function.input) & set(function.output):
        return False
    if any(graph.opset(domain_of(o.domain)) != o.version for o in function.opset_import):
        return False
    if any(
        a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for n in function.node for a in n.attribute
    ):
        return False
    roots = {*rules.anchors, *rules.affine, *rules.fuse, *rules.spell}
    known = graph.context.functions_by_key
    return any(
        (domain_of(n.domain), n.op_type) in roots or (n.domain, n.op_type, n.overload) in known
        for n in function.node
    )


def _opened(graph: Graph, call: Node, function: FunctionProto) -> Iterator[Node]:
    """The function's nodes in the place of the call, with its arguments and attributes filled in."""
    context = graph.context
    values = dict(zip(function.output, call.outputs, strict=False))
    values.update(zip(function.input, [*call.inputs, *[""] * len(function.input)], strict=False))
    given = {a.name: a for a in function.attribute_proto} | dict(call.attributes)
    for k, proto in enumerate(function.node):
        copy = NodeProto()
        copy.CopyFrom(proto)
        for i, o in enumerate(proto.output):
            if o and not values.get(o):
                values[o] = context.fresh(f"{str_name(call)}/{o}")
            copy.output[i] = values[o] if o else ""
        for i, v in enumerate(proto.input):
            copy.input[i] = values[v] if v else ""
        if proto.name or call.name:
            copy.name = context.fresh_node(f"{str_name(call)}/{proto.name or proto.op_type}")
        attributes = list(filled(proto, given))
        del copy.attribute[:]
        copy.attribute.extend(attributes)
        node = Node(
            (domain_of(proto.domain), proto.op_type),
            list(copy.input),
            list(copy.output),
            (*call.order, k),
            attributes={a.name: a for a in copy.attribute},
            name=copy.name,
            proto=copy,
        )
        node.original = False
        node.origin = Origin((node,))
        yield node
