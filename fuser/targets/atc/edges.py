"""Values: what is read is produced, once, and nothing is left out where the plugin counts on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuser.targets.atc.facts import expands, table
from fuser.targets.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import NodeProto

    from fuser.targets.atc.names import Scope


def check_edges(scope: Scope) -> Iterator[Finding]:
    """E18888, E19999 for values produced twice or never, E16001 for a graph without outputs."""
    graph = scope.graph
    if not graph.output:
        yield Finding(
            "E16001", "error", "", "the graph has no output", "declare what it computes", "no-output"
        )
    own = _produced_before(scope)
    for node, name in zip(graph.node, scope.names, strict=True):
        for value in node.output:
            if value in own:
                yield Finding(
                    "E18888",
                    "error",
                    name,
                    f"{node.op_type} produces {value!r}, which {own[value]} also produces",
                    "give every value one producer",
                    "produced-twice",
                )
            elif value:
                own[value] = f"node {name!r}"
    visible = set(own)
    outer = scope.outer
    while outer is not None:
        visible.update(_produced_before(outer))
        visible.update(value for node in outer.graph.node for value in node.output)
        outer = outer.outer
    for node, name in zip(graph.node, scope.names, strict=True):
        for value in node.input:
            if value and value not in visible:
                yield Finding(
                    "E19999",
                    "error",
                    name,
                    f"{node.op_type} reads {value!r}, which nothing produces",
                    "check how the model was cut, or leave the input out if it is optional",
                    "dangling-input",
                )
        if "" in node.input:
            yield from _holes(node, name)
    yield from _unnamed_outputs(scope)
    for output in graph.output:
        if output.name not in visible:
            yield Finding(
                "E19999",
                "error",
                "",
                f"graph output {output.name!r} is produced by nothing",
                "check how the model was cut",
                "dangling-output",
            )


def _unnamed_outputs(scope: Scope) -> Iterator[Finding]:
    nodes = scope.graph.node
    unused = next((name for node, name in zip(nodes, scope.names, strict=True) if "" in node.output), None)
    if unused is not None and any("" in node.input for node in nodes):
        yield Finding(
            None,
            "warning",
            unused,
            "an output has no name, and elsewhere an input has none; ATC may take them for one value",
            "name the output; `onnx-fuser optimize --target atc` drops empty names at the end",
            "empty-output",
        )


def _produced_before(scope: Scope) -> dict[str, str]:
    """Values that are there before any node ran: value → what produces it."""
    produced = {value.name: "graph input" for value in scope.graph.input}
    produced.update({tensor.name: "initializer" for tensor in scope.graph.initializer if tensor.name})
    produced.update({tensor.values.name: "initializer" for tensor in scope.graph.sparse_initializer})
    return {value: f"{kind} {value!r}" for value, kind in produced.items()}


def _holes(node: NodeProto, name: str) -> Iterator[Finding]:
    holes = table()["holes"]
    trailing = node.input[-1] == ""
    where = "a trailing empty input" if trailing else "an input left out"
    fix = (
        "drop the empty names at the end; `onnx-fuser optimize --target atc` does" if trailing else "write it"
    )
    if node.op_type in holes["fatal"]:
        message = f"{node.op_type} has {where}; its plugin counts it, and there is nothing to connect"
        yield Finding("E19999", "error", name, message, fix, "empty-input")
    elif expands(node.op_type) and node.op_type not in holes["handled"]:
        message = f"{node.op_type} has {where}; its plugin may count it, and there is nothing to connect"
        yield Finding("E19999", "warning", name, message, fix, "empty-input")
