"""What reaches the terminal: results on stdout, everything else on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

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


def say(text: str, *, error: bool = False) -> None:
    """Print a line. Whoever reads may stop reading: the work and its status stay what they are."""
    try:
        click.echo(text, err=error)
    except BrokenPipeError:
        _silence(error=error)


def show(*parts: RenderableType) -> None:
    """Print what rich renders: with colours on a terminal, plain elsewhere and where NO_COLOR is set."""
    from rich.console import Console  # noqa: PLC0415  (rich is loaded only to show something)

    console = Console(markup=False, emoji=False, highlight=False)
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    say("\n".join(lines))


def warn(text: str) -> None:
    """Print a warning; ``--quiet`` does not silence it."""
    say(f"onnx-fuser: warning: {text}", error=True)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Shows what is being done, on a terminal only; the function it gives takes the name of the step."""
    if quiet() or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.status import Status  # noqa: PLC0415

    with Status("starting", console=Console(stderr=True)) as status:
        yield status.update


def let_go() -> None:
    """Flush; a pipe that closed in the meantime is no error."""
    for error, stream in ((False, sys.stdout), (True, sys.stderr)):
        try:
            stream.flush()
        except BrokenPipeError:
            _silence(error=error)


def _silence(*, error: bool) -> None:
    stream = sys.stderr if error else sys.stdout
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
