"""``onnx-fuser parity``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from fuser.cli import options, terminal

STATUS = {"passed": 0, "failed": 1, "inconclusive": 2}


@click.command("parity", short_help="Say whether two models compute the same.")
@click.argument("a", type=options.PATH)
@click.argument("b", type=options.PATH)
@options.draws
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@options.quiet
def command(
    *,
    a: Path,
    b: Path,
    inputs: Path | None,
    shapes: dict[str, tuple[int, ...]],
    tolerance: float | None,
    draws: int,
    seed: int,
    timeout: float,
    as_json: bool,
) -> int:
    """Run models A and B on the same inputs and compare what they give.

    Both run in onnxruntime with its optimizations off. A is right: an element b passes when
    |a - b| <= tolerance * (scale + |a|), scale being the largest |a| of its output.

    Exit status: 0, they agree; 1, they differ; 2, that could not be judged.

    \b
    Examples:
      onnx-fuser parity model.onnx fused.onnx
      onnx-fuser parity model.onnx fused.onnx --inputs test_data_set_0
    """
    from fuser.parity import check_parity

    with terminal.progress() as step:
        step("comparing")
        found = check_parity(
            a, b, inputs=inputs, draws=draws, seed=seed, tolerance=tolerance, shapes=shapes, timeout=timeout
        )
    if as_json:
        terminal.say(json.dumps(found.to_json(), indent=1, ensure_ascii=False))
    elif not terminal.quiet():
        from fuser.report.text import parity

        terminal.show(*parity(found.to_json(), verbose=True))
    elif found.verdict != "passed":
        terminal.complain(f"parity {found.verdict}: {found.reason}")
    return STATUS[found.verdict]
