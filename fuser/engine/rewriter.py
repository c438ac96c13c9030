"""The one place that changes a graph: whole rewrites or nothing, each of which can be taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from fuser.engine.match import match
from fuser.engine.mismatch import Mismatch
from fuser.engine.plan import Declined, Plan, plan

if TYPE_CHECKING:
    from fuser.engine.bind import Match
    from fuser.engine.compiled import CompiledRule
    from fuser.engine.graph import Graph
    from fuser.engine.node import Node


class Applied(NamedTuple):
    """One rewrite that was made: enough to report it and to take it back."""

    rule: CompiledRule
    removed: tuple[Node, ...]
    added: tuple[Node, ...]
    constants: tuple[str, ...]
    renamed: tuple[tuple[Node, list[str]], ...]
    output: str


@dataclass
class Rewriter:
    """Rewrites one graph. ``journal`` holds what was done, in order; ``tries`` and ``hits`` count per rule."""

    graph: Graph
    journal: list[Applied] = field(default_factory=list)
    tries: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)

    def rewrite(self, rule: CompiledRule, root: Node) -> Applied | Mismatch:
        """Put the rule's rewrite in place of its pattern at ``root``, or say why not; nothing is half-done."""
        self.tries[rule.id] += 1
        plans: list[Plan] = []

        def accept(found: Match) -> Match | Mismatch:
            try:
                plans.append(plan(found, self.graph))
            except Declined as e:
                return e.mismatch
            return found

        found = match(rule, root, self.graph, accept)
        if isinstance(found, Mismatch):
            return found
        applied = self._apply(found, plans[-1])
        self.journal.append(applied)
        self.hits[rule.id] += 1
        return applied

    def replace(self, node: Node, by: Sequence[Node]) -> None:
        """Put nodes that compute the same in a node's place; this is not taken back."""
        self.replace_all((node,), by)

    def replace_all(self, nodes: Collection[Node], by: Sequence[Node]) -> None:
        """Put nodes in the place of others that compute the same; this is not taken back."""
        self._detach(nodes)
        self._attach(by)

    def undo(self, mark: int) -> None:
        """Take back every rewrite made since the journal had ``mark`` entries."""
        while len(self.journal) > mark:
            done = self.journal.pop()
            self.hits[done.rule.id] -= 1
            self._detach(done.added)
            for node, inputs in done.renamed:
                self.graph.reads_no_more(node, node.inputs)
                node.inputs = inputs
                self.graph.reads(node, inputs)
            for name in done.constants:
                del self.graph.made_constants[name]
                self.graph.local.discard(name)
                self.graph.constants.pop(name, None)
            self._attach(done.removed)

    def _apply(self, match: Match, plan: Plan) -> Applied:
        graph = self.graph
        removed = tuple(match.nodes.values())
        self._detach(removed)
        for name, const in plan.constants.items():
            graph.made_constants[name] = const
            graph.local.add(name)
            graph.constants[name] = const
        self._attach(plan.nodes)
        renamed = [(node, node.inputs) for node in plan.readers]
        for node, inputs in renamed:
            graph.reads_no_more(node, inputs)
            node.inputs = [plan.aliases.get(v, v) for v in inputs]
            graph.reads(node, node.inputs)
        output = match.values[match.rule.pattern.outputs[0]]
        return Applied(match.rule, removed, tuple(plan.nodes), tuple(plan.constants), tuple(renamed), output)

    def _detach(self, nodes: Collection[Node]) -> None:
        """Take nodes out: all their reads first, since a value that has no producer any more is nobody's here."""
        graph = self.graph
        for node in nodes:
            graph.reads_no_more(node, node.inputs)
            graph.left.update(node.inputs)
        for node in nodes:
            for o in node.outputs:
                if graph.producer.get(o) is node:
                    del graph.producer[o]
                    graph.local.discard(o)
            if node.original:
                graph.removed.add(node)
            else:
                graph.added.pop(node, None)

    def _attach(self, nodes: Collection[Node]) -> None:
        """Put nodes in: all their outputs first, for the same reason."""
        graph = self.graph
        for node in nodes:
            if node.original:
                graph.removed.discard(node)
            else:
                graph.added[node] = None
            for o in node.outputs:
                if o:
                    graph.producer[o] = node
                    graph.local.add(o)
        for node in nodes:
            graph.reads(node, node.inputs)
