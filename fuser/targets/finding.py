"""One thing a target would refuse, ignore, or do differently from what the model says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """What is wrong, where, and what to do about it.

    ``code`` is the target's own error code where it prints one, so that people can search for what they
    saw; ``fix`` is empty where there is nothing to do; ``rule`` is our stable name of the rule; ``node`` is
    empty when the finding is about the model as a whole. An ``error`` means the target refuses the model, a
    ``warning`` that it may, or that it computes something else, a ``note`` that there is something to know.
    """

    code: str | None
    severity: Severity
    node: str
    message: str
    fix: str
    rule: str

    def to_json(self) -> dict[str, str | None]:
        """The finding as it stands in a report."""
        return asdict(self)


def refuses(findings: tuple[Finding, ...]) -> bool:
    """Whether any of these means that the target takes no such model."""
    return any(finding.severity == "error" for finding in findings)
