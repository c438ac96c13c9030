"""``onnx-fuser optimize``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from fuser.cli import options, terminal
from fuser.cli.files import refuse_unwritable, write_whole

if TYPE_CHECKING:
    from fuser.report import Report


@click.command("optimize")
@click.argument("model", type=options.PATH)
@click.option(
    "-o", "--output", type=options.PATH, required=True, metavar="OUT", help="Where the fused model goes."
)
@click.option("--force", is_flag=True, help="Let OUT be MODEL itself, which is then replaced whole.")
@click.option(
    "--report", "report_file", type=options.PATH, metavar="FILE", help="Write the report there, as JSON."
)
@click.option(
    "--target", type=click.Choice(["onnx"]), default="onnx", show_default=True, expose_value=False,
    help="What will read OUT.",
)  # fmt: skip
@click.option(
    "--fused-as", type=click.Choice(["function", "standard"]), default="function", show_default=True,
    help="Write fuser::ConvLeakyRelu with its definition, or folded Conv and LeakyRelu.",
)  # fmt: skip
@options.freeze_inputs
@options.patterns
@click.option(
    "--only", multiple=True, metavar="RULE", help="Use this rule, by id or name, and no other. Repeatable."
)
@click.option("--disable", multiple=True, metavar="RULE", help="Do not use this rule. Repeatable.")
@click.option(
    "--parity", type=click.Choice(["on", "off", "required"]), default="on", show_default=True,
    help="Run both models and compare; required: a check that can't judge is a failure (exit status 2).",
)  # fmt: skip
@click.option("--no-parity", is_flag=True, help="The same as --parity off.")
@options.draws
@options.quiet
@options.verbose
def command(
    *,
    model: Path,
    output: Path,
    force: bool,
    report_file: Path | None,
    fused_as: Literal["function", "standard"],
    freeze_inputs: bool,
    patterns: tuple[Path, ...],
    only: tuple[str, ...],
    disable: tuple[str, ...],
    parity: str,
    no_parity: bool,
    inputs: Path | None,
    shapes: dict[str, tuple[int, ...]],
    draws: int,
    seed: int,
    tolerance: float | None,
    timeout: float,
) -> int:
    """Fuse MODEL, prove that the result computes the same, and write it.

    Exit status: 0, OUT is written; 1, parity failed and OUT is not written; 2, bad input.

    \b
    Example:
      onnx-fuser optimize model.onnx -o fused.onnx --report report.json
    """
    if no_parity and parity == "required":
        raise click.UsageError("--no-parity and --parity required contradict each other; drop one of them")
    from fuser.api import Options, optimize  # noqa: PLC0415  (--help needs none of it)

    if report_file is not None:
        refuse_unwritable(report_file, others=(model, output))
    asked = Options(
        patterns, only, disable, fused_as, freeze_inputs, parity != "off" and not no_parity,
        inputs, shapes, draws, seed, tolerance, timeout, hashes=report_file is not None,
    )  # fmt: skip
    with terminal.progress() as step:
        report = optimize(model, output, asked, force=force, required=parity == "required", progress=step)
    if report_file is not None:
        write_whole(report_file, json.dumps(report.to_json(), indent=1, ensure_ascii=False) + "\n")
    if not terminal.quiet():
        from fuser.report.text import render  # noqa: PLC0415

        terminal.show(*render(report.to_json(), verbose=terminal.verbose()))
    return _status(report, output, required=parity == "required")


def _status(report: Report, output: Path, *, required: bool) -> int:
    """The exit status, and the sentence for it on stderr."""
    found = report.parity
    if found is None or found.verdict == "passed":
        return 0
    if found.verdict == "failed":
        terminal.complain(f"parity failed, so {output} was not written: {found.reason}")
        return 1
    if required:
        terminal.complain(
            f"the parity check could not judge, so {output} was not written: {found.reason}; "
            "give --inputs that both models run on, or say --parity on to write it all the same"
        )
        return 2
    terminal.complain(f"warning: the parity check could not judge: {found.reason}")
    return 0
