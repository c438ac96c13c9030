"""Two arrays, one verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fuser.parity.protocol import Array, dtype_name
from fuser.parity.result import OutputDifference, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

# Relative to the output's scale, by the coarsest type that weights pass through. A fused chain rounds its
# constants once and its values in another order; these are some hundred units in the last place of float32,
# eight of float16.
TOLERANCES = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3, "bfloat16": 2e-2}


@dataclass(frozen=True)
class Tolerance:
    """``fixed``: the caller's, for every output alike; otherwise the type of the weights decided."""

    value: float
    fixed: bool = False

    def of(self, dtype: str) -> float:
        """The tolerance for an output of that type, which may be coarser than the weights."""
        return self.value if self.fixed else max(self.value, TOLERANCES.get(dtype, 0.0))


SMALLEST_SCALE = 1e-6
DECADES = 12  # of a histogram, below 1; two bins each
BLOCK = 1 << 20  # elements held in float64 at a time


def compare(name: str, a: Array, b: Array, *, tolerance: float, draw: int = 0) -> OutputDifference:
    """Judge ``b`` against ``a``; ``tolerance`` is for floating-point types, see ``OutputDifference``."""
    a, b = np.asarray(a), np.asarray(b)
    output = _Output(name, dtype_name(a), tolerance, draw)
    if a.dtype != b.dtype or a.shape != b.shape:
        reason = f"A gives {_describe(a)}, B gives {_describe(b)}"
        return output.found("failed", reason)
    if not a.size:
        return output.found("inconclusive", "it has no element, so nothing was compared")
    if a.dtype.kind == "c":
        part = a.real.dtype
        a, b = np.ascontiguousarray(a).reshape(-1).view(part), np.ascontiguousarray(b).reshape(-1).view(part)
    if a.dtype.kind in "biu":
        return _integers(output, a, b)
    if a.dtype.kind in "OSU":
        return _strings(output, a, b)
    return _floats(output, a, b)


def _describe(array: Array) -> str:
    return f"{array.dtype.name}{list(array.shape)}"


@dataclass(frozen=True)
class _Output:
    """What is known of an output before it is measured."""

    name: str
    dtype: str
    tolerance: float
    draw: int

    def found(
        self,
        verdict: Verdict,
        reason: str,
        smallest: float | None = None,
        measures: tuple[float | None, float | None, float | None, float | None] = (None, None, None, None),
        histogram: tuple[int, ...] = (),
    ) -> OutputDifference:
        """``measures``: max_abs, max_rel, cosine, snr_db."""
        return OutputDifference(
            self.name, self.dtype, *measures, self.tolerance, smallest, verdict, reason, self.draw, histogram
        )


def _index(a: Array, flat: int) -> str:
    return "[" + ", ".join(str(int(i)) for i in np.unravel_index(flat, a.shape)) + "]"


def _integers(output: _Output, a: Array, b: Array) -> OutputDifference:
    """Exact, but one unit of an 8-bit type: there, a rounding that goes the other way is a whole unit."""
    allowed = 1.0 if a.dtype.kind in "iu" and a.dtype.itemsize == 1 else 0.0
    wide = np.uint64  # wraps around, so the difference of any two 64-bit values is exact
    units = np.where(a > b, a.astype(wide) - b.astype(wide), b.astype(wide) - a.astype(wide))
    worst = int(np.argmax(units))
    largest = float(units.reshape(-1)[worst])
    if not largest:
        reason = "equal"
    else:
        share = np.count_nonzero(units)
        reason = (
            f"{share} of {a.size} values differ, most at {_index(a, worst)}: "
            f"A {a.reshape(-1)[worst]}, B {b.reshape(-1)[worst]}"
        )
    relative = largest / max(1.0, abs(float(a.reshape(-1)[worst])))
    verdict: Verdict = "passed" if largest <= allowed else "failed"
    return replace(output, tolerance=allowed).found(verdict, reason, largest, (largest, relative, None, None))


