"""Model-local functions: which a model calls, and what a call puts into their nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from fuser.bodies import bodies
from fuser.engine.context import FUSED, function_path
from fuser.engine.node import renamed

if TYPE_CHECKING:
    from onnx import AttributeProto, ModelProto, NodeProto

Key = tuple[str, str, str]


def called_functions(model: ModelProto) -> set[Key]:
    """Domain, name and overload of every function that the main graph reaches."""
    defined = {(f.domain, f.name, f.overload): f for f in model.functions}
    if not defined:
        return set()
    called: set[Key] = set()
    work = list(_calls(model.graph.node))
    while work:
        key = work.pop()
        if key in defined and key not in called:
            called.add(key)
            work += _calls(defined[key].node)
    return called


def drop_functions(model: ModelProto, were_called: set[Key]) -> set[str]:
    """Remove the functions that were called and are not any more, unless they are fused operators; gives their paths."""
    if not were_called:
        return set()
    gone = {key for key in were_called - called_functions(model) if key[0] != FUSED}
    dropped = [f for f in model.functions if (f.domain, f.name, f.overload) in gone]
    paths = {function_path(f) for f in dropped}
    for function in dropped:
        model.functions.remove(function)
    return paths


def _calls(nodes: Iterable[NodeProto]) -> Iterator[Key]:
    for node in nodes:
        if node.domain not in ("", "ai.onnx"):
            yield (node.domain, node.op_type, node.overload)
        for graph in bodies(node):
            yield from _calls(graph.node)


def filled(body: NodeProto, given: Mapping[str, AttributeProto]) -> Iterator[AttributeProto]:
    """A node's attributes with references to the call's filled in; what the call leaves out stays out."""
    for a in body.attribute:
        if not a.ref_attr_name:
            yield a
        elif a.ref_attr_name in given:
            yield renamed(given[a.ref_attr_name], a.name)
