"""Which model-local functions a model calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from fuser.engine.context import FUSED, function_path

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Key = tuple[str, str, str]


def called_functions(model: ModelProto) -> set[Key]:
    """Domain, name and overload of every function that the main graph reaches."""
    bodies = {(f.domain, f.name, f.overload): f for f in model.functions}
    if not bodies:
        return set()
    called: set[Key] = set()
    work = list(_calls(model.graph.node))
    while work:
        key = work.pop()
        if key in bodies and key not in called:
            called.add(key)
            work += _calls(bodies[key].node)
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
        for a in node.attribute:
            for graph in (a.g,) if a.HasField("g") else a.graphs:
                yield from _calls(graph.node)
