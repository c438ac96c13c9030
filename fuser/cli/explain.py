"""``onnx-fuser explain``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from fuser.cli import options, terminal


@click.command("explain", short_help="Say why something was not fused.")
@click.argument("model", type=options.PATH)
@click.argument("node", required=False)
@options.freeze_inputs
@options.patterns
def command(model: Path, node: str | None, freeze_inputs: bool, patterns: tuple[Path, ...]) -> int:
    """Say why something in MODEL was not fused.

    Without NODE: every near miss, the nearest first, and the rules that never applied. With the name of a
    node, or of a value it makes: what became of it, and why each rule that was tried there did not apply.

    \b
    Examples:
      onnx-fuser explain model.onnx
      onnx-fuser explain model.onnx /conv1/Conv
    """
    from fuser.api import explain
    from fuser.options import Options
    from fuser.report.text import left_alone, never_applied, story
    from fuser.steps import run
    from fuser.storage import load

    with terminal.progress() as step:
        step("rewriting")
        asked = Options(patterns=patterns, freeze_inputs=freeze_inputs, hashes=False)
        tried = None if node is None else explain(model, node, patterns=patterns, freeze_inputs=freeze_inputs)
        report = run(load(model), asked).to_json()
    if tried is None:
        terminal.show(*left_alone(report, verbose=True), *never_applied(report))
    else:
        reasons = [asdict(d) for d in tried]
        terminal.show(*story(report, str(node), reasons))
    return 0
