"""What changed since the baseline: fusions lost and gained, new reasons, sizes, times and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuser.gate import baseline as baselines
from fuser.gate.verdict import Found
from fuser.report.names import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fuser.gate.baseline import Baseline, Site
    from fuser.gate.limits import Limits
    from fuser.gate.measure import Measured


def compare(
    limits: Limits, measured: Measured, baseline: Baseline | None, *, compared: bool
) -> Iterator[Found]:
    """What is to be said of the model beside its baseline."""
    if baseline is None:
        yield from _missing(limits, measured, compared=compared)
        return
    now = baselines.of(measured)
    yield from _sites(limits, measured, baseline.sites, now.sites)
    yield from _batch_normalizations(limits, measured, baseline, now)
    yield from _reasons(measured, baseline)
    yield from _growth(limits, measured, baseline, now)
    yield from _weights(limits, measured, baseline, now)


def update(limits: Limits, model: str) -> str:
    """How to agree to what changed."""
    return f"or agree to it: `onnx-fuser gate --update {model}` writes {limits.lock}"


def _missing(limits: Limits, measured: Measured, *, compared: bool) -> Iterator[Found]:
    keys = [
        key
        for key, given in (
            ("max-size-increase", limits.max_size_increase is not None),
            ("max-latency-increase", limits.max_latency_increase is not None),
            ("weights", limits.weights == "locked"),
        )
        if given
    ]
    if not compared and not keys:
        return
    why = f", which {' and '.join(keys)} compare{'s' if len(keys) == 1 else ''} with" if keys else ""
    yield Found(
        "baseline", "unjudged", f"{limits.lock} has no baseline of the model{why}",
        f"write it with `onnx-fuser gate --update {measured.model}`, and commit {limits.lock}",
    )  # fmt: skip


def _sites(
    limits: Limits, measured: Measured, before: Mapping[str, Site], after: Mapping[str, Site]
) -> Iterator[Found]:
    lost = {name: site for name, site in before.items() if name not in after}
    gained = {name: site for name, site in after.items() if name not in before}
    for old, site in [*lost.items()]:
        new = next((name for name, other in gained.items() if site.weights and other == site), None)
        if new is not None:
            del lost[old], gained[new]
            yield Found("fusion-renamed", "note", f"{site.op} {old!r} is now called {new!r}", node=new)
    for name, site in lost.items():
        node, _, graph = name.partition(" in ")
        yield Found(
            "fusion-lost", "refused",
            f"{site.op} at {name!r} ({' + '.join(site.ops)}) is no longer fused: {_why(measured, node)}",
            f"see `onnx-fuser explain {measured.model}`; {update(limits, measured.model)}", node, graph,
        )  # fmt: skip
    for name, site in gained.items():
        node, _, graph = name.partition(" in ")
        message = f"{site.op} at {name!r} ({' + '.join(site.ops)}) is fused now, and was not in the baseline"
        yield Found("fusion-gained", "note", message, update(limits, measured.model), node, graph)


def _why(measured: Measured, output: str) -> str:
    """The nearest thing that is known about why."""
    report = measured.report
    close = next((d for d in report.declined if d.node == output), None) or next(iter(report.declined), None)
    if close is not None:
        return f"the nearest miss is {baselines.sentence(close)}"
    left = f", and LeakyRelu {', '.join(map(repr, measured.left[:3]))} is left" if measured.left else ""
    return f"no rule came near it{left}"


def _batch_normalizations(
    limits: Limits, measured: Measured, baseline: Baseline, now: Baseline
) -> Iterator[Found]:
    more = now.batch_normalizations - baseline.batch_normalizations
    if more > 0 and limits.batch_normalizations is None:  # the limit, where there is one, has judged
        yield Found(
            "batch-normalizations", "refused",
            f"{counted(now.batch_normalizations, 'BatchNormalization')} left, {more} more than in "
            f"{limits.lock}",
            f"export the model in evaluation mode, {update(limits, measured.model)}",
        )  # fmt: skip


def _reasons(measured: Measured, baseline: Baseline) -> Iterator[Found]:
    known = set(baseline.declined)
    for declined in measured.report.declined:
        text = baselines.sentence(declined)
        if text not in known:
            known.add(text)
            rule = f"{declined.rule}/{declined.label}"
            yield Found("reason-new", "note", f"new: {text}", "", declined.node, declined.graph, rule)


def _growth(limits: Limits, measured: Measured, baseline: Baseline, now: Baseline) -> Iterator[Found]:
    most = limits.max_size_increase
    if most is not None and now.nbytes > baseline.nbytes * (1 + most):
        grown = now.nbytes - baseline.nbytes
        yield Found(
            "size", "refused",
            f"the fused model has {now.nbytes:,} bytes, {grown:,} ({grown / max(1, baseline.nbytes):.1%}) "
            f"more than in {limits.lock}, over the {most:.1%} allowed",
            f"raise {limits.where('max-size-increase')}, {update(limits, measured.model)}",
        )  # fmt: skip
    most = limits.max_latency_increase
    if most is None or now.latency_ratio is None:
        return
    if baseline.latency_ratio is None:
        yield Found(
            "latency", "unjudged",
            f"{limits.lock} has no time of the model, which max-latency-increase compares with",
            f"write it with `onnx-fuser gate --update {measured.model}`",
        )  # fmt: skip
    elif now.latency_ratio > baseline.latency_ratio * (1 + most):
        grown_share = now.latency_ratio / baseline.latency_ratio - 1
        yield Found(
            "latency", "refused",
            f"the fused model takes {now.latency_ratio:.3g} of the model's time, {grown_share:.1%} more than "
            f"the {baseline.latency_ratio:.3g} in {limits.lock}, over the {most:.1%} allowed",
            f"time it on an idle machine, raise {limits.where('max-latency-increase')}, "
            f"{update(limits, measured.model)}",
        )  # fmt: skip


def _weights(limits: Limits, measured: Measured, baseline: Baseline, now: Baseline) -> Iterator[Found]:
    """Names changed sites, so that a nudged weight is found; a note where weights are free."""
    if now.weights == baseline.weights:
        return
    changed = [
        name
        for name, site in now.sites.items()
        if name in baseline.sites and site.weights != baseline.sites[name].weights
    ]
    locked = limits.weights == "locked"
    first = changed[0] if changed else ""
    where = f"those of {', '.join(map(repr, changed[:3]))}" if changed else "outside of the fused sites"
    more = f" and {len(changed) - 3} more sites" if len(changed) > 3 else ""
    node, _, graph = first.partition(" in ")
    yield Found(
        "weights", "refused" if locked else "note",
        f"the weights are not those in {limits.lock}: {where}{more} changed",
        f"restore them; {update(limits, measured.model)}", node, graph,
    )  # fmt: skip
