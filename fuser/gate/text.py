"""The gate's outcome for the terminal: one line a model, and below it what is wrong and what to do."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from fuser.gate.verdict import STATUS, Found, Outcome, Verdict
from fuser.report.layout import BAD, DOUBTFUL, FAINT, GOOD, Sentences
from fuser.report.names import clean, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

STYLES = {"passed": GOOD, "refused": BAD, "unjudged": DOUBTFUL}
SHOWN = 10
"""Notes of one model before ``… and N more``; what refuses is shown whole."""


def render(outcome: Outcome, *, verbose: bool = False, quiet: bool = False) -> Iterator[RenderableType]:
    """Every model, then the sum; with ``quiet`` only what did not pass."""
    for verdict in outcome.verdicts:
        if not (quiet and verdict.word == "passed"):
            yield from _model(verdict, verbose=verbose, quiet=quiet)
    if not quiet:
        for note in outcome.notes:
            yield Text(clean(note), FAINT)
        yield Text(clean(total(outcome)), "bold")


def total(outcome: Outcome) -> str:
    """``3 models: 2 passed, 1 refused``."""
    words = Counter(v.word for v in outcome.verdicts)
    return f"{counted(len(outcome.verdicts), 'model')}: " + ", ".join(
        f"{words[w]} {w}" for w in STATUS if words[w]
    )


def facts(verdict: Verdict) -> str:
    """The numbers of one model in half a line."""
    f = verdict.facts
    if not f:
        return ""
    before, after = f["batch_normalizations_before"], f["batch_normalizations_after"]
    said = [f"{f['fusions']} fused"]
    if before:
        said.append(f"{after} of {before} BatchNormalization left")
    said.append(f"parity {f['parity']}")
    if "ms_before" in f:
        said.append(f"{float(f['ms_before']):.3g} -> {float(f['ms_after']):.3g} ms")
    return ", ".join(said)


def _model(verdict: Verdict, *, verbose: bool, quiet: bool) -> Iterator[RenderableType]:
    about = facts(verdict)
    yield Text.assemble(
        (verdict.word, STYLES[verdict.word]),
        f" {clean(verdict.model)}",
        (f": {about}" if about else "", FAINT),
    )
    bad = [f for f in verdict.found if f.severity != "note"]
    notes = [f for f in verdict.found if f.severity == "note"]
    yield from (_found(f) for f in bad)
    if quiet:
        return
    yield from (
        Sentences(f"accepted until {e.expires}: {f.kind}: {f.message} ({e.reason})")
        for f, e in verdict.accepted
    )
    shown = notes if verbose else notes[:SHOWN]
    yield from (_found(f) for f in shown)
    if len(shown) < len(notes):
        yield Sentences(f"… and {len(notes) - len(shown)} more notes: --verbose has them")


def _found(found: Found) -> RenderableType:
    return Sentences(f"{found.kind}: {found.message}" + (f". Fix: {found.fix}" if found.fix else ""))
