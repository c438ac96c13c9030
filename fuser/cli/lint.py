"""``onnx-fuser lint``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from fuser.cli import ascend, options, terminal


@click.command("lint", short_help="Say what ATC would refuse, and the fix.")
@click.argument("model", type=options.PATH)
@click.option(
    "--target", type=click.Choice(["atc"]), default="atc", show_default=True, expose_value=False,
    help="What shall read MODEL.",
)  # fmt: skip
@ascend.cann
@ascend.soc
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@options.quiet
@options.verbose
def command(*, model: Path, cann: str, soc: str | None, as_json: bool) -> int:
    """Say what ATC would refuse in MODEL, and the fix, without ATC.

    Each finding has the code that ATC would print, where it prints one, and the node it is about.

    Exit status: 0, no finding is an error; 1, one is; 2, bad input.

    \b
    Example:
      onnx-fuser lint model.onnx --target atc --cann 9.1 --soc Ascend310P3
    """
    from fuser.storage import load
    from fuser.targets.atc import lint

    stored = load(model)
    found = [f.to_json() for f in lint(stored.proto, cann=cann, soc=soc, path=model)]
    if as_json:
        target = {"name": "atc", "cann": cann, "soc": soc, "findings": found}
        terminal.say(json.dumps({"model": str(model), "target": target}, indent=1, ensure_ascii=False))
    else:
        _show(model, cann, [f for f in found if f["severity"] != "note" or not terminal.quiet()])
    return int(any(finding["severity"] == "error" for finding in found))


def _show(model: Path, cann: str, found: list[dict[str, str | None]]) -> None:
    from fuser.report.layout import line
    from fuser.targets import text

    if not terminal.quiet():
        release = "the newest CANN" if cann == ascend.NEWEST else f"CANN {cann}"
        terminal.show(line(f"{model} for ATC of {release}: {text.counts(found)}"), *[""][: len(found)])
    if found:
        terminal.show(*text.findings(found, verbose=terminal.verbose()))
