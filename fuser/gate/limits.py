"""What a model is judged against. Plain data: where it was read is only kept to name it."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date
    from pathlib import Path

LOCK = "fusion.lock"


@dataclass(frozen=True)
class Limits:
    """The limits of one model; None where there is none, and then only parity and the baseline judge.

    ``tolerance`` by glob of output names; the ratios are of the fused model to the model itself, the
    increases shares of the baseline's. ``origin`` has, for each key that was set, its path in ``file``.
    """

    fusions: int | Literal["all"] | None = None
    batch_normalizations: int | None = None
    tolerance: Mapping[str, float] = field(default_factory=dict)
    refuse_reasons: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    cann: str = "master"
    soc: str | None = None
    max_size_ratio: float | None = None
    max_size_increase: float | None = None
    max_latency_ratio: float | None = None
    max_latency_increase: float | None = None
    weights: Literal["free", "locked"] = "free"
    inputs: Path | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    patterns: tuple[Path, ...] = ()
    freeze_inputs: bool = False
    timeout: float = 300.0
    file: str = "onnx-fuser.toml"
    origin: Mapping[str, str] = field(default_factory=dict)
    accept: tuple[Accepted, ...] = ()
    lock: str = LOCK

    def where(self, key: str) -> str:
        """The key and the file that someone would edit to change this limit."""
        return f"{self.origin.get(key, key)} in {self.file}"

    @property
    def timed(self) -> bool:
        """Whether the models have to be timed."""
        return self.max_latency_ratio is not None or self.max_latency_increase is not None


@dataclass(frozen=True)
class Accepted:
    """An exception: findings of one kind, at nodes that match, are let pass through the day it expires."""

    model: str
    finding: str
    reason: str
    expires: date
    node: str = "*"
    where: str = ""

    def covers(self, kind: str, node: str) -> bool:
        """Whether a finding is one of those."""
        return kind == self.finding and matches(node, self.node)


def matches(name: str, glob: str) -> bool:
    """Whether the name is the glob or fits it; ``*`` matches slashes too."""
    return name == glob or fnmatchcase(name, glob)


def last_match(name: str, globs: Mapping[str, float]) -> float | None:
    """The value of the last glob that the name fits."""
    return next((value for glob, value in reversed([*globs.items()]) if matches(name, glob)), None)
