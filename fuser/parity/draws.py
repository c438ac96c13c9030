"""Seeded inputs of several kinds, and the search for shapes that make the model run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fuser.parity.result import Draw
from fuser.parity.runner import EngineError
from fuser.parity.shapes import BATCHES, Setting, has_free_batch, resolve, settings
from fuser.parity.source import Array, InputSpec

Outputs = dict[str, Array]
Run = Callable[[Mapping[str, Array]], Outputs]


@dataclass(frozen=True)
class Ran:
    """One set of inputs that model A ran on, with what it gave."""

    draw: Draw
    feeds: Mapping[str, Array]
    outputs: Outputs


# In the order they are drawn. Ties and zeros come second, so that the usual three draws have them; magnitudes
# stay within what float16 multiplies and sums.
KINDS = ("normal", "sparse", "wide", "large", "tiny")
UNIT = "unit"  # 0 to 1: for models that take logarithms or roots of their input


@dataclass(frozen=True)
class Plan:
    """What to draw. ``given`` fixes shapes by input; ``overrides`` are weights that a caller may replace."""

    specs: Sequence[InputSpec]
    draws: int
    seed: int
    given: Mapping[str, Sequence[int]] = field(default_factory=dict)
    overrides: Mapping[str, Array] = field(default_factory=dict)

    def feed(self, kind: str, index: int, setting: Setting) -> dict[str, Array]:
        """One array per input; the same arguments give the same arrays."""
        shapes = resolve(self.specs, self.given, setting)
        return {
            spec.name: _array(
                spec, shapes[spec.name], kind, _Source(self.seed, index, position, setting.ints)
            )
            for position, spec in enumerate(self.specs)
        }

    def replaced(self, index: int) -> dict[str, Array]:
        """Other values for weights a caller may override, of the same sign and near in size."""
        rng = np.random.default_rng([self.seed, index, len(self.specs)])
        return {
            name: np.asarray(array * rng.uniform(0.7, 1.3, array.shape)).astype(array.dtype)
            for name, array in self.overrides.items()
        }


def drawn(plan: Plan, run: Run) -> list[Ran]:
    """Draw inputs and run model A on them. Raises the first EngineError when no shape made it run.

    The batch alternates between 1 and 2 where it is free and the model runs with both.
    """
    setting, first = _first(plan, run)
    found = [first]
    batches = BATCHES if has_free_batch(plan.specs, plan.given) else BATCHES[:1]
    for index in range(1, plan.draws):
        preferred = replace(setting, batch=batches[index % len(batches)])
        replaced = plan.replaced(index) if index % 2 else {}
        tries = [(preferred, replaced), (preferred, {}), (setting, {})]
        found += _try(plan, run, KINDS[index % len(KINDS)], index, tries)
    if not any(_finite(array) for ran in found for array in ran.outputs.values()):
        found += _try(plan, run, UNIT, plan.draws, [(setting, {})])
    return found


def supplied(feeds: Sequence[Mapping[str, Array]], run: Run) -> list[Ran]:
    """Run model A on the user's inputs. Raises EngineError when it does not run on one of them."""
    found = []
    for number, feed in enumerate(feeds):
        shapes = tuple((name, tuple(array.shape)) for name, array in feed.items())
        draw = Draw("given" if len(feeds) == 1 else f"given {number}", None, None, shapes)
        found.append(Ran(draw, feed, run(feed)))
    return found


def _first(plan: Plan, run: Run) -> tuple[Setting, Ran]:
    first: EngineError | None = None
    for setting in settings(plan.specs, plan.given):
        try:
            return setting, _run(plan, run, KINDS[0], 0, setting, {})
        except EngineError as error:
            first = first or error
    raise first or EngineError("its inputs have too many elements to draw: give inputs or shapes")


def _try(
    plan: Plan, run: Run, kind: str, index: int, tries: Sequence[tuple[Setting, Mapping[str, Array]]]
) -> list[Ran]:
    for setting, replaced in tries:
        try:
            return [_run(plan, run, kind, index, setting, replaced)]
        except EngineError:
            continue
    return []


def _run(  # noqa: PLR0917 - what makes one run
    plan: Plan, run: Run, kind: str, index: int, setting: Setting, replaced: Mapping[str, Array]
) -> Ran:
    feed = {**plan.feed(kind, index, setting), **replaced}
    batch = setting.batch if has_free_batch(plan.specs, plan.given) else None
    shapes = tuple((name, tuple(array.shape)) for name, array in feed.items())
    return Ran(Draw(kind, plan.seed, batch, shapes), feed, run(feed))


@dataclass(frozen=True)
class _Source:
    """Where one array's values come from."""

    seed: int
    index: int
    position: int
    ints: str

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.index, self.position])


def _array(spec: InputSpec, shape: tuple[int, ...], kind: str, source: _Source) -> Array:
    dtype, rng = spec.dtype, source.rng
    if dtype.kind == "b":
        # A lone boolean steers an If: the draws take both branches.
        lone = math.prod(shape) == 1
        return np.full(shape, source.index % 2 == 0) if lone else np.asarray(rng.random(shape) < 0.5)
    if dtype.kind == "O":
        return np.asarray(rng.choice(np.array(["a", "b", "fuser", ""], dtype=object), shape), dtype=object)
    if dtype.kind in "iu":
        return _integers(dtype, shape, kind, rng, source.ints)
    return _floats(shape, kind, rng).astype(dtype)


def _integers(
    dtype: np.dtype[Any], shape: tuple[int, ...], kind: str, rng: np.random.Generator, ints: str
) -> Array:
    """Small and not negative, since they may be indices, lengths or counts; an 8-bit image takes its whole
    range."""
    if ints == "small" and dtype.itemsize == 1 and len(shape) >= 3:
        info = np.iinfo(dtype)
        return np.asarray(rng.integers(info.min, info.max, shape, endpoint=True)).astype(dtype)
    low, high = {"small": (0, 1) if kind == "sparse" else (1, 3), "ones": (1, 1), "zeros": (0, 0)}[ints]
    return np.asarray(rng.integers(low, high, shape, endpoint=True)).astype(dtype)


def _floats(shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> Array:
    match kind:
        case "normal":
            return np.asarray(rng.standard_normal(shape) * 2)
        case "sparse":
            return np.asarray(rng.choice([-2.0, -1.0, -0.5, 0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 2.0], shape))
        case "wide":
            return np.asarray(rng.uniform(-10, 10, shape))
        case "large":
            return np.asarray(rng.standard_normal(shape) * 30)
        case "tiny":
            return np.asarray(rng.standard_normal(shape) * 1e-3)
        case _:
            return np.asarray(rng.random(shape))


def _finite(array: Array) -> bool:
    if not array.size:
        return False
    return array.dtype.kind not in "fV" or bool(np.isfinite(array.astype(np.float64)).any())
