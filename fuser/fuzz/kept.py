"""What a rewrite did not touch must come out field for field as it went in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from fuser.bodies import bodies
from fuser.fuzz.models import LOCAL

if TYPE_CHECKING:
    from fuser.pipeline import Rewritten

Graph = GraphProto | FunctionProto
FIELDS = ("producer_name", "producer_version", "domain", "model_version", "doc_string", "metadata_props")


def lost(before: ModelProto, after: ModelProto, done: Rewritten) -> list[str]:
    """What is missing or different without a rewrite that says so, a sentence each."""
    found = [
        f"the model's {name} is not what it was"
        for name in FIELDS
        if getattr(before, name) != getattr(after, name)
    ]
    imports = {(o.domain, o.version) for o in after.opset_import}
    found += [
        f"opset import {o.domain!r} is lost"
        for o in before.opset_import
        if (o.domain, o.version) not in imports
    ]
    if before.graph.doc_string != after.graph.doc_string or before.graph.name != after.graph.name:
        found.append("the graph's name or doc_string is not what it was")
    if list(before.graph.output) != list(after.graph.output):
        found.append("the graph's outputs are not what they were")
    inputs = {v.name: v for v in after.graph.input}
    defaults = {t.name for t in before.graph.initializer}
    found += [
        f"input {v.name!r} is lost"
        for v in before.graph.input
        if v.name not in defaults and inputs.get(v.name) != v
    ]
    touched = {n for r in done.rewrites for n in r.nodes}
    for name, one, other in _pairs(before, after):
        found += [f"{name}: {text}" for text in _lost_in(one, other, touched)]
    return found


def _pairs(before: ModelProto, after: ModelProto) -> Iterator[tuple[str, Graph, Graph]]:
    """The graphs of both models that correspond; functions that are called under their name still."""
    yield "main", before.graph, after.graph
    functions = {(f.domain, f.name, f.overload): f for f in after.functions}
    for f in before.functions:
        other = functions.get((f.domain, f.name, f.overload))
        if other is not None:
            yield f.name, f, other


def _lost_in(
    one: Graph, other: Graph, touched: set[str], around: frozenset[str] = frozenset()
) -> Iterator[str]:
    """``around`` are the constants of the graphs around this one."""
    after = {n.output[0]: n for n in other.node}
    constant, live = _constant(one, around), _live(one)
    kept: list[str] = []
    whole: set[str] = set()
    for node in one.node:
        there = after.get(node.output[0])
        name = node.name or node.output[0]
        if there is None:
            if (
                name not in touched
                and node.domain != LOCAL
                and node.output[0] not in constant
                and node.output[0] in live
            ):
                yield f"{node.op_type} {name!r} is lost"
        elif _bare(node) == _bare(there):
            kept.append(node.output[0])
            if node == there:
                whole.add(node.output[0])
            for a, b in zip(bodies(node), bodies(there), strict=True):
                yield from _lost_in(a, b, touched, constant)
        elif node.domain != LOCAL and all(e.key != "fuser.rule" for e in there.metadata_props):
            yield f"{node.op_type} {name!r} is not what it was"
    if kept != [n.output[0] for n in other.node if n.output[0] in set(kept)]:
        yield "the nodes are in another order"
    if isinstance(one, GraphProto) and isinstance(other, GraphProto):
        yield from _lost_weights(one, other, whole)


def _lost_weights(one: GraphProto, other: GraphProto, whole: set[str]) -> Iterator[str]:
    """Initializers that nobody reads, or that a node reads which is as it was, are as they were."""
    after = {t.name: t for t in other.initializer}
    readers: dict[str, bool] = {}
    for node in one.node:
        for v in _read(node):
            readers[v] = readers.get(v, False) or node.output[0] in whole
    for tensor in one.initializer:
        if readers.get(tensor.name, True) and after.get(tensor.name) != tensor:
            yield f"initializer {tensor.name!r} is lost or not what it was"


def _read(node: NodeProto) -> Iterator[str]:
    """What the node and the bodies in it read."""
    yield from node.input
    for body in bodies(node):
        yield from (o.name for o in body.output)
        for inner in body.node:
            yield from _read(inner)


def _bare(node: NodeProto) -> NodeProto:
    """The node without its bodies, which are compared for themselves."""
    bare = NodeProto()
    bare.CopyFrom(node)
    for a in bare.attribute:
        if a.type == AttributeProto.GRAPH:
            a.ClearField("g")
    return bare


def _constant(graph: Graph, around: frozenset[str]) -> frozenset[str]:
    """The values that are the same on every run."""
    known = {*around, *(t.name for t in graph.initializer)} if isinstance(graph, GraphProto) else set()
    for node in graph.node:
        asked = node.input[:1] if node.op_type == "CastLike" else node.input
        if all(v in known or not v for v in asked) and not any(bodies(node)):
            known.update(node.output)
    return frozenset(known)


def _live(graph: Graph) -> set[str]:
    """The first outputs of the nodes that reach an output."""
    outputs: Iterable[str] = (
        graph.output if isinstance(graph, FunctionProto) else (o.name for o in graph.output)
    )
    wanted, live = set(outputs), set[str]()
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            live.add(node.output[0])
            wanted.update(_read(node))
    return live
