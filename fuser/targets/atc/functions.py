"""Local functions inlined, by onnx's inliner, with node names that tell which call a node came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import FunctionProto, ModelProto, inliner

from fuser.bodies import bodies
from fuser.targets.atc.convert import apply_edits
from fuser.targets.atc.opset import keeps_meaning

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from onnx import NodeProto

_Functions = dict[tuple[str, str, str], FunctionProto]


def inline(model: ModelProto, keep: Collection[tuple[str, str]] = ()) -> ModelProto:
    """A model without the functions that could be inlined, but for those of ``keep`` (domain and name).

    Inlined nodes are called ``<call>/<name in the function>``. A function whose opset is another than the
    model's is moved to the model's first where its operators mean the same there; where they don't, it and
    its calls stay.
    """
    if not model.functions:
        return model
    version = next((e.version for e in model.opset_import if e.domain in {"", "ai.onnx"}), None)
    prepared = ModelProto()
    prepared.CopyFrom(model)
    for function in prepared.functions:
        if version is not None:
            move(function, version)
    functions = {_key(f): FunctionProto.FromString(f.SerializeToString()) for f in prepared.functions}
    stay = {key for key, f in functions.items() if key[:2] in keep or not _at(f, version)}
    called = {key: f for key, f in functions.items() if key not in stay}
    # The inliner takes functions of the model's opset only, and what it does not know for an operator.
    del prepared.functions[:]
    prepared.functions.extend(called.values())
    result = inliner.inline_local_functions(prepared)
    names = _expanded_names(prepared.graph.node, called, "")
    for node, name in zip(_flat(result.graph.node), names, strict=True):
        node.name = name
    result.functions.extend(functions[key] for key in functions if key in _needed(functions, stay))
    return result


def _key(function: FunctionProto) -> tuple[str, str, str]:
    return function.domain, function.name, function.overload


def _at(function: FunctionProto, version: int | None) -> bool:
    return all(e.version == version for e in function.opset_import if e.domain in {"", "ai.onnx"})


def _needed(functions: _Functions, stay: set[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """Functions that stay, and those they call."""
    needed: set[tuple[str, str, str]] = set()
    todo = list(stay)
    while todo:
        key = todo.pop()
        if key in functions and key not in needed:
            needed.add(key)
            todo += [(n.domain, n.op_type, n.overload) for n in _flat(functions[key].node)]
    return needed


def move(function: FunctionProto, version: int) -> None:
    """Put a function at the model's opset, in place, where its operators mean the same there."""
    for entry in function.opset_import:
        if entry.domain in {"", "ai.onnx"} and entry.version != version:
            nodes = [node for node in _flat(function.node) if node.domain in {"", "ai.onnx"}]
            edits = [keeps_meaning(node, entry.version, version, {}) for node in nodes]
            if all(edit is not None for edit in edits):
                for node, edit in zip(nodes, edits, strict=True):
                    apply_edits(node, edit or {})
                entry.version = version


def _flat(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Nodes and those of their subgraphs, each before what is inside it."""
    for node in nodes:
        yield node
        for graph in bodies(node):
            yield from _flat(graph.node)


def _expanded_names(nodes: Iterable[NodeProto], functions: _Functions, prefix: str) -> Iterator[str]:
    """Names for the nodes that inlining puts in these nodes' places, in the same order."""
    for node in nodes:
        called = functions.get((node.domain, node.op_type, node.overload))
        if called is not None:
            call = node.name or node.op_type
            yield from _expanded_names(called.node, functions, f"{prefix}{call}/")
            continue
        yield f"{prefix}{node.name or node.op_type}" if prefix else node.name
        for graph in bodies(node):
            yield from _expanded_names(graph.node, functions, prefix)
