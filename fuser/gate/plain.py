"""The gate's outcome as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuser.gate.verdict import Outcome, Verdict

FORMAT = 1


def render(outcome: Outcome) -> str:
    """Everything the gate knows, for programs."""
    found = {
        "format": FORMAT,
        "status": outcome.status,
        "config": outcome.config,
        "models": [_model(v) for v in outcome.verdicts],
        "notes": list(outcome.notes),
    }
    return json.dumps(found, indent=1, ensure_ascii=False)


def _model(verdict: Verdict) -> dict[str, Any]:
    return {
        "model": verdict.model,
        "verdict": verdict.word,
        "checks": list(verdict.checks),
        "findings": [asdict(f) for f in verdict.found],
        "accepted": [
            {**asdict(f), "reason": e.reason, "expires": e.expires.isoformat()} for f, e in verdict.accepted
        ],
        "near_misses": [asdict(f) for f in verdict.near_misses],
        "facts": dict(verdict.facts),
        "seconds": verdict.seconds,
    }
