"""The gate's outcome for GitHub: annotations in the log, and the job's summary in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuser.gate.text import facts, total
from fuser.report.markdown import code, folded, table
from fuser.report.names import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fuser.gate.verdict import Outcome, Verdict

COMMANDS = {"refused": "error", "unjudged": "error", "note": "notice"}
MARKS = {"passed": "✅", "refused": "❌", "unjudged": "⚠️"}
SUMMARY, COMMENT = 1_000_000, 64_000
"""Bytes below what GitHub takes as a job's summary, and as a comment on a pull request."""


def commands(outcome: Outcome) -> str:
    """One workflow command a finding, then the sum."""
    lines = [
        f"::{COMMANDS[f.severity]} file={_value(v.model)},title={_value(f'onnx-fuser: {f.kind}')}::"
        + _message(f"{f.message}. Fix: {f.fix}" if f.fix else f.message)
        for v in outcome.verdicts
        for f in v.found
    ]
    lines += [f"::notice title=onnx-fuser::{_message(note)}" for note in outcome.notes]
    return "\n".join([*lines, total(outcome)])


def comment(outcome: Outcome) -> str:
    """The summary, short enough for a comment."""
    return summary(outcome, COMMENT)


def summary(outcome: Outcome, limit: int = SUMMARY) -> str:
    """Markdown: a row for each model, and what is to be done, in three parts, below ``limit`` bytes."""
    part = limit // 3 - 200
    rows = [(f"{MARKS[v.word]} {v.word}", code(v.model), facts(v) or "–") for v in outcome.verdicts]
    lines = [f"## onnx-fuser gate: {total(outcome)}", ""]
    lines += [*_fitting(table(("verdict", "model", ""), rows), part), ""]
    lines += _fitting((line for v in outcome.verdicts if v.word != "passed" for line in _list(v)), part)
    notes = [line for v in outcome.verdicts for line in _notes(v)]
    if notes:
        lines += folded("Notes and accepted findings", _fitting(notes, part))
    return "\n".join(lines).rstrip("\n") + "\n"


def _fitting(lines: Iterable[str], left: int) -> Iterator[str]:
    """The lines that fit into so many bytes."""
    for line in lines:
        left -= len(line.encode()) + 1
        if left < 0:
            yield ""
            yield "… and more, which the JSON report has"
            return
        yield line


def _list(verdict: Verdict) -> Iterator[str]:
    yield from (f"**{code(verdict.model)}**", "")
    for f in verdict.found:
        if f.severity != "note":
            yield f"- {f.kind}: {code(f.message)}" + (f"<br>Fix: {code(f.fix)}" if f.fix else "")
    yield ""


def _notes(verdict: Verdict) -> Iterator[str]:
    for f in verdict.found:
        if f.severity == "note":
            yield f"- {code(verdict.model)} {f.kind}: {code(f.message)}"
    for f, e in verdict.accepted:
        yield f"- {code(verdict.model)} accepted until {e.expires}: {code(f.message)} ({code(e.reason)})"


def _message(text: str) -> str:
    return one_line(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
