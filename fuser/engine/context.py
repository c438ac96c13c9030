"""What all graphs of one model share while it is rewritten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fuser.engine.graph import Graph
from fuser.engine.node import domain_of
from fuser.engine.shapes import Shapes

if TYPE_CHECKING:
    from fuser.engine.node import Node
    from fuser.storage import StoredModel


FUSED = "fuser"
"""The domain of the fused operators; their definitions are nobody's graph to fuse in."""


class Context:
    """The model, the names it uses, and its graphs.

    ``freeze`` says that no caller overrides initializers that are also graph inputs.
    """

    def __init__(self, stored: StoredModel, *, freeze: bool = False) -> None:
        self.stored = stored
        self.freeze = freeze
        self.names: set[str] = set()
        self.node_names: set[str] = set()
        self._suffixes: dict[str, int] = {}
        self._node_suffixes: dict[str, int] = {}
        self.depth = 0
        self.shapes = Shapes(self)
        proto = stored.proto
        self.ir_version = proto.ir_version
        self.opsets = {domain_of(o.domain): o.version for o in proto.opset_import}
        self.functions_by_key = {
            (f.domain, f.name, f.overload): f for f in proto.functions if f.domain != FUSED
        }
        self.main = Graph(self, proto.graph)
        self.functions = [Graph(self, f, function_path(f)) for f in proto.functions if f.domain != FUSED]

    def overridable(self, graph: Graph, value: str) -> bool:
        """Whether a caller may give the initializer another value: from IR 4 on, when it is a graph input too."""
        return not self.freeze and self.ir_version >= 4 and graph is self.main and value in graph.inputs

    def graphs(self) -> Iterator[Graph]:
        """Every graph of the model: main, bodies, functions; outermost first."""
        yield from self.main
        for f in self.functions:
            yield from f

    def fresh(self, wish: str) -> str:
        """A value name that nothing in the model has, as near to ``wish`` as can be; it is taken from now on."""
        return _fresh(self.names, self._suffixes, wish)

    def fresh_node(self, wish: str) -> str:
        """A node name that nothing in the model has."""
        return _fresh(self.node_names, self._node_suffixes, wish)


def _fresh(taken: set[str], suffixes: dict[str, int], wish: str) -> str:
    name = wish
    if name in taken:
        n = suffixes.get(wish, 1)  # those below are taken: names are never given back
        while name in taken:
            name, n = f"{wish}_{n}", n + 1
        suffixes[wish] = n
    taken.add(name)
    return name


def function_path(function: object) -> str:
    """``function domain::name``, with ``:overload`` where there is one."""
    overload = getattr(function, "overload", "")
    return f"function {getattr(function, 'domain', '')}::{getattr(function, 'name', '')}" + (
        f":{overload}" if overload else ""
    )


def function_key(node: Node) -> tuple[str, str, str]:
    """Domain, name and overload of the function that a node would call."""
    return (*node.kind, node.proto.overload if node.proto is not None else "")
