"""Judging: one pure function of the limits, what was measured, the baseline and the day."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fuser.gate import baseline as baselines
from fuser.gate.changes import compare
from fuser.gate.limits import Accepted, Limits, last_match, matches
from fuser.gate.verdict import Found, Verdict
from fuser.report.names import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date

    from fuser.gate.baseline import Baseline
    from fuser.gate.measure import Measured
    from fuser.parity import OutputDifference
    from fuser.report import Declined


def judge(
    limits: Limits, measured: Measured, baseline: Baseline | None, today: date, *, compared: bool = True
) -> Verdict:
    """What is to be said of one model.

    ``baseline`` is None where the model has none; ``compared`` is false where there is no baseline file at
    all, and then it is only missed by limits that compare with it.
    """
    found = [
        *_parity(limits, measured),
        *_fusions(limits, measured),
        *_batch_normalizations(limits, measured),
        *_reasons(limits, measured),
        *_targets(limits, measured),
        *_ratios(limits, measured),
        *compare(limits, measured, baseline, compared=compared),
    ]
    kept, accepted = _except(found, limits.accept, today)
    report = measured.report
    return Verdict(
        model=measured.model,
        checks=_checks(limits, compared=baseline is not None),
        found=(*kept, *_expired(limits, today)),
        accepted=accepted,
        near_misses=tuple(near_miss(d) for d in report.declined),
        facts={
            "fusions": len(report.fusions),
            "batch_normalizations_before": report.model.batch_normalizations[0],
            "batch_normalizations_after": report.model.batch_normalizations[1],
            "nodes_before": report.model.nodes[0],
            "nodes_after": report.model.nodes[1],
            "bytes_before": measured.nbytes[0],
            "bytes_after": measured.nbytes[1],
            "parity": "none" if report.parity is None else report.parity.verdict,
            **_times(measured),
        },
        seconds=measured.seconds,
    )


def near_miss(declined: Declined) -> Found:
    """A near miss as something that was found."""
    fix = f"{declined.hint} would help" if declined.hint else ""
    message = baselines.sentence(declined)
    rule = f"{declined.rule}/{declined.label}"
    return Found("near-miss", "note", message, fix, declined.node, declined.graph, rule)


def _times(measured: Measured) -> dict[str, float]:
    if measured.latency is None:
        return {}
    return {"ms_before": measured.latency.before, "ms_after": measured.latency.after}


def _checks(limits: Limits, *, compared: bool) -> tuple[str, ...]:
    """The kinds that were judged, so that a report can show what passed too."""
    asked = {
        "parity": True,
        "fusions": limits.fusions is not None,
        "batch-normalizations": limits.batch_normalizations is not None or compared,
        "reason": bool(limits.refuse_reasons),
        "target": bool(limits.targets),
        "size": limits.max_size_ratio is not None or limits.max_size_increase is not None,
        "latency": limits.timed,
        "fusion-lost": compared,
        "weights": limits.weights == "locked",
    }
    return tuple(kind for kind, wanted in asked.items() if wanted)


def _parity(limits: Limits, measured: Measured) -> Iterator[Found]:
    parity = measured.report.parity
    if parity is None or parity.verdict == "inconclusive":
        why = "it was not checked" if parity is None else parity.reason
        yield Found(
            "parity", "unjudged", f"parity could not be judged: {why}",
            f"set what both models run on: {limits.where('inputs')}, or shapes",
        )  # fmt: skip
        return
    if parity.verdict == "failed":
        node = parity.guilty[0].output if parity.guilty else ""
        graph = parity.guilty[0].graph if parity.guilty else ""
        yield Found(
            "parity", "refused", f"parity failed: {parity.reason}{_by_how_much(parity.outputs)}",
            "report it, with the model, as a bug of the rule; where the difference is harmless, raise "
            f"{limits.where('tolerance')}", node, graph,
        )  # fmt: skip
        return
    for output in parity.outputs:
        allowed = last_match(output.name, limits.tolerance)
        needs = output.smallest_tolerance
        if allowed is not None and needs is not None and needs > allowed:
            yield Found(
                "parity", "refused",
                f"output {output.name!r} differs by {needs:.2g}, {_over(needs, allowed)} the tolerance "
                f"{allowed:.2g}",
                f"raise {limits.where('tolerance')}, or keep the model's weights in a wider type",
                output.name,
            )  # fmt: skip


def _by_how_much(outputs: Iterable[OutputDifference]) -> str:
    """How many times the tolerance the output that is furthest off needs."""
    needs = [(o.smallest_tolerance, o) for o in outputs if o.verdict == "failed" and o.smallest_tolerance]
    if not needs:
        return ""
    need, worst = max(needs, key=lambda pair: pair[0])
    return f"; that is {_over(need, worst.tolerance)} what is allowed" if worst.tolerance else ""


def _over(value: float, limit: float) -> str:
    return f"{value / limit:,.1f} times" if limit else "over"


def _fusions(limits: Limits, measured: Measured) -> Iterator[Found]:
    asked, n = limits.fusions, len(measured.report.fusions)
    model = measured.model
    if asked == "all":
        for node in measured.left:
            why = next((f": {d.reason}" for d in measured.report.declined if d.node == node), "")
            yield Found(
                "unfused", "refused", f"LeakyRelu {node!r} was not fused, and fusions asks for all{why}",
                f"see why with `onnx-fuser explain {model} {node}`, and export it so that it can be; or "
                f"accept it: {limits.where('accept')}", node,
            )  # fmt: skip
        if not n and not measured.left:
            yield Found(
                "fusions", "refused",
                "nothing was fused: the model has no LeakyRelu that a rule knows, and fusions asks for all",
                f"see `onnx-fuser explain {model}`; or set 0 for it: {limits.where('fusions')}",
            )  # fmt: skip
    elif asked is not None and n < asked:
        yield Found(
            "fusions", "refused", f"{n} fused, {asked - n} fewer than the {asked} that fusions asks for",
            f"see why with `onnx-fuser explain {model}`, and export it so that they can be; or lower "
            f"{limits.where('fusions')}",
        )  # fmt: skip


def _batch_normalizations(limits: Limits, measured: Measured) -> Iterator[Found]:
    most, left = limits.batch_normalizations, measured.report.model.batch_normalizations[1]
    if most is not None and left > most:
        hint = "".join(sorted({f"; {d.hint} would help" for d in measured.report.declined if d.hint})[:1])
        declined = measured.report.declined
        own = [d for d in declined if d.op == "BatchNormalization"]
        why = next(iter(own or [d for d in declined if "batchnorm" in d.rule]), None)
        reason = f": {why.op} {why.node!r}: {why.reason}" if why else ""
        yield Found(
            "batch-normalizations", "refused",
            f"{counted(left, 'BatchNormalization')} left, {left - most} more than the {most} allowed{reason}",
            f"see why with `onnx-fuser explain {measured.model}`{hint}, and export the model in evaluation "
            f"mode; or raise {limits.where('batch-normalizations')}",
            why.node if why else "", why.graph if why else "",
        )  # fmt: skip


def _reasons(limits: Limits, measured: Measured) -> Iterator[Found]:
    for declined in measured.report.declined:
        glob = next((g for g in limits.refuse_reasons if matches(declined.reason, g)), None)
        if glob is not None:
            hint = f"say {declined.hint}, or " if declined.hint else ""
            yield Found(
                "reason", "refused", f"{baselines.sentence(declined)} (not accepted: {glob!r})",
                f"{hint}export the model without it; or take {glob!r} out: {limits.where('refuse-reasons')}",
                declined.node, declined.graph, f"{declined.rule}/{declined.label}",
            )  # fmt: skip


def _targets(limits: Limits, measured: Measured) -> Iterator[Found]:
    for target, findings in measured.findings.items():
        for f in findings:
            code = f" ({f.code})" if f.code else ""
            where = f"{f.node!r}: " if f.node else ""
            yield Found(
                "target", "refused" if f.severity == "error" else "note",
                f"{target}{code}: {where}{f.message}", f.fix, f.node, rule=f"{target}/{f.rule}",
            )  # fmt: skip


def _ratios(limits: Limits, measured: Measured) -> Iterator[Found]:
    """The fused model beside the model itself."""
    before, after = measured.nbytes
    if limits.max_size_ratio is not None and after > limits.max_size_ratio * before:
        yield Found(
            "size", "refused",
            f"the fused model has {after:,} bytes, {after / before:.3g} times the model's {before:,}, over "
            f"the {limits.max_size_ratio:g} allowed",
            f"see `onnx-fuser explain {measured.model}`; or raise {limits.where('max-size-ratio')}",
        )  # fmt: skip
    most, times = limits.max_latency_ratio, measured.latency
    if most is not None and times is not None and times.ratio > most:
        yield Found(
            "latency", "refused",
            f"the fused model takes {times.after:.3g} ms, {times.ratio:.3g} times the model's "
            f"{times.before:.3g}, over the {most:g} allowed",
            f"time it on an idle machine; or raise {limits.where('max-latency-ratio')}",
        )  # fmt: skip


def _except(
    found: Iterable[Found], accept: Iterable[Accepted], today: date
) -> tuple[list[Found], tuple[tuple[Found, Accepted], ...]]:
    """What stays, and what an exception lets pass. One that has expired lets nothing pass, and says so."""
    kept, accepted = [], []
    exceptions = tuple(accept)
    for one in found:
        fits = [e for e in exceptions if one.severity != "note" and e.covers(one.kind, one.node)]
        valid = next((e for e in fits if e.expires >= today), None)
        if valid is not None:
            accepted.append((one, valid))
        elif fits:
            past = f"{one.message} (accepted until {fits[0].expires}: {fits[0].reason})"
            kept.append(replace(one, message=past))
        else:
            kept.append(one)
    return kept, tuple(accepted)


def _expired(limits: Limits, today: date) -> Iterator[Found]:
    for e in limits.accept:
        if e.expires < today:
            days = counted((today - e.expires).days, "day")
            yield Found(
                "exception-expired", "refused",
                f"the exception for {e.finding} at {e.node!r} expired on {e.expires}, {days} ago: {e.reason}",
                f"correct what it excuses and remove it, or agree on a later date, in {e.where}",
                "" if e.node == "*" else e.node,
            )  # fmt: skip
