"""Runs the passes over every graph of a model and gathers what they did into a report."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from onnx import FunctionProto

from fuser.engine.commit import commit
from fuser.engine.compiled import INTERNAL
from fuser.engine.context import FUSED, Context, function_key
from fuser.engine.functions import called_functions, drop_functions
from fuser.engine.node import str_name
from fuser.engine.rewriter import Rewriter
from fuser.engine.weightside import is_same_on_every_run
from fuser.passes import PASSES, Rules, Work, fuse, sort_rules
from fuser.passes.contradictions import check
from fuser.passes.site import BATCHNORM
from fuser.report import Declined, Fusion, Rewrite, RuleCount
from fuser.report.facts import operator_name

if TYPE_CHECKING:
    from fuser.engine.mismatch import Mismatch
    from fuser.engine.node import Node
    from fuser.language import RewriteRule
    from fuser.storage import StoredModel

AFFINE = frozenset({"BatchNormalization", "Mul", "Add", "Sub", "Div"})
"""Operators that go into the weights; a Mul may also be part of an activation's spelling."""


@dataclass(frozen=True)
class Rewritten:
    """What the passes did to a model, which was changed in place."""

    rewrites: tuple[Rewrite, ...]
    fusions: tuple[Fusion, ...]
    declined: tuple[Declined, ...]
    rules: tuple[RuleCount, ...]
    seconds: dict[str, float]


def rewrite(
    stored: StoredModel,
    rules: Sequence[RewriteRule],
    *,
    freeze_inputs: bool = False,
    standard: bool = False,
    about: str | None = None,
) -> Rewritten:
    """Run all passes over all graphs of the model and write the result into ``stored.proto``.

    ``standard`` writes fused operators as the standard ones they are made of. ``about`` names a node, or a value it makes:
    then ``declined`` holds every rule that was tried there, instead of the model's near misses.

    Raises:
        ModelError: the model contradicts itself.
    """
    with _no_collection():
        return _rewrite(stored, rules, freeze_inputs, standard, about)


