"""Run A, then B, on the same inputs in one engine, and judge the outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fuser.parity.compare import Tolerance, compare, worst_first
from fuser.parity.conditioning import AMPLIFIES, widened
from fuser.parity.reference import misjudged
from fuser.parity.repeat import has_random, load
from fuser.parity.result import Draw, OutputDifference, Verdict
from fuser.parity.runner import Engine, EngineError, Worker, WorkerDiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuser.parity.draws import Outputs, Ran, Run
    from fuser.parity.source import Array, Source

NOT_TENSORS = "its type can't be compared"


@dataclass(frozen=True)
class Trial:
    """``ran``: A ran, so there is an answer. ``feeds`` are what it ran on; ``negatives`` the share per output
    of A."""

    verdict: Verdict
    reason: str
    judge: str
    ran: bool
    draws: tuple[Draw, ...] = ()
    outputs: tuple[OutputDifference, ...] = ()
    feeds: tuple[Mapping[str, Array], ...] = ()
    negatives: Mapping[str, float] | None = None
    engine: Engine = "onnxruntime"


def try_models(
    worker: Worker, a: Source, b: Source, feed: Callable[[Run], list[Ran]], tolerance: Tolerance
) -> Trial:
    """Judge by onnxruntime, or where it can't run A by onnx's reference.

    ``feed`` runs model A on inputs of its choice. ``fixed``: the tolerance is the caller's, for every output
    alike.
    """
    refusals = []
    judge = ""
    engines: tuple[Engine, ...] = ("onnxruntime", "reference")
    for engine in engines:
        try:
            if engine == "reference":
                _check_reference(a, b)
            return _try_engine(worker, engine, a, b, feed, tolerance)
        except _RefusedError as refused:
            refusals.append(f"{engine}: {refused}")
            judge = judge or refused.judge
            if refused.died:
                break
    return Trial("inconclusive", "A could not be run: " + "; ".join(refusals), judge or "none", ran=False)


class _RefusedError(Exception):
    """A did not run; ``died`` when it took the worker along."""

    def __init__(self, text: str, judge: str, *, died: bool = False) -> None:
        super().__init__(text)
        self.judge, self.died = judge, died


def _check_reference(a: Source, b: Source) -> None:
    """Raises _RefusedError where the reference computes one of the models wrongly."""
    wrong = misjudged(a.proto) or misjudged(b.proto)
    if wrong:
        raise _RefusedError(wrong, "")


def _try_engine(  # noqa: PLR0917 - what makes a trial
    worker: Worker,
    engine: Engine,
    a: Source,
    b: Source,
    feed: Callable[[Run], list[Ran]],
    tolerance: Tolerance,
) -> Trial:
    judge = ""
    skipped: dict[str, str] = {}

    def run_a(arrays: Mapping[str, Array]) -> Outputs:
        outputs, others = worker.run(arrays)
        skipped.update(others)
        return outputs

    try:
        judge = load(worker, engine, a)
        runs = feed(run_a)
    except EngineError as error:
        raise _RefusedError(str(error), judge) from None
    except WorkerDiedError as died:
        raise _RefusedError(f"A ended the process: {died}", judge, died=True) from None

    draws = tuple(ran.draw for ran in runs)
    arrays = tuple(ran.feeds for ran in runs)
    done = Trial(
        "failed", "", judge, ran=True, draws=draws, feeds=arrays, negatives=_negatives(runs), engine=engine
    )
    step = "load"
    try:
        load(worker, engine, b)
        step = "run"
        results = [worker.run(ran.feeds)[0] for ran in runs]
    except EngineError as error:
        return replace(done, reason=f"B does not {step}, A does: {error}")
    except WorkerDiedError as died:
        if died.limit:
            return replace(done, verdict="inconclusive", reason=f"B could not {step}: {died}")
        return replace(done, reason=f"B ended the process on {step}, A did not: {died}")

    outputs = _compare_all(runs, results, skipped, tolerance)
    if not tolerance.fixed:
        outputs = _conditioned(worker, engine, a, runs, outputs)
    failed = [output.name for output in outputs if output.verdict == "failed"]
    suspect = failed or has_random(a.proto)
    unstable = _unstable(worker, engine, a, runs, tolerance) if suspect else {}
    outputs = tuple(_excused(output, unstable) for output in outputs)
    verdict, reason = conclude(outputs, len(draws), set(unstable))
    return replace(done, verdict=verdict, reason=reason, outputs=outputs)


def _conditioned(
    worker: Worker, engine: Engine, a: Source, runs: list[Ran], outputs: tuple[OutputDifference, ...]
) -> tuple[OutputDifference, ...]:
    """The outputs with the tolerance that A's own amplification of rounding calls for."""

    def run_a(arrays: Mapping[str, Array]) -> Outputs:
        load(worker, engine, a)
        return worker.run(arrays)[0]

    try:
        return widened(outputs, [(ran.feeds, ran.outputs) for ran in runs], run_a)
    except (EngineError, WorkerDiedError):
        return outputs


