"""The gate's outcome as SARIF 2.1.0, for code scanning: a rule for each reason and kind of finding."""

from __future__ import annotations

import hashlib
import json
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fuser.gate.verdict import KINDS, Found, Outcome, Verdict
from fuser.report.names import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuser.gate.limits import Accepted

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {"refused": "error", "unjudged": "error", "note": "note"}


def render(outcome: Outcome) -> str:
    """The text of the file."""
    found = [entry for verdict in outcome.verdicts for entry in _all(verdict)]
    ids = sorted({rule_id(f) for _, f, _ in found})
    index = {name: i for i, name in enumerate(ids)}
    kinds = {rule_id(f): f for _, f, _ in found}
    try:
        version = metadata.version("onnx-fuser")
    except metadata.PackageNotFoundError:  # from a checkout
        version = "0"
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "onnx-fuser",
                        "version": version,
                        "rules": [_rule(name, kinds[name]) for name in ids],
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": outcome.status != 2,
                        "exitCode": outcome.status,
                        **_notes(outcome),
                    }
                ],
                "columnKind": "unicodeCodePoints",
                "results": [_result(v, f, e, index[rule_id(f)]) for v, f, e in found],
            }
        ],
    }
    return json.dumps(log, indent=1, ensure_ascii=False)


def rule_id(found: Found) -> str:
    """The kind, and what tells findings of the kind apart: ``reason/Affine:batchnorm/bn``."""
    return f"{found.kind}/{found.rule}" if found.rule else found.kind


def _all(verdict: Verdict) -> Iterator[tuple[Verdict, Found, Accepted | None]]:
    """Everything of one model; a near miss that is also a finding only as that."""
    yield from ((verdict, f, None) for f in verdict.found)
    yield from ((verdict, f, e) for f, e in verdict.accepted)
    stated = {(f.node, f.graph, f.rule) for f in verdict.found if f.kind in ("reason", "reason-new")}
    yield from ((verdict, f, None) for f in verdict.near_misses if (f.node, f.graph, f.rule) not in stated)


def _rule(name: str, found: Found) -> dict[str, Any]:
    about = KINDS[found.kind]
    text = f"{about}: {found.rule}" if found.rule else about
    return {
        "id": clean(name),
        "shortDescription": {"text": clean(text)},
        "fullDescription": {"text": clean(f"{text}.")},
        "help": {"text": "See docs/gate.md, and `onnx-fuser explain MODEL`."},
        "defaultConfiguration": {"level": LEVELS[found.severity]},
    }


def _result(verdict: Verdict, found: Found, accepted: Accepted | None, index: int) -> dict[str, Any]:
    text = clean(found.message + (f". Fix: {found.fix}" if found.fix else ""))
    place: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": _uri(verdict.model)}, "region": {"startLine": 1}}
    }
    if found.node:
        inside = f"{found.graph}/{found.node}" if found.graph else found.node
        place["logicalLocations"] = [
            {"name": clean(found.node), "fullyQualifiedName": clean(inside), "kind": "element"}
        ]
    same = "\0".join((verdict.model, rule_id(found), found.graph, found.node))
    result: dict[str, Any] = {
        "ruleId": clean(rule_id(found)),
        "ruleIndex": index,
        "level": LEVELS[found.severity],
        "message": {"text": text},
        "locations": [place],
        "partialFingerprints": {"onnxFuser/v1": hashlib.sha256(same.encode()).hexdigest()},
    }
    if accepted is not None:
        why = f"{accepted.reason} (until {accepted.expires})"
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": clean(why)}]
    return result


def _uri(model: str) -> str:
    return Path(model).as_uri() if Path(model).is_absolute() else quote(model)


def _notes(outcome: Outcome) -> dict[str, Any]:
    notes = [{"level": "note", "message": {"text": clean(note)}} for note in outcome.notes]
    return {"toolExecutionNotifications": notes} if notes else {}
