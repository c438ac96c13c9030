"""Options that several commands share, each with the same name and meaning everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)


def _level(step: int) -> Callable[[click.Context, click.Parameter, bool], None]:
    def callback(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value:
            context.find_root().meta["fuser.verbosity"] = step

    return callback


quiet = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=_level(-1),
    help="Print only warnings and errors.",
)
verbose = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    callback=_level(1),
    help="Print everything that was found.",
)


def _shapes(
    context: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> dict[str, tuple[int, ...]]:
    """``NAME:1x3x64x64``, any number of times; a name may hold colons itself."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in given:
        name, colon, dims = text.rpartition(":")
        parts = dims.lower().split("x")
        if not (colon and name and all(p.isascii() and p.isdecimal() and int(p) for p in parts)):
            problem = f"{text!r} is no shape; write the input's name and its dims, such as x:1x3x64x64"
            raise click.BadParameter(problem, context, parameter)
        shape = tuple(map(int, parts))
        if shapes.setdefault(name, shape) != shape:
            raise click.BadParameter(f"{name!r} has two shapes; give it one", context, parameter)
    return shapes


def _number(context: click.Context, parameter: click.Parameter, given: float | None) -> float | None:
    """Every comparison with NaN is false, those with click's limits too."""
    if given is not None and math.isnan(given):
        raise click.BadParameter(f"{given} is no number to compare with", context, parameter)
    return given


def draws(command: F) -> F:
    """What the models are run on and how closely they are compared."""
    options = (
        click.option(
            "--inputs", type=PATH, metavar="FILE",
            help="Run on these: a .npz, .npy or .pb file or a test_data_set folder.  [default: seeded draws]",
        ),
        click.option(
            "--shape", "shapes", multiple=True, callback=_shapes, metavar="NAME:DIMS",
            help="Shape of an input whose dims are free, such as x:1x3x64x64. Repeatable.",
        ),
        click.option(
            "--tolerance", type=click.FloatRange(0, 1, max_open=True), callback=_number, metavar="NUMBER",
            help="Largest difference allowed, relative to an output's scale.  [default: by element type]",
        ),
        click.option(
            "--draws", type=click.IntRange(min=1), metavar="N", default=3, show_default=True,
            help="Number of draws.",
        ),
        click.option(
            "--seed", type=click.IntRange(min=0), metavar="N", default=0, show_default=True,
            help="Seed of the draws.",
        ),
        click.option(
            "--timeout", type=click.FloatRange(0, min_open=True), callback=_number, metavar="SECONDS",
            default=300.0, show_default=True, help="Longest time that one load or run of a model may take.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


patterns = click.option(
    "--patterns", type=PATH, multiple=True, metavar="DIR",
    help="Folder or file of further rules (*.onnxtxt), tried before the built-in ones. Repeatable.",
)  # fmt: skip
freeze_inputs = click.option(
    "--freeze-inputs", is_flag=True,
    help="Nobody overrides the initializers that are also graph inputs: take them as constants.",
)  # fmt: skip
