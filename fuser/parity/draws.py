"""Seeded inputs of several kinds, and the search for shapes that make the model run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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


# In the order they are drawn. Ties and zeros come second, so that the usual three draws have them; magnitudes stay
# within what float16 multiplies and sums.
KINDS = ("normal", "sparse", "wide", "large", "tiny")
UNIT = "unit"  # 0 to 1: for models that take logarithms or roots of their input


def drawn(
    specs: Sequence[InputSpec],
    run: Run,
    *,
    draws: int,
    seed: int,
    given: Mapping[str, Sequence[int]],
    overrides: Mapping[str, Array],
) -> list[Ran]:
    """Draw inputs and run model A on them. Raises the first EngineError when no shape made it run.

    The batch alternates between 1 and 2 where it is free and the model runs with both.
    """
    setting, first = _first(specs, run, seed, given)
    found = [first]
    batches = BATCHES if has_free_batch(specs, given) else BATCHES[:1]
    for index in range(1, draws):
        preferred = Setting(batches[index % len(batches)], setting.size, setting.rank, setting.ints)
        replaced = _overridden(overrides, seed, index) if index % 2 else {}
        tries = [(preferred, replaced), (preferred, {}), (setting, {})]
        ran = _try(specs, run, seed, given, index, KINDS[index % len(KINDS)], tries)
        if ran is not None:
            found.append(ran)
    if not any(_finite(array) for ran in found for array in ran.outputs.values()):
        ran = _try(specs, run, seed, given, draws, UNIT, [(setting, {})])
        if ran is not None:
            found.append(ran)
    return found


def supplied(feeds: Sequence[Mapping[str, Array]], run: Run) -> list[Ran]:
    """Run model A on the user's inputs. Raises EngineError when it does not run on one of them."""
    found = []
    for number, feed in enumerate(feeds):
        shapes = tuple((name, tuple(array.shape)) for name, array in feed.items())
        draw = Draw("given" if len(feeds) == 1 else f"given {number}", None, None, shapes)
        found.append(Ran(draw, feed, run(feed)))
    return found


def _first(
    specs: Sequence[InputSpec], run: Run, seed: int, given: Mapping[str, Sequence[int]]
) -> tuple[Setting, Ran]:
    first: EngineError | None = None
    for setting in settings(specs, given):
        feed = feeds(specs, resolve(specs, given, setting), KINDS[0], seed, 0, setting.ints)
        try:
            outputs = run(feed)
        except EngineError as error:
            first = first or error
            continue
        return setting, Ran(_draw(specs, KINDS[0], seed, feed, setting, given), feed, outputs)
    raise first or EngineError("its inputs have too many elements to draw: give inputs or shapes")


def _try(
    specs: Sequence[InputSpec],
    run: Run,
    seed: int,
    given: Mapping[str, Sequence[int]],
    index: int,
    kind: str,
    tries: Sequence[tuple[Setting, Mapping[str, Array]]],
) -> Ran | None:
    for setting, replaced in tries:
        feed = feeds(specs, resolve(specs, given, setting), kind, seed, index, setting.ints)
        feed.update(replaced)
        try:
            return Ran(_draw(specs, kind, seed, feed, setting, given), feed, run(feed))
        except EngineError:
            continue
    return None


def _draw(
    specs: Sequence[InputSpec],
    kind: str,
    seed: int,
    feed: Mapping[str, Array],
    setting: Setting,
    given: Mapping[str, Sequence[int]],
) -> Draw:
    batch = setting.batch if has_free_batch(specs, given) else None
    return Draw(kind, seed, batch, tuple((name, tuple(array.shape)) for name, array in feed.items()))


def feeds(
    specs: Sequence[InputSpec], shapes: Mapping[str, tuple[int, ...]], kind: str, seed: int, index: int, ints: str
) -> dict[str, Array]:
    """One array per input; the same arguments give the same arrays."""
    return {
        spec.name: _array(spec, shapes[spec.name], kind, np.random.default_rng([seed, index, position]), ints, index)
        for position, spec in enumerate(specs)
    }


def _array(
    spec: InputSpec, shape: tuple[int, ...], kind: str, rng: np.random.Generator, ints: str, index: int
) -> Array:
    dtype = spec.dtype
    if dtype.kind == "b":
        # A lone boolean steers an If: the draws take both branches.
        lone = int(np.prod(shape)) == 1
        return np.full(shape, index % 2 == 0) if lone else np.asarray(rng.random(shape) < 0.5)
    if dtype.kind == "O":
        return np.asarray(rng.choice(np.array(["a", "b", "fuser", ""], dtype=object), shape), dtype=object)
    if dtype.kind in "iu":
        return _integers(dtype, shape, kind, rng, ints)
    return _floats(shape, kind, rng).astype(dtype)


def _integers(dtype: np.dtype[Any], shape: tuple[int, ...], kind: str, rng: np.random.Generator, ints: str) -> Array:
    """Small and not negative, since they may be indices, lengths or counts; an 8-bit image takes its whole range."""
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


def _overridden(overrides: Mapping[str, Array], seed: int, index: int) -> dict[str, Array]:
    """Other values for weights a caller may override, of the same sign and near in size."""
    rng = np.random.default_rng([seed, index, len(overrides)])
    return {name: (array * rng.uniform(0.7, 1.3, array.shape)).astype(array.dtype) for name, array in overrides.items()}


def _finite(array: Array) -> bool:
    if not array.size:
        return False
    return array.dtype.kind not in "fV" or bool(np.isfinite(array.astype(np.float64)).any())
