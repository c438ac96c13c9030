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
    work = []
    for graph in changed:  # initializers, which are most of it, at once
        dead = by_the_dead[id(graph)] = _read_by_the_dead(graph)
        initializers, readers, outputs = graph.initializers, graph.readers, graph.outputs
        own = {v for v in graph.left if v in initializers and not readers.get(v)} - outputs - dead
        if own:
            gone[id(graph)] = own
        work += [(graph, v) for v in graph.left if v and v not in own]
    while work:
        graph, value = work.pop()
        home = graph.home(value)
        if home is None or home.readers_of(value) or value in home.outputs:
            continue
        if id(home) not in by_the_dead:
            by_the_dead[id(home)] = _read_by_the_dead(home)
        if value in by_the_dead[id(home)]:
            continue
        if value in home.initializers:
            gone.setdefault(id(home), set()).add(value)
            continue
        node = home.producer.get(value)
        if (
            node is None
            or not node.live
            or any(home.readers_of(o) or o in home.outputs for o in node.outputs)
        ):
            continue
        for o in node.outputs:
            home.producer.pop(o, None)
            home.local.discard(o)
        home.reads_no_more(node, node.inputs)
        if node.original:
            home.removed.add(node)
        home.added.pop(node, None)
        gone.setdefault(id(home), set()).update(node.outputs)
        work += [(home, v) for v in node.inputs if v]
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
