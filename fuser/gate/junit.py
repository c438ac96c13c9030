"""The gate's outcome as JUnit XML, which every CI shows: a suite for each model, a case for each check."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from fuser.gate.verdict import KINDS, Found, Outcome, Verdict
from fuser.report.names import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TAGS = {"refused": "failure", "unjudged": "error"}


def render(outcome: Outcome) -> str:
    """The text of the file."""
    suites = [_suite(verdict) for verdict in outcome.verdicts]
    root = ET.Element("testsuites", {"name": "onnx-fuser gate", **_totals(suites)})
    root.extend(suites)
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode")


def _totals(suites: Sequence[ET.Element]) -> dict[str, str]:
    """The sums of the suites' counts."""
    counts = {k: str(sum(int(s.get(k, "0")) for s in suites)) for k in ("tests", "failures", "errors")}
    return {**counts, "time": f"{sum(float(s.get('time', '0')) for s in suites):.3f}"}


def _suite(verdict: Verdict) -> ET.Element:
    cases = [*_cases(verdict)]
    suite = ET.Element(
        "testsuite",
        {
            "name": clean(verdict.model),
            "tests": str(len(cases)),
            "failures": str(sum(case.find("failure") is not None for case in cases)),
            "errors": str(sum(case.find("error") is not None for case in cases)),
            "skipped": str(sum(case.find("skipped") is not None for case in cases)),
            "time": f"{verdict.seconds:.3f}",
        },
    )
    if verdict.facts:
        properties = ET.SubElement(suite, "properties")
        for name, value in verdict.facts.items():
            ET.SubElement(properties, "property", {"name": name, "value": str(value)})
    suite.extend(cases)
    return suite


def _cases(verdict: Verdict) -> Iterator[ET.Element]:
    """A case for each kind that was judged or found; an accepted finding is skipped, with its reason."""
    bad = [f for f in verdict.found if f.severity in TAGS]
    kinds = dict.fromkeys((*verdict.checks, *(f.kind for f in bad), *(f.kind for f, _ in verdict.accepted)))
    for kind in kinds:
        case = ET.Element("testcase", {"classname": clean(verdict.model), "name": KINDS[kind], "time": "0"})
        found = [f for f in bad if f.kind == kind]
        for severity, tag in TAGS.items():
            some = [f for f in found if f.severity == severity]
            if some:
                more = f" (and {len(some) - 1} more)" if len(some) > 1 else ""
                ET.SubElement(
                    case, tag, {"type": kind, "message": clean(some[0].message) + more}
                ).text = "\n".join(map(_line, some))
                break  # a case has one result
        else:
            skipped = [
                f"accepted until {e.expires} ({e.reason}): {f.message}"
                for f, e in verdict.accepted
                if f.kind == kind
            ]
            if skipped:
                ET.SubElement(case, "skipped", {"message": clean("; ".join(skipped))})
        notes = [_line(f) for f in verdict.found if f.kind == kind and f.severity == "note"]
        if notes:
            ET.SubElement(case, "system-out").text = "\n".join(notes)
        yield case


def _line(found: Found) -> str:
    return clean(found.message + (f". Fix: {found.fix}" if found.fix else ""))
