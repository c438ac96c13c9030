"""How much a model itself amplifies rounding: outputs that do get a wider tolerance, up to a limit.

Folding rounds the weights anew, each by at most half a unit in the last place. Where the model turns a change of one unit
in the last place of its *inputs* into a visible change of an output (cancellation, a sigmoid far from zero), no tolerance
that follows from the type alone can tell that rounding from an error. So the change is measured, on A alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fuser.parity.compare import compare
from fuser.parity.outputs import AMPLIFIES
from fuser.parity.runner import EngineError, WorkerDiedError

if TYPE_CHECKING:
    from fuser.parity.draws import Ran
    from fuser.parity.judge import Judge
    from fuser.parity.protocol import Array
    from fuser.parity.result import OutputDifference
    from fuser.parity.source import Source

LAYERS = 8.0
"""Every layer rounds, not only the input; independent roundings add up as their root, so this covers some sixty layers."""
WIDEST = 10.0
"""The tolerance never grows by more than this factor: a change of a slope by one percent stays visible."""


def conditioned(
    judge: Judge, a: Source, runs: Sequence[Ran], outputs: tuple[OutputDifference, ...]
) -> tuple[OutputDifference, ...]:
    """The outputs with the tolerance that A's own amplification of rounding calls for, unless it was given."""
    if judge.tolerance.fixed:
        return outputs
    try:
        return widened(outputs, [(ran.feeds, ran.outputs) for ran in runs], lambda feeds: judge.run(a, feeds))
    except (EngineError, WorkerDiedError):
        return outputs


def widened(
    outputs: Sequence[OutputDifference],
    runs: Sequence[tuple[Mapping[str, Array], Mapping[str, Array]]],
    run: Callable[[Sequence[Mapping[str, Array]]], Sequence[Mapping[str, Array]]],
) -> tuple[OutputDifference, ...]:
    """The outputs, those passed that differ by no more than A amplifies rounding.

    ``runs`` are A's inputs and outputs; ``run`` runs A on other inputs, a set each.
    """
    doubtful = {o.name for o in outputs if _is_doubtful(o)}
    if not doubtful:
        return tuple(outputs)
    now = run([nudged(feeds, seed) for seed, (feeds, _) in enumerate(runs)])
    moved = _moved(doubtful, zip((was for _, was in runs), now, strict=True))
    return tuple(_judged(o, moved[o.name]) if o.name in doubtful else o for o in outputs)


def amplified(
    judge: Judge, a: Source, feeds: Sequence[Mapping[str, Array]], outputs: Sequence[OutputDifference]
) -> str:
    """How far A moves each failed output when its inputs move by one unit in the last place, as a clause; "" unless
    that explains by how much every one of them differs."""
    failed = {o.name: o.smallest_tolerance for o in outputs if o.verdict == "failed"}
    if not failed:
        return ""
    try:
        was = judge.run(a, feeds)
        now = judge.run(a, [nudged(feed, seed) for seed, feed in enumerate(feeds)])
    except (EngineError, WorkerDiedError):
        return ""
    moved = _moved(failed, zip(was, now, strict=True))
    if not all(needed is not None and needed <= LAYERS * moved[name] for name, needed in failed.items()):
        return ""
    return f"{AMPLIFIES}: one unit in the last place of its inputs moves them by {max(moved.values()):.3g} of their scale"


def _moved(
    names: Iterable[str], runs: Iterable[tuple[Mapping[str, Array], Mapping[str, Array]]]
) -> dict[str, float]:
    """The most that each output moves, relative to its scale; infinite where it can't be compared."""
    moved = dict.fromkeys(names, 0.0)
    for was, now in runs:
        for name in moved.keys() & was.keys() & now.keys():
            needed = compare(name, was[name], now[name], tolerance=0.0).smallest_tolerance
            moved[name] = max(moved[name], np.inf if needed is None else needed)
    return moved


def _is_doubtful(output: OutputDifference) -> bool:
    """It differs by a little more than the tolerance, in a floating-point type."""
    needed = output.smallest_tolerance
    return (
        output.verdict == "failed"
        and needed is not None
        and "float" in output.dtype
        and needed <= WIDEST * output.tolerance
    )


def _judged(output: OutputDifference, moved: float) -> OutputDifference:
    allowed = min(max(output.tolerance, LAYERS * moved), WIDEST * output.tolerance)
    if output.smallest_tolerance is None or output.smallest_tolerance > allowed:
        return output
    reason = (
        f"{AMPLIFIES}: one unit in the last place of its inputs moves this output by {moved:.3g} of its "
        f"scale, so {allowed:.3g} is allowed instead of {output.tolerance:g}"
    )
    return replace(output, verdict="passed", tolerance=allowed, reason=reason)


def nudged(feeds: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """The inputs with every floating-point element moved to the next one above or below."""
    random = np.random.default_rng(seed)
    out = {}
    for name, array in feeds.items():
        if array.dtype.kind != "f":
            out[name] = array
            continue
        up = random.random(array.shape) < 0.5
        towards = np.where(up, np.inf, -np.inf).astype(array.dtype)
        out[name] = np.where(np.isfinite(array), np.nextafter(array, towards), array)
    return out
