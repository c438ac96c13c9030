"""``onnx-fuser optimize``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from fuser.cli import ascend, options, terminal
from fuser.cli.files import refuse_unwritable, write_whole

if TYPE_CHECKING:
    from fuser.report import Report


@click.command("optimize", short_help="Fuse a model, check the result, write it.")
@click.argument("model", type=options.PATH)
@click.option(
    "-o", "--output", metavar="OUT",
    help="Where the fused model goes; for atc, DIR/ (with the slash) writes a bundle.  [required]",
)  # fmt: skip
@click.option(
    "--force", is_flag=True,
    help="Write OUT although it is MODEL itself, which is then replaced whole, or although ATC would refuse it.",
)  # fmt: skip
@click.option(
    "--report", "report_file", type=options.PATH, metavar="FILE", help="Write the report there, as JSON."
)
@click.option(
    "--target", type=click.Choice(["onnx", "atc"]), default="onnx", show_default=True,
    help="What will read OUT; atc: Ascend's compiler.",
)  # fmt: skip
@click.option(
    "--fused-as", type=click.Choice(["function", "standard", "node"]),
    show_default="function; for atc standard",
    help="Write fuser::ConvLeakyRelu with its definition, or folded Conv and LeakyRelu, "
    "or (atc, with a bundle) one node and the plugin that reads it.",
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
@ascend.options
@options.quiet
@options.verbose
def command(
    *,
    model: Path,
    output: str | None,
    force: bool,
    report_file: Path | None,
    target: str,
    fused_as: Literal["function", "standard", "node"] | None,
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
    bundle: Path | None,
    cann: str,
    soc: str | None,
    opset: int | None,
    precision: str | None,
    switches: dict[str, bool] | None,
) -> int:
    """Fuse MODEL, prove that the result computes the same, and write it.

    For atc the result is put in the form that Ascend's ATC takes, too. What ATC would refuse is not written.

    Exit status: 0, OUT is written; 1, parity failed, or ATC would refuse OUT, and it is not written; 2, bad
    input.

    \b
    Examples:
      onnx-fuser optimize model.onnx -o fused.onnx --report report.json
      onnx-fuser optimize model.onnx --target atc -o out/ --soc Ascend310P3
    """
    if no_parity and parity == "required":
        raise click.UsageError("--no-parity and --parity required contradict each other; drop one of them")
    only_atc = {
        "--bundle": bundle, "--cann": cann, "--soc": soc, "--opset": opset, "--precision": precision,
        "--fusion-switch": switches, "--fused-as node": fused_as == "node",
    }  # fmt: skip
    ascend.refuse_stray(target, only_atc)
    place, is_bundle = ascend.destination(output, bundle, target=target)
    if fused_as == "node" and not is_bundle:
        raise click.UsageError("--fused-as node needs a bundle, where its plugin goes; say --bundle DIR")
    from fuser.optimize import optimize
    from fuser.options import Options, form_of

    atc = None
    if target == "atc":
        atc = ascend.asked(cann, soc, opset, precision, switches, allow=force)
    written = place / ascend.MODEL if is_bundle else place
    if report_file is not None:
        refuse_unwritable(report_file, others=(model, written))
    asked = Options(
        patterns, only, disable, form_of(fused_as, atc), freeze_inputs, parity != "off" and not no_parity,
        inputs, shapes, draws, seed, tolerance, timeout, hashes=report_file is not None or is_bundle, atc=atc,
    )  # fmt: skip
    with terminal.progress() as step:
        report = optimize(
            model, place, asked, bundle=is_bundle, force=force, required=parity == "required", progress=step
        )
    if report_file is not None:
        write_whole(report_file, json.dumps(report.to_json(), indent=1, ensure_ascii=False) + "\n")
    if not terminal.quiet():
        from fuser.report.text import render

        terminal.show(*render(report.to_json(), verbose=terminal.verbose()))
    if atc is not None:
        ascend.show(report.target, place if is_bundle and report.model.output else None)
    return _status(report, written, required=parity == "required")


def _status(report: Report, output: Path, *, required: bool) -> int:
    """The exit status, and the sentence for it on stderr."""
    from fuser.steps import refused

    if refused(report):
        terminal.complain(
            f"ATC would refuse this model, so {output} was not written; the findings say why. "
            "--force writes it all the same"
        )
        return 1
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
