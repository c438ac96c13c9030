"""What the gate concludes: plain data that knows no output format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuser.gate.limits import Accepted

Severity = Literal["refused", "unjudged", "note"]
Word = Literal["passed", "refused", "unjudged"]
STATUS: Mapping[Word, int] = {"passed": 0, "refused": 1, "unjudged": 2}

KINDS: Mapping[str, str] = {
    "baseline": "The baseline knows the model",
    "batch-normalizations": "BatchNormalizations that are left",
    "exception-expired": "No accepted exception has expired",
    "exception-unused": "An accepted exception that accepts nothing",
    "fusion-gained": "A fusion that the baseline does not have",
    "fusion-lost": "A fusion that the baseline has",
    "fusion-renamed": "A fusion that is there under another name",
    "fusions": "The fewest fusions",
    "latency": "Time of the fused model",
    "model": "The model can be read and judged",
    "near-miss": "What was almost fused",
    "parity": "The fused model computes the same",
    "reason": "Reasons that are not accepted",
    "reason-new": "A near miss that the baseline does not have",
    "size": "Bytes of the fused model",
    "target": "The target takes the model",
    "unfused": "A LeakyRelu that was not fused",
    "weights": "The weights are those of the baseline",
}
"""Every kind of finding, and what it is about."""


@dataclass(frozen=True)
class Found:
    """One thing that was found: by how much, where, what to do about it and in which file.

    ``node`` and ``graph`` are empty where it is about the whole model. ``rule`` tells findings of one kind
    apart: a fusion rule and its label, or a target and its rule.
    """

    kind: str
    severity: Severity
    message: str
    fix: str = ""
    node: str = ""
    graph: str = ""
    rule: str = ""


@dataclass(frozen=True)
class Verdict:
    """One model. ``checks`` are the kinds that were judged, ``accepted`` what exceptions let pass.

    ``near_misses`` are listed for reports that show everything. ``facts`` are the numbers it was judged by.
    """

    model: str
    checks: tuple[str, ...]
    found: tuple[Found, ...]
    accepted: tuple[tuple[Found, Accepted], ...] = ()
    near_misses: tuple[Found, ...] = ()
    facts: Mapping[str, int | float | str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def word(self) -> Word:
        """Refused where anything is, whatever else could not be judged."""
        severities = {f.severity for f in self.found}
        return "refused" if "refused" in severities else "unjudged" if "unjudged" in severities else "passed"

    @property
    def status(self) -> int:
        """The exit status it stands for."""
        return STATUS[self.word]


@dataclass(frozen=True)
class Outcome:
    """One run of the gate: every model's verdict, and what is about none of them.

    ``started`` is when, in UTC, to the second.
    """

    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()
    config: str = ""
    started: str = "1970-01-01T00:00:00"

    @property
    def status(self) -> int:
        """The exit status: 1 where a model is refused, else 2 where one is unjudged or there is none."""
        found = {v.status for v in self.verdicts} or {2}
        return 1 if 1 in found else max(found)