def _compare_all(
    runs: list[Ran], results: list[Outputs], skipped: Mapping[str, str], tolerance: Tolerance
) -> tuple[OutputDifference, ...]:
    """The worst difference of every output over the draws."""
    worst: dict[str, OutputDifference] = {}
    counts: dict[str, list[int]] = {}
    for index, (ran, given) in enumerate(zip(runs, results, strict=True)):
        for name, array in ran.outputs.items():
            allowed = tolerance.of(array.dtype.name)
            if name in given:
                found = compare(name, array, given[name], tolerance=allowed, draw=index)
            else:
                found = _unmeasured(name, array.dtype.name, "failed", "B does not give it", index)
            worst[name] = max(worst.get(name, found), found, key=worst_first)
            if found.histogram:
                sums = counts.get(name, [0] * len(found.histogram))
                counts[name] = [a + b for a, b in zip(sums, found.histogram, strict=True)]
    for name, histogram in counts.items():
        worst[name] = replace(worst[name], histogram=tuple(histogram))
    for name, kind in skipped.items():
        worst.setdefault(name, _unmeasured(name, kind, "inconclusive", NOT_TENSORS, 0))
    return tuple(worst.values())


def _unmeasured(name: str, dtype: str, verdict: Verdict, reason: str, draw: int) -> OutputDifference:
    return OutputDifference(name, dtype, None, None, None, None, 0.0, None, verdict, reason, draw)


def _unstable(
    worker: Worker, engine: Engine, a: Source, runs: list[Ran], tolerance: Tolerance
) -> dict[str, str]:
    """Outputs on which A disagrees with itself when it is loaded and run once more, with what was seen."""
    if has_random(a.proto):
        worker.close()  # in another process onnxruntime starts from another seed
    try:
        load(worker, engine, a)
        again = [worker.run(ran.feeds)[0] for ran in runs]
    except (EngineError, WorkerDiedError):
        return {}
    found = _compare_all(runs, again, {}, tolerance)
    return {output.name: output.reason for output in found if output.verdict == "failed"}


def _excused(output: OutputDifference, unstable: Mapping[str, str]) -> OutputDifference:
    if output.name not in unstable:
        return output
    reason = (
        f"A disagrees with itself from one run to the next ({unstable[output.name]}), so it can't be compared"
    )
    return replace(output, verdict="inconclusive", reason=reason)


def conclude(outputs: Sequence[OutputDifference], draws: int, unstable: set[str]) -> tuple[Verdict, str]:
    """The verdict that the outputs lead to, and why; ``unstable`` are those on which A disagrees with itself."""
    over = f"{draws} draw{'s' if draws != 1 else ''}"
    failed = [output for output in outputs if output.verdict == "failed"]
    if failed:
        worst = max(failed, key=worst_first)
        needed = worst.smallest_tolerance
        limit = f" (tolerance {worst.tolerance:g}, would need {needed:.3g})" if needed is not None else ""
        return "failed", f"output {worst.name!r} differs{limit}: {worst.reason}"
    passed = [output for output in outputs if output.verdict == "passed"]
    unjudged = [output for output in outputs if output.verdict == "inconclusive"]
    if not passed:
        reasons = "; ".join(f"{output.name!r}: {output.reason}" for output in unjudged) or "A gives none"
        return "inconclusive", f"no output could be compared over {over}: {reasons}"
    # An output that A itself does not repeat is one that nobody judged, whatever the others say.
    random = [output for output in unjudged if output.name in unstable]
    if random:
        return "inconclusive", f"output {random[0].name!r}: {random[0].reason}"
    worst = max(passed, key=worst_first)
    reason = f"{len(passed)} output{'s agree' if len(passed) != 1 else ' agrees'} over {over}"
    reason += f", needing at most {worst.smallest_tolerance:.3g} of {worst.tolerance:g}"
    reason += "".join(
        f"; {output.name!r}: {output.reason}" for output in passed if AMPLIFIES in output.reason
    )
    if unjudged:
        reason += "; not compared: " + "; ".join(f"{output.name!r}, {output.reason}" for output in unjudged)
    return "passed", reason


def _negatives(runs: list[Ran]) -> dict[str, float]:
    """The share of negative values of every output of A that has a sign, over all draws."""
    counts: dict[str, tuple[int, int]] = {}
    for ran in runs:
        for name, array in ran.outputs.items():
            if array.dtype.kind in "fiV" and array.size:
                negative, total = counts.get(name, (0, 0))
                counts[name] = negative + int(np.count_nonzero(array < 0)), total + array.size
    return {name: negative / total for name, (negative, total) in counts.items()}
