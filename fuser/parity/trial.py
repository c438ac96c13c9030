"""Run A, then B, on the same inputs in one engine, and judge the outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fuser.parity.conditioning import conditioned
from fuser.parity.evidence import weighed
from fuser.parity.judge import Judge
from fuser.parity.kernels import absolute_errors, within_error
from fuser.parity.outputs import compare_runs, conclude, negatives
from fuser.parity.reference import misjudged
from fuser.parity.repeat import has_random
from fuser.parity.rounding import without_rounding
from fuser.parity.runner import Engine, EngineError, Worker, WorkerDiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuser.parity.compare import Tolerance
    from fuser.parity.draws import Outputs, Ran, Run
    from fuser.parity.result import Draw, OutputDifference, Verdict
    from fuser.parity.source import Array, Source


@dataclass(frozen=True)
class Trial:
    """``ran``: A ran, so there is an answer. ``feeds`` are what it ran on; ``negatives`` the share per output
    of A. ``compared``: B gave outputs of the same shapes. ``weak``: all that could be compared agrees, but
    could hardly differ."""

    verdict: Verdict
    reason: str
    judge: str
    ran: bool
    draws: tuple[Draw, ...] = ()
    outputs: tuple[OutputDifference, ...] = ()
    feeds: tuple[Mapping[str, Array], ...] = ()
    negatives: Mapping[str, float] | None = None
    engine: Engine = "onnxruntime"
    compared: bool = False
    weak: bool = False


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
            return _try_engine(Judge(worker, engine, tolerance), a, b, feed)
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


def _try_engine(judge: Judge, a: Source, b: Source, feed: Callable[[Run], list[Ran]]) -> Trial:
    name = ""
    skipped: dict[str, str] = {}

    def run_a(arrays: Mapping[str, Array]) -> Outputs:
        outputs, others = judge.worker.run(arrays)
        skipped.update(others)
        return outputs

    try:
        name = judge.load(a)
        runs = feed(run_a)
    except EngineError as error:
        raise _RefusedError(str(error), name) from None
    except WorkerDiedError as died:
        raise _RefusedError(f"A ended the process: {died}", name, died=True) from None

    draws = tuple(ran.draw for ran in runs)
    feeds = tuple(ran.feeds for ran in runs)
    done = Trial("failed", "", name, True, draws, (), feeds, negatives(runs), judge.engine)
    step = "load"
    try:
        judge.load(b)
        step = "run"
        results = [judge.worker.run(feed)[0] for feed in feeds]
    except EngineError as error:
        return replace(done, reason=f"B does not {step}, A does: {error}")
    except WorkerDiedError as died:
        if died.limit:
            return replace(done, verdict="inconclusive", reason=f"B could not {step}: {died}")
        return replace(done, reason=f"B ended the process on {step}, A did not: {died}")

    compared = all(
        name in given and given[name].shape == array.shape
        for ran, given in zip(runs, results, strict=True)
        for name, array in ran.outputs.items()
    )
    outputs = conditioned(judge, a, runs, compare_runs(runs, results, skipped, judge.tolerance))
    if not judge.tolerance.fixed:
        outputs = without_rounding(judge, a, b, runs, outputs)
    errors = {} if judge.tolerance.fixed or judge.engine != "onnxruntime" else absolute_errors(a.proto)
    outputs = within_error(outputs, runs, results, errors)
    agreed = any(output.verdict == "passed" for output in outputs)
    outputs = weighed(outputs, runs, judge.tolerance, errors)
    failed = any(output.verdict == "failed" for output in outputs)
    unstable = _unstable(judge, a, runs) if failed or has_random(a.proto) else {}
    outputs = tuple(_excused(output, unstable) for output in outputs)
    verdict, reason = conclude(outputs, len(draws), set(unstable))
    weak = agreed and verdict == "inconclusive" and not unstable
    return replace(done, verdict=verdict, reason=reason, outputs=outputs, compared=compared, weak=weak)


def _unstable(judge: Judge, a: Source, runs: Sequence[Ran]) -> dict[str, str]:
    """Outputs on which A disagrees with itself when it is loaded and run once more, with what was seen."""
    if has_random(a.proto):
        judge.worker.close()  # in another process onnxruntime starts from another seed
    try:
        again = judge.run(a, [ran.feeds for ran in runs])
    except (EngineError, WorkerDiedError):
        return {}
    found = compare_runs(runs, again, {}, judge.tolerance)
    return {output.name: output.reason for output in found if output.verdict == "failed"}


def _excused(output: OutputDifference, unstable: Mapping[str, str]) -> OutputDifference:
    if output.name not in unstable:
        return output
    reason = (
        f"A disagrees with itself from one run to the next ({unstable[output.name]}), so it can't be compared"
    )
    return replace(output, verdict="inconclusive", reason=reason)
