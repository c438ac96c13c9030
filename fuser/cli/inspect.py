"""``onnx-fuser inspect``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fuser.cli import options, terminal
from fuser.cli.files import refuse_unwritable, write_whole
from fuser.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMATS = ["text", "json", "markdown", "html", "mermaid", "model-explorer"]


@click.command("inspect", short_help="Read a report or a model, or compare two of them.")
@click.argument("file", metavar="REPORT_OR_MODEL", type=options.PATH)
@click.argument("other", metavar="[OTHER]", type=options.PATH, required=False)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True,
    help="For people, programs, a pull request or a browser; one site as a Mermaid flowchart; colours for "
    "the nodes in Google's Model Explorer.",
)  # fmt: skip
@click.option("--site", metavar="NAME", help="The site that mermaid draws, by a node or value of it.")
@click.option("-o", "--output", type=options.PATH, metavar="FILE", help="Write there instead of printing.")
@options.verbose
def command(file: Path, other: Path | None, form: str, site: str | None, output: Path | None) -> int:
    """Show a report, or what a model consists of; with OTHER, how the two differ.

    Of a model: its operators, its weights, the fused operators in it with the nodes they stand for, and what
    could be fused.

    \b
    Examples:
      onnx-fuser inspect report.json --format html -o report.html
      onnx-fuser inspect model.onnx
      onnx-fuser inspect model.onnx fused.onnx
    """
    if site is not None and form != "mermaid":
        raise click.UsageError("--site says what --format mermaid draws; add that, or drop --site")
    if output is not None:
        if form == "text":
            raise click.UsageError("--output writes no text for a terminal; say which --format")
        refuse_unwritable(output, others=(file,) if other is None else (file, other))
    if other is not None:
        text = _compare(file, other, form)
    elif form in ("text", "json", "markdown"):
        text = _show(file, form)
    else:
        text = _draw(file, form, site)
    if output is not None:
        write_whole(output, f"{text}\n")
    elif text is not None:
        terminal.say(text)
    return 0


def _show(file: Path, form: str) -> str | None:
    """The file's content in that format; None where it has been shown."""
    from fuser.report.files import is_json, read_report

    is_report = is_json(file)
    found = read_report(file) if is_report else _model(file)
    if form == "json":
        return json.dumps(found, indent=1, ensure_ascii=False)
    if form == "markdown":
        from fuser.report import markdown

        return markdown.report(found) if is_report else markdown.summary(found)
    from fuser.report import text

    terminal.show(*(text.render if is_report else text.summary)(found, verbose=terminal.verbose()))
    return None


def _compare(a: Path, b: Path, form: str) -> str | None:
    """How two reports or two models differ; None where it has been shown."""
    from fuser.report import diff
    from fuser.report.files import is_json, read_report

    kinds = is_json(a), is_json(b)
    if kinds[0] != kinds[1]:
        raise ConfigError("one is a report and the other is not; give two reports, or two models")
    found = diff.reports(read_report(a), read_report(b)) if kinds[0] else diff.models(_model(a), _model(b))
    if form == "json":
        return json.dumps(found, indent=1, ensure_ascii=False)
    if form == "markdown":
        return diff.as_markdown(found)
    if form != "text":
        raise click.UsageError(f"--format {form} shows one file; drop {b}, or say text, json or markdown")
    terminal.show(*diff.as_text(found))
    return None


def _draw(file: Path, form: str, site: str | None) -> str:
    """A report, or that of a model without parity, as something to look at."""
    from fuser.report.files import is_json, read_report

    report = read_report(file) if is_json(file) else _report(file)
    if form == "html":
        from fuser.report.html import render

        return render(report)
    if form == "mermaid":
        from fuser.report import mermaid

        return mermaid.flowchart(mermaid.site_of(report["fusions"], site)).rstrip("\n")
    from fuser.report import modelexplorer

    return json.dumps(modelexplorer.node_data(report), indent=1, ensure_ascii=False)


def _model(file: Path) -> dict[str, Any]:
    """What the model consists of, and what could be fused in it."""
    from fuser.options import Options
    from fuser.report.facts import summary
    from fuser.steps import run
    from fuser.storage import load

    stored = load(file)
    found = summary(stored.proto, str(file), stored.sha256).to_json()
    report = run(stored, Options(hashes=False)).to_json()
    return {**found, "fusible": {"fusions": report["fusions"], "declined": report["declined"]}}


def _report(file: Path) -> Mapping[str, Any]:
    """The report on what would be fused in a model; nothing is written and nothing is run."""
    from fuser.options import Options
    from fuser.steps import run, studied
    from fuser.storage import load

    stored, asked = load(file), Options(parity=False)
    return studied(file, stored, run(stored, asked), asked).to_json()
