"""Findings for the terminal. Takes them as JSON has them, gives what rich can print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fuser.report.layout import BAD, DOUBTFUL, FAINT, Sentences
from fuser.report.names import clean, counted

if TYPE_CHECKING:
    from rich.console import RenderableType

Json = Mapping[str, Any]
SEVERITIES = ("error", "warning", "note")
STYLES = {"error": BAD, "warning": DOUBTFUL, "note": FAINT}
SHOWN = 3
"""Nodes named in one sentence before ``and N more``."""


def counts(found: Iterable[Json]) -> str:
    """``2 errors, 1 warning``, or ``no findings``."""
    number = Counter(finding["severity"] for finding in found)
    return ", ".join(counted(number[s], s) for s in SEVERITIES if number[s]) or "no findings"


def findings(found: Sequence[Json], *, verbose: bool = False) -> Iterator[RenderableType]:
    """Errors first; those of one code and rule under one heading, those that say the same in one sentence."""
    groups: dict[tuple[str, str, str], dict[tuple[str, str], list[str]]] = {}
    for finding in sorted(found, key=lambda f: SEVERITIES.index(f["severity"])):
        key = finding["severity"], finding["code"] or "", finding["rule"]
        same = groups.setdefault(key, {})
        same.setdefault((finding["message"], finding["fix"]), []).append(finding["node"])
    for i, ((severity, code, rule), same) in enumerate(groups.items()):
        if i:
            yield ""
        yield Text(clean(" ".join(filter(None, (severity, code, rule)))), STYLES[severity])
        for (message, fix), nodes in same.items():
            yield Sentences(_sentence(nodes, message, verbose=verbose), *[f"-> {fix}"][: bool(fix)])


def _sentence(nodes: Sequence[str], message: str, *, verbose: bool) -> str:
    named = [repr(node) for node in nodes if node]
    if not named:
        return message
    shown = named if verbose else named[:SHOWN]
    more = f" and {len(named) - len(shown)} more" if len(shown) < len(named) else ""
    return f"{', '.join(shown)}{more}: {message}"
