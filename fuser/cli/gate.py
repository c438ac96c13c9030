"""``onnx-fuser gate``."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fuser.cli import options, terminal
from fuser.cli.files import refuse_unwritable, write_whole
from fuser.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuser.gate.verdict import Outcome

SUFFIXES = {".json": "json", ".xml": "junit", ".sarif": "sarif", ".md": "markdown"}


@click.command("gate", short_help="Judge models against limits and a baseline, in CI.")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.option(
    "--config", "config_file", type=options.PATH, metavar="FILE",
    help="Limits: onnx-fuser.toml, or pyproject.toml with [tool.onnx-fuser].  [default: the nearest upwards]",
)  # fmt: skip
@click.option("--update", is_flag=True, help="Agree to what the models are now: write it to fusion.lock.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "junit", "sarif", "github"]), default="text",
    show_default=True, help="What is printed; github: annotations, and the job's summary.",
)  # fmt: skip
@click.option(
    "--report", "reports", type=options.PATH, multiple=True, metavar="FILE",
    help="Write there too, by the suffix: .json, .xml (JUnit), .sarif or .md. Repeatable.",
)  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Models at the same time.  [default: processors]"
)
@options.quiet
@options.verbose
def command(
    *,
    models: tuple[str, ...],
    config_file: Path | None,
    update: bool,
    form: str,
    reports: tuple[Path, ...],
    jobs: int | None,
) -> int:
    """Judge each MODEL, a path or a glob in quotes, against limits and the baseline in fusion.lock.

    Each model is fused and checked for parity as optimize does; nothing is written but reports.

    Exit status: 0, all passed; 1, one is refused; 2, one could not be judged, or there is none.

    \b
    Examples:
      onnx-fuser gate 'exports/*.onnx' --update
      onnx-fuser gate 'exports/*.onnx' --format github --report gate.sarif
    """
    for path in reports:
        if path.suffix not in SUFFIXES:
            raise ConfigError(f"{path} has no known suffix; name it {', '.join(f'*{s}' for s in SUFFIXES)}")
        refuse_unwritable(path, others=tuple(Path(m) for m in models))
    from fuser.gate.config import find, read
    from fuser.gate.run import gate

    config = find(Path()) if config_file is None else read(config_file)
    with _bar() as progress:
        outcome = gate(models, config, update=update, jobs=jobs or 0, progress=progress)
    for path in reports:
        write_whole(path, _text(outcome, SUFFIXES[path.suffix]) + "\n")
    _show(outcome, form)
    return outcome.status


def _show(outcome: Outcome, form: str) -> None:
    if form != "text":
        terminal.say(_text(outcome, form))
    else:
        from fuser.gate.text import render

        parts = [*render(outcome, verbose=terminal.verbose(), quiet=terminal.quiet())]
        if parts:
            terminal.show(*parts)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if form == "github" and summary:
        with Path(summary).open("a", encoding="utf-8") as file:  # the file is the job's; others append too
            file.write(_text(outcome, "summary"))


def _text(outcome: Outcome, form: str) -> str:
    from fuser.gate import github, junit, plain, sarif

    renderers: dict[str, Callable[[Outcome], str]] = {
        "json": plain.render,
        "junit": junit.render,
        "sarif": sarif.render,
        "github": github.commands,
        "markdown": github.comment,
        "summary": github.summary,
    }
    return renderers[form](outcome)


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal; nothing elsewhere."""
    if terminal.quiet() or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _done, _all: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("models"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("models", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
