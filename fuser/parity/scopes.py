"""Where a value comes from: the graphs of a model, the bodies and functions in it, and who encloses whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuser.parity.source import subgraphs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto


@dataclass(frozen=True)
class Scope:
    """One graph, body or function (then ``graph`` is None). ``producers``: the index of the node that makes a
    value."""

    path: str
    nodes: Sequence[NodeProto]
    producers: Mapping[str, int]
    initializers: Mapping[str, TensorProto]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parent: Scope | None
    graph: GraphProto | None
    function: FunctionProto | None

    @property
    def depth(self) -> int:
        """0 for the main graph and for a function."""
        return 0 if self.parent is None else self.parent.depth + 1

    def owner(self, name: str) -> Scope | None:
        """The scope, this one or an enclosing one, that makes or takes the value."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.producers or name in scope.initializers or name in scope.inputs:
                return scope
            scope = scope.parent
        return None

    def place(self, name: str) -> tuple[str, int] | None:
        """The path and the index of the node that makes the value."""
        owner = self.owner(name)
        return None if owner is None or name not in owner.producers else (owner.path, owner.producers[name])


def scopes(model: ModelProto) -> dict[str, Scope]:
    """Every graph, body and function by its path, as ``Site.graph`` writes it."""
    found: dict[str, Scope] = {}
    main = _graph("", model.graph, None, None)
    pending = [main]
    for function in model.functions:
        name = f"function {function.domain}::{function.name}"
        path = f"{name}:{function.overload}" if function.overload else name
        inputs, outputs = tuple(function.input), tuple(function.output)
        pending.append(
            Scope(path, function.node, _producers(function.node), {}, inputs, outputs, None, None, function)
        )
    while pending:
        scope = pending.pop()
        found.setdefault(scope.path, scope)
        for node in scope.nodes:
            for attribute, body in subgraphs(node):
                step = f"{node.name or node.output[0]}/{attribute}"
                path = f"{scope.path}/{step}" if scope.path else step
                pending.append(_graph(path, body, scope, scope.function))
    return found


def _graph(path: str, graph: GraphProto, parent: Scope | None, function: FunctionProto | None) -> Scope:
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    inputs = tuple(value.name for value in graph.input if value.name not in initializers)
    outputs = tuple(value.name for value in graph.output)
    return Scope(
        path, graph.node, _producers(graph.node), initializers, inputs, outputs, parent, graph, function
    )


def _producers(nodes: Sequence[NodeProto]) -> dict[str, int]:
    return {name: index for index, node in enumerate(nodes) for name in node.output if name}


def used(node: NodeProto) -> Iterator[str]:
    """The values a node reads, those its bodies capture included."""
    yield from (name for name in node.input if name)
    for _, body in subgraphs(node):
        yield from captured(body)


def captured(graph: GraphProto) -> Iterator[str]:
    """The values a body takes from outside."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own.update(name for node in graph.node for name in node.output)
    for node in graph.node:
        yield from (name for name in used(node) if name not in own)
    yield from (value.name for value in graph.output if value.name not in own)


def constant(scope: Scope, name: str) -> TensorProto | None:
    """The initializer or Constant of that name, as the scope sees it."""
    owner = scope.owner(name) if name else None
    if owner is None:
        return None
    if name in owner.initializers:
        return owner.initializers[name]
    if name in owner.producers:
        node = owner.nodes[owner.producers[name]]
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            value: TensorProto = node.attribute[0].t
            return value
    return None


@dataclass(frozen=True)
class Region:
    """What computes a value from the values at its border.

    ``nodes`` are places (path, index), in an order that computes; ``free`` are graph inputs met on the way.
    """

    nodes: tuple[tuple[str, int], ...]
    initializers: Mapping[str, TensorProto]
    free: tuple[str, ...]
    missing: tuple[str, ...]


def region(scope: Scope, output: str, border: Sequence[str]) -> Region:
    """Everything that makes ``output``, going back to ``border``, constants and graph inputs."""
    seen, pending = set(border), [(output, scope)]
    places: dict[tuple[int, int], str] = {}
    initializers: dict[str, TensorProto] = {}
    free, missing = [], []
    while pending:
        name, at = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        owner = at.owner(name)
        if owner is None:
            missing.append(name)
        elif name in owner.producers:
            index = owner.producers[name]
            places[owner.depth, index] = owner.path
            pending.extend((item, owner) for item in used(owner.nodes[index]))
        elif name in owner.initializers:
            initializers[name] = owner.initializers[name]
        else:
            free.append(name)
    nodes = tuple((places[key], key[1]) for key in sorted(places))
    return Region(nodes, initializers, tuple(sorted(free)), tuple(missing))


def calls(found: Mapping[str, Scope], function: FunctionProto) -> Iterator[tuple[Scope, NodeProto]]:
    """The nodes that call a function, with where they stand."""
    for scope in found.values():
        for node in scope.nodes:
            if (node.domain, node.op_type, node.overload) == (
                function.domain,
                function.name,
                function.overload,
            ):
                yield scope, node


def bound_attributes(call: NodeProto | None, function: FunctionProto) -> dict[str, AttributeProto]:
    """The value of each of the function's attributes: the call's, else the default."""
    values = {attribute.name: attribute for attribute in function.attribute_proto}
    if call is not None:
        values.update({a.name: a for a in call.attribute if not a.ref_attr_name})
    return values
