"""What reaches the terminal: results on stdout, everything else on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import click

from fuser.report.names import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType


def quiet() -> bool:
    """Whether ``--quiet`` was said."""
    return _level() < 0


def verbose() -> bool:
    """Whether ``--verbose`` was said."""
    return _level() > 0


def _level() -> int:
    return int(click.get_current_context().find_root().meta.get("fuser.verbosity", 0))


def say(text: str, *, error: bool = False, color: bool | None = None) -> None:
    """Print text. Whoever reads may stop reading: the work and its status stay what they are."""
    try:
        click.echo(text, err=error, color=color)
    except BrokenPipeError:
        _silence(error=error)


def complain(sentence: object) -> None:
    """Print one line on stderr that says what is wrong and how to fix it."""
    say(f"onnx-fuser: {one_line(sentence)}", error=True)


def show(*parts: RenderableType) -> None:
    """Print what rich renders: with colours on a terminal, plain elsewhere and where NO_COLOR is set."""
    from rich.console import Console

    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"  # rich would keep bold
    console = Console(markup=False, emoji=False, highlight=False, color_system=colours)
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    # rich has decided on colours by now, and fills every line up with spaces
    say("\n".join(text.rstrip() for text in captured.get().splitlines()), color=True)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Shows what is being done, on a terminal only; the function it gives takes the name of the step."""
    if quiet() or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return
    from rich.console import Console
    from rich.status import Status

    with Status("starting", console=Console(stderr=True)) as status:
        yield status.update


def let_go() -> None:
    """Flush; a pipe that closed in the meantime is no error."""
    _flush(error=False)
    _flush(error=True)


def _flush(*, error: bool) -> None:
    try:
        (sys.stderr if error else sys.stdout).flush()
    except BrokenPipeError:
        _silence(error=error)


def _silence(*, error: bool) -> None:
    stream = sys.stderr if error else sys.stdout
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
