"""Verdicts on quantized models: what differs by quantization steps only, and what the steps hide."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fuser.errors import FuserError
from fuser.parity.conditioning import conditioned
from fuser.parity.outputs import UNROUNDED, compare_runs
from fuser.parity.quantized import unrounded
from fuser.parity.runner import EngineError, WorkerDiedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuser.parity.draws import Ran
    from fuser.parity.judge import Judge
    from fuser.parity.quantized import Unrounded
    from fuser.parity.result import OutputDifference
    from fuser.parity.source import Source

MOST = 4.0
"""Rounding moves B as far as it moves A, which makes twice that between them; and an output of few values may show
half of what it can do."""


def without_rounding(
    judge: Judge, a: Source, b: Source, runs: Sequence[Ran], outputs: tuple[OutputDifference, ...]
) -> tuple[OutputDifference, ...]:
    """The outputs of models that quantize the same activations alike, judged without that rounding.

    One that fails passes where all agree then, and it differs by no more than MOST times what rounding does to A; one that
    passes fails where it does not agree then, and nothing else is rounded to steps.
    """
    with tempfile.TemporaryDirectory(prefix="onnx-fuser-") as folder:
        try:
            models = unrounded(a, b, Path(folder))
            if models is None:
                return outputs
            return _judged(judge, models, runs, outputs)
        except (EngineError, WorkerDiedError, FuserError):
            return outputs


def _judged(
    judge: Judge, models: Unrounded, runs: Sequence[Ran], outputs: tuple[OutputDifference, ...]
) -> tuple[OutputDifference, ...]:
    feeds = [ran.feeds for ran in runs]
    was, now = judge.run(models.a, feeds), judge.run(models.b, feeds)
    moved = {o.name: o.smallest_tolerance for o in compare_runs(runs, was, {}, judge.tolerance)}
    runs = [replace(ran, outputs=given) for ran, given in zip(runs, was, strict=True)]
    found = conditioned(judge, models.a, runs, compare_runs(runs, now, {}, judge.tolerance))
    strict = {output.name: output for output in found}
    text = f"{UNROUNDED} {models.pairs} activation{'s' if models.pairs != 1 else ''}"
    if any(output.verdict == "failed" for output in found):
        return tuple(_revealed(o, strict.get(o.name), text) for o in outputs) if models.entire else outputs
    return tuple(_excused(o, strict.get(o.name), moved.get(o.name), text) for o in outputs)


def _revealed(output: OutputDifference, strict: OutputDifference | None, text: str) -> OutputDifference:
    if output.verdict == "failed" or strict is None or strict.verdict != "failed":
        return output
    return replace(strict, reason=f"{text}, which hides it, {strict.reason}")


def _excused(
    output: OutputDifference, strict: OutputDifference | None, moved: float | None, text: str
) -> OutputDifference:
    needed = output.smallest_tolerance
    if strict is None or strict.verdict != "passed" or needed is None:
        return output
    text = f"{text} it needs {strict.smallest_tolerance:.3g} of {strict.tolerance:g}"
    if output.verdict == "passed":
        return replace(output, reason=f"{output.reason}; {text}")
    if moved is None or needed > MOST * moved:
        return output
    reason = (
        f"{text}; with it the models differ by {needed:.3g}, no more than {MOST:g} times the {moved:.3g} by which rounding "
        "moves A"
    )
    return replace(output, verdict="passed", tolerance=MOST * moved, reason=reason)
