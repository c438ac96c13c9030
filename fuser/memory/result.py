"""What is known of a model's memory: plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

POINTS = 400
"""Most points of a timeline: each holds the largest of the steps it stands for."""


class Step(NamedTuple):
    """Bytes in use while one operator runs; ``at`` counts the operators of the model before fusion."""

    at: int
    bytes: int
    in_place_bytes: int


@dataclass(frozen=True)
class Usage:
    """One model. All in bytes.

    ``peak`` is the most that is in use at once when every operator writes to new memory, ``in_place_peak``
    the same when operators write over inputs that nothing needs later; ``at`` and ``in_place_at`` are the
    nodes where it is reached. ``moved`` is what all operators read and write, weights included. ``unknown``
    counts the values whose size is not known, which count as nothing: the figures are then lower bounds.
    """

    peak: int
    at: str
    in_place_peak: int
    in_place_at: str
    moved: int
    unknown: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Reuse:
    """A fused operator that may write over its input, which nothing needs later; ``saves`` is in bytes."""

    op: str
    node: str
    output: str
    input: str
    saves: int


@dataclass(frozen=True)
class Memory:
    """Both models on inputs of these shapes. ``reason`` says why there are no figures, where there are none.

    ``measured`` is onnxruntime's own peak before and after, optimizations off, in bytes; None where it was
    not run or does not say.
    """

    shapes: Mapping[str, tuple[int, ...]]
    before: Usage | None = None
    after: Usage | None = None
    reuses: tuple[Reuse, ...] = ()
    measured: tuple[int, int] | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Dicts, lists, strings, numbers and None."""
        return {
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "before": _usage(self.before),
            "after": _usage(self.after),
            "in_place": [dict(vars(reuse)) for reuse in self.reuses],
            "measured": self.measured and {"before": self.measured[0], "after": self.measured[1]},
            "reason": self.reason,
        }


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    return None if usage is None else {**vars(usage), "steps": [list(step) for step in usage.steps]}


def thinned(steps: list[Step]) -> tuple[Step, ...]:
    """At most POINTS steps: neighbours become one, at the first one's place, with their largest figures."""
    width = -(-len(steps) // POINTS)
    if width <= 1:
        return tuple(steps)
    groups = (steps[i : i + width] for i in range(0, len(steps), width))
    return tuple(Step(g[0].at, max(s.bytes for s in g), max(s.in_place_bytes for s in g)) for g in groups)
