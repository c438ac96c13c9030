"""What nobody reads any more once a graph was rewritten: initializers, weight-side nodes, and nodes that reach no output."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuser.engine.graph import Graph


def unread(changed: list[Graph]) -> dict[int, set[str]]:
    """The initializers, and the outputs of weight-side nodes, that lost their last reader; by the graph they are in.

    Weight-side nodes that nobody reads are removed from their graphs on the way.
    """
    gone: dict[int, set[str]] = {}
    by_the_dead: dict[int, frozenset[str]] = {}
    work = [(g, {v for v in g.left if v}) for g in changed]
    while work:
        graph, values = work.pop()
        here = values & graph.local
        if len(here) < len(values) and graph.parent is not None:
            work.append((graph.parent, values - here))
        if id(graph) not in by_the_dead:
            by_the_dead[id(graph)] = _read_by_the_dead(graph)
        idle = {v for v in here if not graph.readers.get(v)} - graph.outputs - by_the_dead[id(graph)]
        lost = idle & graph.initializers.keys()
        for value in idle - lost:
            node = graph.producer.get(value)
            if (
                node is None
                or not node.live
                or any(graph.readers_of(o) or o in graph.outputs for o in node.outputs)
            ):
                continue
            for o in node.outputs:
                graph.producer.pop(o, None)
                graph.local.discard(o)
            graph.reads_no_more(node, node.inputs)
            if node.original:
                graph.removed.add(node)
            graph.added.pop(node, None)
            lost.update(node.outputs)
            work.append((graph, {v for v in node.inputs if v}))
        if lost:
            gone.setdefault(id(graph), set()).update(lost)
    return gone


def _read_by_the_dead(graph: Graph) -> frozenset[str]:
    """What nodes read that reach no output: they stay, so what they read stays."""
    return frozenset(v for n in graph.nodes if not n.live for v in n.inputs)


def stranded_in(graph: Graph, removed: set[str]) -> set[int]:
    """Nodes that reach no output and read a value that a rewrite took away, here or in a graph around."""
    stranded: set[int] = set()
    lost: set[str] = set()
    for node in graph.nodes if removed else ():
        if not node.live and any(v in lost or (v in removed and graph.home(v) is None) for v in node.inputs):
            stranded.add(id(node.proto))
            lost.update(node.outputs)
    return stranded
