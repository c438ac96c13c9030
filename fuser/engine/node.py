"""A node as the engine sees it: one of the model's, or one a rewrite made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from onnx import AttributeProto

if TYPE_CHECKING:
    from onnx import NodeProto

Kind = tuple[str, str]
"""Domain and operator; the default domain is ``""`` however the model spells it."""


def domain_of(domain: str) -> str:
    """The domain's one spelling: ``ai.onnx`` is the default domain, ``""``."""
    return "" if domain == "ai.onnx" else domain


class Origin:
    """Where a rewritten node comes from: the model's own nodes it stands for, and the rules that led here.

    What is joined is listed only when it is asked for: many rewrites in a row would else copy ever longer lists.
    """

    __slots__ = ("_nodes", "_parts", "_rules")

    def __init__(self, nodes: tuple[Node, ...] = (), rules: tuple[str, ...] = ()) -> None:
        self._nodes = nodes
        self._rules = rules
        self._parts: tuple[Origin, ...] = ()

    @classmethod
    def joined(cls, *origins: Origin) -> Origin:
        """All of them, in order, each node and each rule once."""
        out = cls()
        out._parts = origins
        return out

    def __add__(self, other: Origin) -> Origin:
        """Both origins, in order, each node and each rule once."""
        return Origin.joined(self, other)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The model's own nodes."""
        self._list()
        return self._nodes

    @property
    def rules(self) -> tuple[str, ...]:
        """The ids of the rules."""
        self._list()
        return self._rules

    def _list(self) -> None:
        if self._parts:
            nodes: dict[Node, None] = {}
            rules: dict[str, None] = {}
            stack = [*reversed(self._parts)]
            while stack:
                origin = stack.pop()
                nodes.update(dict.fromkeys(origin._nodes))
                rules.update(dict.fromkeys(origin._rules))
                stack += reversed(origin._parts)
            self._nodes, self._rules, self._parts = tuple(nodes), tuple(rules), ()


NOWHERE = Origin()
NO_PARTS: Mapping[str, Node] = {}


class Node:
    """One node of one graph; equality is identity.

    ``order`` sorts nodes topologically: the model's node *i* is ``(i,)``, one node that replaces it too, several are ``(i, 0)``,
    ``(i, 1)`` …
    ``op_type`` is the operator's name without its domain. ``original`` says that the model's graph holds it; what a rewrite
    made, or an opened call, is added to the graph.
    ``label`` is its label in the rewrite that made it, ``parts`` the nodes of that match by label.
    ``attributes`` are those that the node itself gives, by name. ``proto`` is the model's message, or None for a node that
    a rewrite made and that is not written yet.
    """

    __slots__ = ("attributes", "inputs", "kind", "label", "live", "name", "op_type", "order", "origin",
                 "original", "outputs", "parts", "proto")  # fmt: skip

    def __init__(
        self,
        kind: Kind,
        inputs: list[str],
        outputs: list[str],
        order: tuple[int, ...],
        *,
        attributes: Mapping[str, AttributeProto],
        name: str = "",
        proto: NodeProto | None = None,
    ) -> None:
        self.kind = kind
        self.op_type = kind[1]
        self.original = proto is not None
        self.inputs = inputs
        self.outputs = outputs
        self.order = order
        self.name = name
        self.proto = proto
        self.attributes = attributes
        self.live = True
        self.origin = NOWHERE if proto is None else Origin((self,))
        self.label = ""
        self.parts = NO_PARTS

    def __repr__(self) -> str:
        return f"{self.op_type} {str_name(self)!r}"


def renamed(attribute: AttributeProto, name: str) -> AttributeProto:
    """The attribute under another name."""
    out = AttributeProto()
    out.CopyFrom(attribute)
    out.name = name
    return out


def str_name(node: Node) -> str:
    """What people call the node: its name, or the first value it makes where it has none."""
    return node.name or next((o for o in node.outputs if o), "")
