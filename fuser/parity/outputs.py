"""The outputs of several runs of two models, and what they add up to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fuser.parity.compare import Tolerance, compare, worst_first
from fuser.parity.result import OutputDifference, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuser.parity.draws import Outputs, Ran

NOT_TENSORS = "its type can't be compared"
AMPLIFIES = "the model amplifies rounding"
UNROUNDED = "without the rounding of"
INEXACT = "onnxruntime computes what makes it to within"
SAID = (AMPLIFIES, UNROUNDED, INEXACT)
"""How reasons of outputs begin or go on that the verdict repeats, since they passed otherwise than usual."""


def compare_runs(
    runs: Sequence[Ran], results: Sequence[Outputs], skipped: Mapping[str, str], tolerance: Tolerance
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
        return "inconclusive", f"no output could be judged over {over}: {reasons}"
    # An output that A itself does not repeat is one that nobody judged, whatever the others say.
    random = [output for output in unjudged if output.name in unstable]
    if random:
        return "inconclusive", f"output {random[0].name!r}: {random[0].reason}"
    worst = max(passed, key=worst_first)
    reason = f"{len(passed)} output{'s agree' if len(passed) != 1 else ' agrees'} over {over}"
    reason += f", needing at most {worst.smallest_tolerance:.3g} of {worst.tolerance:g}"
    reason += "".join(
        f"; {output.name!r}: {output.reason}"
        for output in passed
        if any(text in output.reason for text in SAID)
    )
    if unjudged:
        reason += "; not judged: " + "; ".join(f"{output.name!r}, {output.reason}" for output in unjudged)
    return "passed", reason


def negatives(runs: Sequence[Ran]) -> dict[str, float]:
    """The share of negative values of every output of A that has a sign, over all draws."""
    counts: dict[str, tuple[int, int]] = {}
    for ran in runs:
        for name, array in ran.outputs.items():
            if array.dtype.kind in "fiV" and array.size:
                negative, total = counts.get(name, (0, 0))
                counts[name] = negative + int(np.count_nonzero(array < 0)), total + array.size
    return {name: negative / total for name, (negative, total) in counts.items()}
