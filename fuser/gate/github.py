"""The gate's outcome for GitHub: annotations in the log, and the job's summary in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuser.gate.text import facts, total
from fuser.report.markdown import code, folded, table
from fuser.report.names import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuser.gate.verdict import Outcome, Verdict

COMMANDS = {"refused": "error", "unjudged": "error", "note": "notice"}
MARKS = {"passed": "✅", "refused": "❌", "unjudged": "⚠️"}
ROWS = 50


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


def summary(outcome: Outcome) -> str:
    """Markdown: a row for each model, and what is to be done, below GitHub's limit of a MiB."""
    rows = [
        (f"{MARKS[v.word]} {v.word}", code(v.model), facts(v) or "–") for v in outcome.verdicts[: 10 * ROWS]
    ]
    lines = [f"## onnx-fuser gate: {total(outcome)}", "", *table(("verdict", "model", ""), rows), ""]
    for verdict in [v for v in outcome.verdicts if v.word != "passed"][:ROWS]:
        lines += [f"**{code(verdict.model)}**", "", *_list(verdict), ""]
    quiet = [line for v in outcome.verdicts[:ROWS] for line in _rest(v)]
    if quiet:
        lines += folded("Notes and accepted findings", quiet[: 10 * ROWS])
    return "\n".join(lines).rstrip("\n") + "\n"


def _list(verdict: Verdict) -> Iterator[str]:
    bad = [f for f in verdict.found if f.severity != "note"]
    for f in bad[:ROWS]:
        yield f"- {f.kind}: {code(f.message)}" + (f"<br>Fix: {code(f.fix)}" if f.fix else "")
    if len(bad) > ROWS:
        yield f"- … and {len(bad) - ROWS} more"


def _rest(verdict: Verdict) -> Iterator[str]:
    for f in verdict.found:
        if f.severity == "note":
            yield f"- {code(verdict.model)} {f.kind}: {code(f.message)}"
    for f, e in verdict.accepted:
        yield f"- {code(verdict.model)} accepted until {e.expires}: {code(f.message)} ({code(e.reason)})"


def _message(text: str) -> str:
    return one_line(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