@contextmanager
def _no_collection() -> Iterator[None]:
    """A rewrite makes many objects that all stay until its end: looking for cycles among them takes a fifth of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _rewrite(
    stored: StoredModel, rules: Sequence[RewriteRule], freeze_inputs: bool, standard: bool, about: str | None
) -> Rewritten:
    seconds: dict[str, float] = {}
    start = time.perf_counter()
    context = Context(stored, freeze=freeze_inputs)
    sorted_rules = sort_rules(rules)
    works = [
        Work(
            graph, sorted_rules, Rewriter(graph), standard=standard, everything=None if about is None else []
        )
        for graph in context.graphs()
    ]
    for work in works:
        check(work.graph)
    seconds["read"] = time.perf_counter() - start
    rewrites: list[Rewrite] = []
    fusions: list[Fusion] = []
    seconds.update((step.name, 0.0) for step in PASSES)
    closed: set[tuple[str, str, str]] = set()
    for work in _functions_first(works):
        work.closed = closed
        for step in PASSES:
            start = time.perf_counter()
            mark = len(work.rewriter.journal)
            with np.errstate(all="ignore"):  # what is not finite is looked for, not warned of
                step.run(work)
            rewrites += [
                Rewrite(
                    step.name, done.rule.id, work.graph.path, tuple(map(str_name, done.removed)), done.output
                )
                for done in work.rewriter.journal[mark:]
            ]
            seconds[step.name] += time.perf_counter() - start
            if step.run is fuse:
                fusions += _fusions(work)
        if isinstance(work.graph.proto, FunctionProto) and _nothing_left(work):
            closed.add((work.graph.proto.domain, work.graph.proto.name, work.graph.proto.overload))
    start = time.perf_counter()
    declined = _declined(works) if about is None else _story(works, about)
    counts = _counts(works, sorted_rules)
    called = called_functions(stored.proto)
    commit(context, (d for r in sorted_rules.all for d in r.definitions))
    gone = drop_functions(stored.proto, called)
    if gone:
        fusions = [f for f in fusions if not _is_in(f.graph, gone)]
        rewrites = [r for r in rewrites if not _is_in(r.graph, gone)]
        declined = tuple(d for d in declined if not _is_in(d.graph, gone))
    seconds["commit"] = time.perf_counter() - start
    return Rewritten(tuple(rewrites), tuple(fusions), declined, counts, seconds)


def _is_in(path: str, functions: set[str]) -> bool:
    """Whether a graph is one of the functions, or a body in one."""
    return any(path == f or path.startswith(f + "/") for f in functions)


def _functions_first(works: list[Work]) -> list[Work]:
    """Functions before those that call them, as far as the model lists callees first, and all before the graphs."""
    functions = [w for w in works if w.graph.path.startswith("function ")]
    return [*functions, *(w for w in works if not w.graph.path.startswith("function "))]


def _nothing_left(work: Work) -> bool:
    """Whether a function holds nothing that might still fuse with what stands around its calls, nor do those it calls."""
    open_ended = work.rules.anchors | work.rules.fuse.keys() | {BATCHNORM}
    functions = work.graph.context.functions_by_key.keys() - work.closed
    return not any(n.kind in open_ended or function_key(n) in functions for n in work.graph.live_nodes())


def _fusions(work: Work) -> Iterator[Fusion]:
    graph = work.graph
    affine = {
        node
        for done in work.rewriter.journal
        if done.rule.folds or INTERNAL in done.rule.makes
        for node in done.removed
        if node.proto is not None and node.op_type in AFFINE
    }
    for node in sorted(graph.added, key=lambda n: n.order):
        if node.kind[0] != FUSED:
            continue
        slope, nodes = node.attributes.get("negative_slope"), node.origin.nodes
        names = tuple(map(str_name, nodes))
        yield Fusion(
            op=node.op_type,
            graph=graph.path,
            name=node.name,
            output=node.outputs[0],
            inputs=tuple([v for v in node.inputs if v and not is_same_on_every_run(graph, v)]),
            nodes=names,
            folded=tuple([name for n, name in zip(nodes, names, strict=True) if n in affine]),
            rules=node.origin.rules,
            negative_slope=None if slope is None or slope.ref_attr_name else slope.f,
            ops=tuple([operator_name(*n.kind) for n in nodes]),
        )


def _declined(works: Iterable[Work]) -> tuple[Declined, ...]:
    """Near misses whose subject is still there, nearest first, each reason once."""
    found: dict[tuple[str, str, str], Declined] = {}
    for work in works:
        for mismatch, subject in work.declined:
            if work.is_in_graph(subject) or any(map(work.is_in_graph, subject.origin.nodes)):
                entry = declined_of(mismatch)
                found.setdefault((entry.graph, entry.node, entry.reason), entry)
    return tuple(sorted(found.values(), key=lambda d: -d.reached))


def _shown(mismatch: Mismatch) -> Node | None:
    """The model's own node that the reason is about."""
    node = mismatch.node
    if node is None or node.proto is not None or not node.origin.nodes:
        return node
    return next((n for n in node.origin.nodes if n.kind == node.kind), node.origin.nodes[-1])


def declined_of(m: Mismatch) -> Declined:
    """A mismatch as the report has it."""
    node = _shown(m)
    return Declined(
        m.rule, m.label, "" if node is None else str_name(node), "" if node is None else node.op_type,
        m.graph.path, m.reason, m.reached, m.hint,
    )  # fmt: skip


def _counts(works: Iterable[Work], rules: Rules) -> tuple[RuleCount, ...]:
    tries: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    for work in works:
        tries += work.rewriter.tries
        hits += work.rewriter.hits
    return tuple(RuleCount(r.id, tries[r.id], hits[r.id], r.rule.pattern.doc) for r in rules.all)


def _story(works: Iterable[Work], about: str) -> tuple[Declined, ...]:
    """Every rule that was tried at a node and did not apply, and every reason that is about it, nearest first."""
    found: dict[tuple[str, str, str], Declined] = {}
    for work in works:
        tried = [(m, m.root) for m in work.everything or ()]
        for m, subject in (*tried, *work.declined):
            names = {n for n in (_shown(m), m.root, subject, *subject.origin.nodes) if n is not None}
            if any(about == n.name or about in n.outputs for n in names):
                entry = declined_of(m)
                found.setdefault((entry.rule, entry.node, entry.reason), entry)
    return tuple(sorted(found.values(), key=lambda d: -d.reached))
