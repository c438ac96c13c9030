"""The gate's outcome as JUnit XML, which every CI shows: a suite for each model, a case for each check."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from fuser.gate.verdict import KINDS, Found, Outcome, Verdict
from fuser.report.names import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

TAGS = {"refused": "failure", "unjudged": "error"}


def render(outcome: Outcome) -> str:
    """The text of the file: what Ant's schema asks for, and nothing that Jenkins' schemas do not know."""
    root = ET.Element("testsuites")
    for i, verdict in enumerate(outcome.verdicts):
        root.append(_suite(verdict, i, outcome.started))
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode")


def _suite(verdict: Verdict, number: int, started: str) -> ET.Element:
    cases = [*_cases(verdict)]
    count = {
        tag: str(sum(case.find(tag) is not None for case in cases)) for tag in ("failure", "error", "skipped")
    }
    suite = ET.Element(
        "testsuite",
        {
            "id": str(number),
            "package": "onnx-fuser gate",
            "name": one_line(verdict.model),
            "hostname": "localhost",
            "timestamp": started,
            "tests": str(len(cases)),
            "failures": count["failure"],
            "errors": count["error"],
            "skipped": count["skipped"],
            "time": f"{verdict.seconds:.3f}",
        },
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in {"verdict": verdict.word, **verdict.facts}.items():
        ET.SubElement(properties, "property", {"name": name, "value": str(value)})
    suite.extend(cases)
    ET.SubElement(suite, "system-out").text = "\n".join(
        _line(f) for f in verdict.found if f.severity == "note"
    )
    ET.SubElement(suite, "system-err")
    return suite


def _cases(verdict: Verdict) -> Iterator[ET.Element]:
    """A case for each kind that was judged or found; an accepted finding is skipped, with its reason."""
    bad = [f for f in verdict.found if f.severity in TAGS]
    for kind in dict.fromkeys(
        (*verdict.checks, *(f.kind for f in bad), *(f.kind for f, _ in verdict.accepted))
    ):
        case = ET.Element(
            "testcase", {"classname": one_line(verdict.model), "name": KINDS[kind], "time": "0"}
        )
        some = [f for f in bad if f.kind == kind]
        accepted = [(f, e) for f, e in verdict.accepted if f.kind == kind]
        if some:
            tag = next(TAGS[s] for s in TAGS if any(f.severity == s for f in some))
            more = f" (and {len(some) - 1} more)" if len(some) > 1 else ""
            result = ET.SubElement(case, tag, {"type": kind, "message": one_line(some[0].message) + more})
            result.text = "\n".join(map(_line, some))
        elif accepted:
            ET.SubElement(case, "skipped").text = "\n".join(
                f"accepted until {e.expires} ({one_line(e.reason)}): {_line(f)}" for f, e in accepted
            )
        yield case


def _line(found: Found) -> str:
    return one_line(found.message + (f". Fix: {found.fix}" if found.fix else ""))
