"""Fuse: an anchor and its activation become one operator; where something stands between, the activation moves up first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuser.engine.rewriter import Applied
from fuser.passes.site import FARTHEST, Work, added

if TYPE_CHECKING:
    from fuser.engine.node import Node


def fuse(work: Work) -> None:
    """Fuse every activation with the anchor above it, once each: a fused operator is the end of the line."""
    for node in [n for n in work.graph.live_nodes() if n.kind in work.rules.fuse]:
        if work.is_in_graph(node):
            _fuse_at(work, node)


def _fuse_at(work: Work, node: Node) -> None:
    rules, mark, kind, activation = work.rules, len(work.rewriter.journal), node.kind, node
    nearest = None
    for _ in range(FARTHEST):
        done = work.attempt(rules.fuse[kind], node)
        if isinstance(done, Applied):
            return
        if nearest is None or (done is not None and not nearest.nearer_than(done)):
            nearest = done
        moved = work.attempt(rules.hoist.get(kind, ()), node)
        if not isinstance(moved, Applied):
            if moved is not None and nearest is not None and moved.nearer_than(nearest):
                nearest = moved
            break
        node = added(moved, kind) or node
    work.rewriter.undo(mark)
    if nearest is not None and nearest.is_near:
        work.decline(nearest, activation)
