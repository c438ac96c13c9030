"""Spell: other spellings of an operator become that operator."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from fuser.engine.rewriter import Applied
from fuser.errors import PatternError

if TYPE_CHECKING:
    from fuser.engine.node import Node
    from fuser.passes.site import Work

ENDLESS = 64
"""More rewrites than this for each node that a rule may begin with, and the rules feed themselves."""
WIDEST = 8
"""A value inside a match is read by the match alone, so what more nodes than this read ends every pattern."""


def spell(work: Work) -> None:
    """Apply the spelling rules to a fixed point, from a worklist: each node is looked at again only near a change."""
    rules = work.rules.spell
    if not rules:
        return
    depth = max(r.pattern.size for group in rules.values() for r in group)
    queue = deque(n for n in work.graph.live_nodes() if n.kind in rules)
    queued = set(queue)
    most = ENDLESS * (len(queue) + 1)
    while queue:
        node = queue.popleft()
        queued.discard(node)
        if not work.is_in_graph(node):
            continue
        done = work.attempt(rules[node.kind], node)
        if isinstance(done, Applied):
            most -= 1
            if most < 0:
                rule = done.rule.rule
                text = f"rule {rule.id} goes on rewriting what it makes; change its rewrite, or its pattern, so that one ends"
                raise PatternError(rule.file, rule.pattern.line, text)
            for near in _near(work, done, depth):
                if near.kind in rules and near not in queued:
                    queued.add(near)
                    queue.append(near)
        elif done is not None and done.is_near:
            work.decline(done, node)


def _near(work: Work, done: Applied, depth: int) -> list[Node]:
    """The nodes whose match may have changed: what the rewrite made, what lies below it, and below its inputs."""
    graph = work.graph
    found: dict[Node, None] = dict.fromkeys(done.added)
    values = (
        {o for n in done.added for o in n.outputs}
        | {v for n in done.removed for v in n.inputs}
        | {done.output}
    )
    for _ in range(depth):
        below: set[str] = set()
        for v in values:
            readers = graph.readers_of(v)
            if len(readers) <= WIDEST:
                for reader in readers:
                    if reader not in found:
                        found[reader] = None
                        below.update(reader.outputs)
        values = below
    return list(found)
