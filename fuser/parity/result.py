"""What a parity check found: plain data that knows no output format but JSON's types."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["passed", "failed", "inconclusive"]


@dataclass(frozen=True)
class Draw:
    """One set of inputs: where it came from and the shape each input had."""

    kind: str
    seed: int | None
    batch: int | None
    shapes: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class OutputDifference:
    """How far one output of B is from A's, on the draw where it is furthest.

    Floating point: an element passes when ``|a - b| <= tolerance * (scale + |a|)``, ``scale`` the largest
    finite ``|a|`` of the output (at least 1e-6); ``smallest_tolerance`` is the least that passes. ``max_rel``
    is relative to ``|a|``, but to no less than a thousandth of the scale. ``snr_db`` is None when nothing
    differs. Integers, booleans and strings: ``tolerance`` and ``smallest_tolerance`` are in units of the
    value. A measure is None where it does not exist: the shapes differ, NaN stands elsewhere, there is
    nothing to compare. ``histogram`` counts the elements of all draws by the tolerance that each needs:
    exactly equal; below 1e-12; then by half decades up to 1; 1 and more. It is empty for what is no
    floating-point output.
    """

    name: str
    dtype: str
    max_abs: float | None
    max_rel: float | None
    cosine: float | None
    snr_db: float | None
    tolerance: float
    smallest_tolerance: float | None
    verdict: Verdict
    reason: str
    draw: int = 0
    histogram: tuple[int, ...] = ()


ANCHORS = frozenset({"Conv", "ConvTranspose", "Gemm"})
"""The operators that others are folded into."""


@dataclass(frozen=True)
class Site:
    """A place that was rewritten. The values at its border have the same names in A and in B.

    ``graph`` is "" for the main graph; "if_node/then_branch" for a body (the node's name, or its first
    output, then the attribute); "function domain::name" or "function domain::name:overload" for a model-local
    function. ``inputs`` are the values that enter, ``output`` the one that leaves, ``op`` the operator B has
    there and ``nodes`` the nodes of A it stands for.
    """

    graph: str
    output: str
    inputs: tuple[str, ...]
    op: str
    nodes: tuple[str, ...] = ()

    @property
    def has_activation(self) -> bool:
        """Whether what B has there is more than an operator into whose weights others went."""
        return self.op not in ANCHORS

    def __str__(self) -> str:
        """As a sentence names it."""
        where = f" in {self.graph}" if self.graph else ""
        return f"{self.op} at {self.output!r}{where}"


@dataclass(frozen=True)
class SiteDifference:
    """What is known about one site.

    ``alone`` says whether the site was cut out and judged by itself; otherwise the verdict is the whole
    model's. ``negatives`` is the share of negative values at its output in A, over all draws: at 0.0 the
    slope was never used.
    """

    site: Site
    verdict: Verdict
    outputs: tuple[OutputDifference, ...]
    negatives: float | None
    reason: str
    alone: bool = False


@dataclass(frozen=True)
class Parity:
    """The answer to: does B compute what A computes?"""

    verdict: Verdict
    reason: str
    judge: str
    draws: tuple[Draw, ...] = ()
    outputs: tuple[OutputDifference, ...] = ()
    sites: tuple[SiteDifference, ...] = ()
    guilty: tuple[Site, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Dicts, lists, strings, booleans, None and finite numbers (an infinite measure becomes None)."""
        found = _plain(asdict(self))
        for draw in found["draws"]:
            draw["shapes"] = dict(draw["shapes"])
        return dict(found)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
