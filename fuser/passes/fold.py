"""Fold: what scales and shifts per channel joins the weights of the Conv, ConvTranspose or Gemm beside it.

From each anchor the pass walks down to the first affine operator, past what it may pass (Identity, Cast, Transpose …).
There the operator becomes fuser.Affine, moves up step by step, and is folded. Where a step declines, all of them are taken
back, so that what is not folded stands exactly as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuser.engine.compiled import INTERNAL
from fuser.engine.mismatch import Mismatch
from fuser.engine.node import str_name
from fuser.engine.rewriter import Applied
from fuser.passes.site import BATCHNORM, FARTHEST, Work, added

if TYPE_CHECKING:
    from fuser.engine.node import Node


def fold(work: Work) -> None:
    """Fold until nothing folds: for each anchor what follows it first, then what precedes it."""
    anchors = [
        n
        for n in work.graph.live_nodes()
        if n.kind in work.rules.anchors
        and work.graph.constant(n.outputs[0]) is None  # not arithmetic on weights
    ]
    folded = [_fold_below(work, anchor) for anchor in anchors]
    for anchor in folded:
        _fold_above(work, anchor)


def _fold_below(work: Work, anchor: Node) -> Node:
    """Fold every affine operator that follows the anchor; gives what stands in the anchor's place then."""
    while True:
        affine = _next_affine(work, anchor)
        if affine is None:
            return anchor
        mark = len(work.rewriter.journal)
        done = _pull(work, affine, anchor)
        if not isinstance(done, Applied):
            work.rewriter.undo(mark)
            if done is not None and _worth_telling(work, affine):
                work.decline(done, affine)
            return anchor
        # what the fold put in the anchor's place, perhaps Gemm for MatMul
        anchor = work.graph.producer[done.output]


def _next_affine(work: Work, anchor: Node) -> Node | None:
    """The first affine operator below the anchor, past what it may pass; None, and told, where others read what lies between."""
    graph, rules = work.graph, work.rules
    value = anchor.outputs[0]
    shared: tuple[str, Node] | None = None
    for _ in range(FARTHEST):
        reader = graph.sole_reader(value)
        if reader is None:
            reader = _one_of_the_readers(work, value)
            if reader is not None:
                shared = shared or (value, reader)
        if reader is None or value not in reader.inputs:
            return None
        if reader.kind in rules.affine:
            if shared is None:
                return reader
            _tell_other_readers(work, anchor, reader, *shared)
            return None
        if reader.kind not in rules.affine_goes_up_past:
            return None
        value = reader.outputs[0]
    return None


def _one_of_the_readers(work: Work, value: str) -> Node | None:
    """Of several readers the affine one, else one that leads to an affine one."""
    readers = work.graph.readers_of(value)
    affine = next((r for r in readers if r.kind in work.rules.affine and _worth_telling(work, r)), None)
    return affine or next((r for r in readers if r.kind in work.rules.affine_goes_up_past), None)


def _pull(work: Work, node: Node, anchor: Node) -> Applied | Mismatch | None:
    """Fold the operator straight into the anchor, or turn it into Affine, move it up to the anchor, fold it."""
    if node.kind in work.rules.fold and work.graph.producer.get(node.inputs[0]) is anchor:
        done = work.attempt(work.rules.fold[node.kind], node)
        if isinstance(done, Applied):
            return done
    done = work.attempt(work.rules.affine[node.kind], node)
    for _ in range(FARTHEST):
        affine = added(done, INTERNAL) if isinstance(done, Applied) else None
        if affine is None:
            return done
        if work.graph.producer.get(affine.inputs[0]) is anchor:
            return work.attempt(work.rules.fold.get(INTERNAL, ()), affine)
        done = work.attempt(work.rules.hoist.get(INTERNAL, ()), affine)
    return None


def _fold_above(work: Work, anchor: Node) -> None:
    """Fold the affine operators that feed the anchor, nearest first."""
    before = work.rules.fold.get(anchor.kind, ())
    while before:
        path = _path_above(work, anchor)
        if not path:
            return
        mark = len(work.rewriter.journal)
        done = _push(work, path, anchor)
        if not isinstance(done, Applied):
            work.rewriter.undo(mark)
            if done is not None and _worth_telling(work, path[-1]):
                work.decline(done, path[-1])
            return
        anchor = work.graph.producer[done.output]


def _path_above(work: Work, anchor: Node) -> list[Node]:
    """From the anchor up to the first affine operator, which is the last of them; [] where there is none to fold."""
    graph, rules = work.graph, work.rules
    passed = rules.affine_goes_down_past
    path: list[Node] = []
    value = anchor.inputs[0]
    shared = ""
    for _ in range(FARTHEST):
        node = graph.producer.get(value)
        if node is None or node.kind not in rules.affine.keys() | passed:
            return []
        if graph.sole_reader(value) is None:
            shared = value
        path.append(node)
        if node.kind in rules.affine:
            break
        value = node.inputs[0]
    else:
        return []
    if shared and path[-1].kind == BATCHNORM:
        below = next((n for n in (*path, anchor) if shared in n.inputs), anchor)
        _tell_other_reader(work, path[-1], shared, below)
    return [] if shared else path


def _push(work: Work, path: list[Node], anchor: Node) -> Applied | Mismatch | None:
    """Turn the last operator of the path into Affine, move it down past the others, fold it into the anchor."""
    done = work.attempt(work.rules.affine[path[-1].kind], path[-1])
    for node in reversed(path[:-1]):
        if not isinstance(done, Applied):
            return done
        done = work.attempt(work.rules.sink.get(node.kind, ()), node)
    return work.attempt(work.rules.fold[anchor.kind], anchor) if isinstance(done, Applied) else done


def _worth_telling(work: Work, affine: Node) -> bool:
    """A BatchNormalization always is; Mul, Add … only with a constant, since residual sums are no near miss."""
    return affine.kind == BATCHNORM or any(work.graph.constant(v) is not None for v in affine.inputs if v)


def _tell_other_readers(work: Work, anchor: Node, affine: Node, value: str, wanted: Node) -> None:
    """The affine operator below the anchor could be folded if ``wanted`` were the only reader of the value between."""
    if not _worth_telling(work, affine):
        return
    mark = len(work.rewriter.journal)
    done = work.attempt(work.rules.affine[affine.kind], affine)
    work.rewriter.undo(mark)
    if isinstance(done, Mismatch):
        work.decline(done, affine)  # it could not be folded by itself either
    _tell_other_reader(work, affine, value, wanted, anchor.op_type.lower())


def _tell_other_reader(work: Work, affine: Node, value: str, wanted: Node, label: str = "bn") -> None:
    """The affine operator could be folded if the ``wanted`` reader of the value were the only one."""
    graph = work.graph
    other = next((r for r in graph.readers_of(value) if not graph.goes_with(r, (wanted,))), None)
    if other is None:
        fact, parts = "its output {!r} is an output of the graph; the pattern needs it inside", (value,)
    else:
        fact = "its output {!r} is also read by {} {!r}; the pattern needs no other reader"
        parts = (value, other.op_type, str_name(other))  # type: ignore[assignment]
    rule, producer = work.rules.affine[affine.kind][0].id, graph.producer[value]
    work.decline(Mismatch(rule, graph, affine, label, producer, fact, parts, 2), affine)
