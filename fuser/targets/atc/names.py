"""The names ATC gives to nodes without one and to what is no node in ONNX, and where a model's names collide.

Every graph input becomes a node called like the input, every named initializer one called
``<name>_Initializer_<i>`` (i: its place among the initializers' names in byte order), and an unnamed node is
called ``<op_type>_<i>`` (i: one count over the unnamed nodes of the model, outer graphs before branches).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from onnx import AttributeProto

from fuser.bodies import bodies
from fuser.targets.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import GraphProto, ModelProto


@dataclass(frozen=True)
class Scope:
    """One graph ATC parses: the main one or a branch of an If, with the names its nodes end up with."""

    graph: GraphProto
    names: tuple[str, ...]  # one for each node
    outer: Scope | None


def scopes(model: ModelProto) -> tuple[Scope, ...]:
    """Every graph ATC parses, outer ones first. Bodies of Loop and Scan are not: ATC refuses the node."""
    numbers = count()
    found: list[Scope] = []
    todo: list[tuple[GraphProto, Scope | None]] = [(model.graph, None)]
    for graph, outer in todo:  # grows while it is read: breadth first, the order in which ATC counts
        names = tuple(node.name or f"{node.op_type}_{next(numbers)}" for node in graph.node)
        scope = Scope(graph, names, outer)
        found.append(scope)
        todo.extend((branch, scope) for branch in branches(graph))
    return tuple(found)


def branches(graph: GraphProto) -> Iterator[GraphProto]:
    """The subgraphs of this graph's If nodes."""
    for node in graph.node:
        if node.op_type == "If":
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    yield attribute.g


def generated(graph: GraphProto) -> dict[str, str]:
    """The nodes ATC adds to a graph: node name → what it stands for."""
    constants = sorted({tensor.name for tensor in graph.initializer if tensor.name}, key=str.encode)
    known = set(constants)
    added = {value.name: f"graph input {value.name!r}" for value in graph.input if value.name not in known}
    for i, name in enumerate(constants):
        added[f"{name}_Initializer_{i}"] = f"initializer {name!r}"
    return added


def check_names(scope: Scope) -> Iterator[Finding]:
    """E13009 for every name that two nodes of one graph end up with, and a note on nodes without one."""
    taken = generated(scope.graph)
    unnamed = 0
    for node, name in zip(scope.graph.node, scope.names, strict=True):
        automatic = "" if node.name else " that ATC gives to an unnamed node"
        unnamed += not node.name
        if name in taken:
            yield Finding(
                "E13009",
                "error",
                name,
                f"{node.op_type} has the name {name!r}{automatic}, which is also that of {taken[name]}",
                "give every node a name of its own; `onnx-fuser optimize --target atc` does",
                "duplicate-name",
            )
        else:
            taken[name] = f"{node.op_type} {name!r}"
    if unnamed:
        yield Finding(
            None,
            "note",
            "",
            f"{unnamed} nodes have no name; ATC numbers them, which changes when the model does",
            "name them where --out_nodes or a precision list shall address them",
            "unnamed-nodes",
        )


def name_uniquely(model: ModelProto) -> None:
    """Give every node, in place, a name that no other node has, no input, and no constant once ATC named it.

    A name that is nobody else's stays; of two nodes with one name the first keeps it. Unnamed nodes get the
    name that ATC would give them, or the next that is free.
    """
    graphs = tuple(all_graphs(model.graph))
    nodes = [node for graph in graphs for node in graph.node]
    taken = {name for graph in graphs for name in generated(graph)}
    present = {node.name for node in nodes}
    counts: dict[str, count[int]] = {}
    unnamed = count()
    for node in nodes:
        if not node.name:
            node.name = next(
                name for i in unnamed if (name := f"{node.op_type}_{i}") not in taken and name not in present
            )
        elif node.name in taken:
            numbers = counts.setdefault(node.name, count(1))
            node.name = next(
                name for i in numbers if (name := f"{node.name}_{i}") not in taken and name not in present
            )
        taken.add(node.name)


def all_graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and those inside its nodes, outer ones first."""
    yield graph
    for node in graph.node:
        for inner in bodies(node):
            yield from all_graphs(inner)
