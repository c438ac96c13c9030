"""``onnx-fuser inspect``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fuser.cli import options, terminal

if TYPE_CHECKING:
    from collections.abc import Mapping


@click.command("inspect")
@click.argument("file", metavar="REPORT_OR_MODEL", type=options.PATH)
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True,
    help="For people, for programs, or for a pull request.",
)  # fmt: skip
@options.verbose
def command(file: Path, form: str) -> int:
    """Show a report, or what a model consists of.

    Of a model: its operators, its weights, the fused operators in it with the nodes they stand for, and what
    could be fused.

    \b
    Examples:
      onnx-fuser inspect report.json --format markdown
      onnx-fuser inspect model.onnx
    """
    from fuser.report.files import is_json, read_report  # noqa: PLC0415  (--help needs none of it)

    if is_json(file):
        _show(read_report(file), form, "report")
    else:
        _show(_model(file), form, "summary")
    return 0


def _show(found: Mapping[str, Any], form: str, kind: str) -> None:
    if form == "json":
        terminal.say(json.dumps(found, indent=1, ensure_ascii=False))
    elif form == "markdown":
        from fuser.report import markdown  # noqa: PLC0415

        terminal.say(markdown.report(found) if kind == "report" else markdown.summary(found))
    else:
        from fuser.report import text  # noqa: PLC0415

        verbose = terminal.verbose()
        parts = (
            text.render(found, verbose=verbose) if kind == "report" else text.summary(found, verbose=verbose)
        )
        terminal.show(*parts)


def _model(file: Path) -> dict[str, Any]:
    """What the model consists of, and what could be fused in it."""
    from fuser.api import Options, run  # noqa: PLC0415
    from fuser.report.facts import summary  # noqa: PLC0415
    from fuser.storage import load  # noqa: PLC0415

    stored = load(file)
    found = summary(stored.proto, str(file), stored.sha256).to_json()
    report = run(stored, Options(hashes=False)).to_json()
    return {**found, "fusible": {"fusions": report["fusions"], "declined": report["declined"]}}
