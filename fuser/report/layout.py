"""Pieces of terminal output: headings, indented sentences, columns; nothing out of a model controls them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Literal

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fuser.report.names import clean, one_line

Cell = str | Text
GOOD, BAD, DOUBTFUL, FAINT = "green", "bold red", "yellow", "dim"
STYLES = {"passed": GOOD, "failed": BAD, "inconclusive": DOUBTFUL}


def line(text: object, style: str = "") -> Text:
    """One paragraph."""
    return Text(clean(text), style)


def heading(text: object) -> Text:
    """The first line of a section."""
    return Text(clean(text), "bold")


def indented(*parts: RenderableType) -> RenderableType:
    """The parts, two columns in."""
    return Padding(Group(*parts), (0, 0, 0, 2))


class Sentences:
    """One paragraph each, two columns in; what does not fit in a line goes on two columns further in."""

    def __init__(self, *texts: object) -> None:
        self._texts = [one_line(text) for text in texts]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Wrap to the width there is."""
        for text in self._texts:
            yield Text(
                textwrap.fill(
                    text,
                    options.max_width,
                    initial_indent="  ",
                    subsequent_indent="    ",
                    break_on_hyphens=False,
                )
            )


def columns(
    rows: Iterable[Sequence[Cell]], *, headings: Sequence[str] = (), right: Iterable[int] = ()
) -> RenderableType:
    """Rows in columns, two columns in; ``right`` numbers the columns that align right."""
    rows = [[c if isinstance(c, Text) else Text(clean(c)) for c in row] for row in rows]
    table = Table(
        box=None, show_header=bool(headings), header_style=FAINT, pad_edge=False, padding=(0, 2, 0, 0)
    )
    align = set(right)
    for i in range(len(headings) or len(rows[0])):
        justify: Literal["left", "right"] = "right" if i in align else "left"
        table.add_column(headings[i] if headings else "", justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return indented(table)


def verdict(word: str) -> Text:
    """A verdict in its colour."""
    return Text(word, STYLES.get(word, ""))