def _strings(output: _Output, a: Array, b: Array) -> OutputDifference:
    output = replace(output, tolerance=0.0)
    differ = np.asarray(a != b).reshape(-1)
    if not differ.any():
        return output.found("passed", "equal", 0.0)
    at = int(np.argmax(differ))
    reason = (
        f"{int(differ.sum())} of {a.size} values differ, first at {_index(a, at)}: "
        f"A {a.reshape(-1)[at]!r}, B {b.reshape(-1)[at]!r}"
    )
    return output.found("failed", reason)


def _blocks(a: Array, b: Array) -> Iterator[tuple[int, Array, Array]]:
    flat_a, flat_b = a.reshape(-1), b.reshape(-1)
    for start in range(0, flat_a.size, BLOCK):
        stop = start + BLOCK
        yield start, flat_a[start:stop].astype(np.float64), flat_b[start:stop].astype(np.float64)


def _floats(output: _Output, a: Array, b: Array) -> OutputDifference:
    scale, finite = 0.0, 0
    for start, x, y in _blocks(a, b):
        special = ~(np.isfinite(x) & np.isfinite(y))
        # NaN equals NaN in place; an infinity equals only the infinity of its sign.
        misplaced = special & ~((np.isnan(x) & np.isnan(y)) | (x == y))
        if misplaced.any():
            at = int(np.argmax(misplaced))
            where = _index(a, start + at)
            reason = f"NaN or infinity in different places: at {where} A is {x[at]:g}, B is {y[at]:g}"
            return output.found("failed", reason)
        kept = np.abs(x[~special])
        finite += kept.size
        scale = max(scale, float(kept.max(initial=0.0)))
    if not finite:
        reason = "every value is NaN or infinite, which is evidence of nothing"
        return output.found("inconclusive", reason)

    scale = max(scale, SMALLEST_SCALE)
    smallest, worst, values = -1.0, 0, (0.0, 0.0)
    max_abs = max_rel = dot = power_a = power_b = noise = 0.0
    bins = np.zeros(2 * DECADES + 3, np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        for start, x, y in _blocks(a, b):
            special = ~np.isfinite(x)
            x[special] = y[special] = 0.0
            # Everything in units of the scale, so that no square overflows.
            gap = np.abs(x - y) / scale
            size = np.abs(x) / scale
            needed = gap / (1.0 + size)
            at = int(np.argmax(needed))
            if needed[at] > smallest:
                smallest, worst, values = float(needed[at]), start + at, (float(x[at]), float(y[at]))
            bins += _binned(needed)
            max_abs = max(max_abs, float(gap.max()) * scale)
            max_rel = max(max_rel, float((gap / np.maximum(size, 1e-3)).max()))
            dot += float((x / scale) @ (y / scale))
            power_a += float(size @ size)
            power_b += float(np.square(y / scale).sum())
            noise += float(gap @ gap)
        lengths = math.sqrt(power_a) * math.sqrt(power_b)
        cosine = min(1.0, dot / lengths) if lengths and math.isfinite(lengths) else None
        snr_db = 10.0 * math.log10(power_a / noise) if noise and power_a and math.isfinite(noise) else None
    if not smallest:
        reason = "equal"
    else:
        reason = (
            f"worst at {_index(a, worst)}: A {values[0]:.9g}, B {values[1]:.9g}, on values up to {scale:.3g}"
        )
    verdict: Verdict = "passed" if smallest <= output.tolerance else "failed"
    return output.found(verdict, reason, smallest, (max_abs, max_rel, cosine, snr_db), tuple(map(int, bins)))


def _binned(needed: Array) -> Array:
    """How many elements need which tolerance; see ``OutputDifference.histogram``."""
    with np.errstate(divide="ignore"):
        halves = np.floor(2 * np.log10(needed)) + 2 * DECADES + 2
    places = np.where(needed == 0, 0, np.clip(halves, 1, 2 * DECADES + 2)).astype(np.int64)
    return np.bincount(places, minlength=2 * DECADES + 3)


def worst_first(difference: OutputDifference) -> tuple[int, float]:
    """Sort key, the gravest last: failed over passed over not compared, then by how far."""
    rank = {"inconclusive": 0, "passed": 1, "failed": 2}[difference.verdict]
    needed = difference.smallest_tolerance
    if needed is None:
        return rank, math.inf
    return rank, needed / difference.tolerance if difference.tolerance else needed
