"""What a pass works on: one graph, its rewriter, the rules, and the reasons gathered on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuser.engine.rewriter import Applied, Rewriter

if TYPE_CHECKING:
    from fuser.engine.compiled import CompiledRule
    from fuser.engine.graph import Graph
    from fuser.engine.mismatch import Mismatch
    from fuser.engine.node import Kind, Node
    from fuser.passes.rules import Rules

BATCHNORM = ("", "BatchNormalization")
FARTHEST = 16
"""An operator moves past at most so many others, and an anchor that lies further away is not within reach."""


@dataclass
class Work:
    """One graph while the passes run over it."""

    graph: Graph
    rules: Rules
    rewriter: Rewriter
    standard: bool = False  # write fused operators as the standard ones they are made of
    declined: list[tuple[Mismatch, Node]] = field(
        default_factory=list
    )  # each with the node that it keeps in the graph
    opened: list[tuple[Node, tuple[tuple[Node, tuple[str, ...]], ...]]] = field(default_factory=list)
    """Calls that were opened, each with the nodes put in its place and their inputs."""
    closed: set[tuple[str, str, str]] = field(default_factory=set)  # functions in which everything fused
    everything: list[Mismatch] | None = None  # all mismatches, when one node's whole story is asked for

    def attempt(self, rules: Iterable[CompiledRule], node: Node) -> Applied | Mismatch | None:
        """The first rule that applies at the node, else the nearest miss; None where there is no rule to try."""
        nearest: Mismatch | None = None
        for rule in rules:
            done = self.rewriter.rewrite(rule, node)
            if isinstance(done, Applied):
                return done
            if self.everything is not None:
                self.everything.append(done)
            if nearest is None or done.nearer_than(nearest):
                nearest = done
        return nearest

    def decline(self, mismatch: Mismatch, subject: Node) -> None:
        """Note a near miss for the report: it is the reason why ``subject`` stays, should it stay."""
        self.declined.append((mismatch, subject))

    def is_in_graph(self, node: Node) -> bool:
        """Whether the node has not been replaced."""
        return node.live and node not in self.graph.removed and (node.original or node in self.graph.added)


def added(applied: Applied, kind: Kind) -> Node | None:
    """The node of this operator that a rewrite made."""
    return next((n for n in applied.added if n.kind == kind), None)
