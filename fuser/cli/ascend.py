"""Options of ``--target atc``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fuser.cli import terminal
from fuser.cli.options import PATH

if TYPE_CHECKING:
    from fuser.targets.options import AtcOptions

F = TypeVar("F", bound=Callable[..., Any])
NEWEST = "master"
MODEL = "model.onnx"

# ATC's --precision_mode, and `fp16`: ATC's default with a comparison of what it does to the outputs.
PRECISIONS = (
    "fp16", "force_fp16", "force_fp32", "cube_fp16in_fp32out", "allow_fp32_to_fp16", "must_keep_origin_dtype",
    "allow_mix_precision", "allow_mix_precision_fp16", "allow_mix_precision_bf16", "allow_fp32_to_bf16",
)  # fmt: skip

cann = click.option(
    "--cann", default=NEWEST, show_default="the newest", metavar="VERSION",
    help="Judge by the ATC of this CANN, such as 9.1 or 8.0.RC3.",
)  # fmt: skip
soc = click.option(
    "--soc", metavar="NAME", help="The chip, as ATC's --soc_version takes it, such as Ascend310P3."
)


def _switches(
    context: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> dict[str, bool] | None:
    """``PASS:on`` or ``PASS:off``, as the file has it."""
    switches: dict[str, bool] = {}
    for text in given:
        name, _, state = text.rpartition(":")
        if not name.isidentifier() or state not in {"on", "off"}:
            problem = f"{text!r} switches no pass; write NAME:on or NAME:off, as in fusion_switch.cfg"
            raise click.BadParameter(problem, context, parameter)
        switches[name] = state == "on"
    return switches or None


def options(command: F) -> F:
    """What ``optimize --target atc`` takes besides."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option(
        "--bundle", type=PATH, metavar="DIR",
        help="atc: instead of OUT, write a folder: model, convert.sh with atc's command, report, README.",
    ),
    cann,
    soc,
    click.option(
        "--opset", type=click.IntRange(8, 18), metavar="N",
        help="atc: write this opset.  [default: the nearest ATC takes]",
    ),
    click.option(
        "--precision", type=click.Choice(PRECISIONS), metavar="MODE",
        help="atc: --precision_mode in convert.sh; fp16: ATC's default, and its outputs compared.",
    ),
    click.option(
        "--fusion-switch", "switches", multiple=True, callback=_switches, metavar="PASS:STATE",
        help="atc: switch one of GE's fusion passes on or off, in fusion_switch.cfg. Repeatable.",
    ),
)  # fmt: skip


def asked(
    cann: str, soc: str | None, opset: int | None, precision: str | None, switches: dict[str, bool] | None,
    *, allow: bool,
) -> AtcOptions:  # fmt: skip
    """The options of a run.

    Raises:
        TargetError: there is no such CANN.
    """
    from fuser.targets.atc.facts import release
    from fuser.targets.options import AtcOptions

    release(cann)
    mode = "force_fp16" if precision in (None, "fp16") else precision
    return AtcOptions(cann, soc, opset, mode, precision == "fp16", allow, switches)


def show(target: Mapping[str, Any], bundle: Path | None) -> None:
    """Print what to do with a bundle; of a report that is not printed, what ATC would object to."""
    found = [f for f in target["findings"] if f["severity"] != "note"]
    if terminal.quiet() and found:
        from fuser.report.text import target as shown

        terminal.show(*shown({**target, "findings": found}))
    elif bundle is not None and not terminal.quiet():
        from fuser.report.layout import line

        terminal.show("", line(f"Next, where CANN is: {bundle / 'convert.sh'}"))


def destination(output: str | None, bundle: Path | None, *, target: str) -> tuple[Path, bool]:
    """Where the output goes, and whether that is a folder for a bundle."""
    if bundle is not None:
        if output is not None:
            raise click.UsageError("--bundle and -o are two names of the output; drop one of them")
        return bundle, True
    if output is None:
        raise click.MissingParameter(param_hint="'-o' / '--output'", param_type="option")
    path = Path(output)
    separators = tuple(filter(None, (os.sep, os.altsep)))
    return path, target == "atc" and (output.endswith(separators) or path.is_dir())


def refuse_stray(target: str, given: Mapping[str, object]) -> None:
    """Refuse what only ATC is told where something else is the target."""
    if target != "atc":
        for name, value in given.items():
            if value and value != NEWEST:
                raise click.UsageError(f"{name} is for --target atc; say that too, or drop it")
