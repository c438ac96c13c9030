"""Whether what A gave could show an error: outputs that agree say nothing where none can differ."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fuser.parity.compare import SMALLEST_SCALE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuser.parity.compare import Tolerance
    from fuser.parity.draws import Ran
    from fuser.parity.protocol import Array
    from fuser.parity.result import OutputDifference

TOLERANCES = 10.0
"""An output has to move by so many of its tolerances, or an error of a few percent stays within one."""
LARGEST = 0.01  # of its scale, however wide the tolerance
FEW = 32
"""So few integers, booleans or strings agree too easily: the class of an image hardly ever changes."""
REMEDY = "ask for more draws, or give inputs that move it"


def weighed(
    outputs: Sequence[OutputDifference],
    runs: Sequence[Ran],
    tolerance: Tolerance,
    errors: Mapping[str, float],
) -> tuple[OutputDifference, ...]:
    """The outputs, those inconclusive that agree but would hardly differ either.

    ``errors`` are the absolute ones of the kernels that make outputs (``kernels.py``).
    """
    if not any(ran.feeds for ran in runs):
        return tuple(outputs)  # it takes nothing, so there is nothing else it could give
    if all(_is_flat(ran.feeds) for ran in runs):
        reason = "each input is one number throughout, which hides most weights: give inputs that vary"
        found = {output.name: reason for output in outputs}
    else:
        found = _weak(runs, tolerance, errors)
    return tuple(
        replace(output, verdict="inconclusive", reason=found[output.name])
        if output.verdict == "passed" and output.name in found
        else output
        for output in outputs
    )


def _is_flat(feeds: Mapping[str, Array]) -> bool:
    """Whether every floating-point input of more than one element holds one number only."""
    floats = [array for array in feeds.values() if array.dtype.kind in "fV" and array.size > 1]
    return bool(floats) and all(bool((array == array.reshape(-1)[0]).all()) for array in floats)


def _weak(runs: Sequence[Ran], tolerance: Tolerance, errors: Mapping[str, float]) -> dict[str, str]:
    """The outputs that could hardly differ, with why."""
    arrays: dict[str, list[Array]] = defaultdict(list)
    for ran in runs:
        for name, array in ran.outputs.items():
            arrays[name].append(array)
    found = {}
    for name, given in arrays.items():
        discrete = given[0].dtype.kind not in "fV"
        least = 0.0 if discrete else min(TOLERANCES * tolerance.of(given[0].dtype.name), LARGEST)
        moved, scale = _moved(given)
        error = errors.get(name, 0.0)
        total = sum(array.size for array in given)
        if discrete and total < FEW:
            found[name] = f"it is {total} whole values in all, which agree too easily: {REMEDY}"
        elif moved <= least:
            much = "is the same" if not moved else f"moves by {moved:.2g} of its scale only"
            found[name] = f"it {much} over all draws, so it could hardly show an error: {REMEDY}"
        elif moved * scale <= TOLERANCES * error:
            found[name] = (
                f"it moves by {moved * scale:.2g} only, and onnxruntime computes it to within {error:.2g}: {REMEDY}"
            )
    return found


def _moved(given: Sequence[Array]) -> tuple[float, float]:
    """How far the output moves from draw to draw, relative to its scale, and that scale.

    From element to element where no two draws have the same shape.
    """
    alike = defaultdict(list)
    for array in given:
        alike[array.shape].append(array)
    pairs = [pair for group in alike.values() for pair in pairwise(group)]
    if not pairs:
        pairs = [(array.reshape(-1)[1:], array.reshape(-1)[:-1]) for array in given if array.size > 1]
    if not pairs:
        return np.inf, 1.0  # nobody can tell
    if given[0].dtype.kind not in "fV":
        return float(any(bool((a != b).any()) for a, b in pairs)), 1.0
    wide = [(a.astype(np.float64), b.astype(np.float64)) for a, b in pairs]
    scale = max(
        (float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) for pair in wide for a in pair), default=0.0
    )
    with np.errstate(invalid="ignore"):
        gaps = (np.abs(a - b) for a, b in wide)
        largest = max((float(gap[np.isfinite(gap)].max(initial=0.0)) for gap in gaps), default=0.0)
    scale = max(scale, SMALLEST_SCALE)
    return largest / scale, scale
