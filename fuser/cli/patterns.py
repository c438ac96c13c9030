"""``onnx-fuser patterns``: the rules, their text, and their proof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fuser.cli import options, terminal

if TYPE_CHECKING:
    from fuser.language import RewriteRule


@click.group("patterns")
def command() -> None:
    """List the rules, show one, or prove a rule file."""


@command.command("list")
@options.patterns
def list_(patterns: tuple[Path, ...]) -> int:
    """List all rules, file by file, in the order they are tried: id and meaning.

    \b
    Example:
      onnx-fuser patterns list --patterns my-rules
    """
    from fuser.report.rules import listing

    terminal.show(*listing(_rules(patterns)))
    return 0


@command.command("show")
@click.argument("rule")
@options.patterns
def show(rule: str, patterns: tuple[Path, ...]) -> int:
    """Show the text of RULE: its pattern, its rewrite, its conditions, and the operators they define.

    RULE is an id, such as LeakyRelu:max, or a name that several rules share.

    \b
    Example:
      onnx-fuser patterns show LeakyRelu:max
    """
    from fuser.errors import ConfigError
    from fuser.report.rules import source
    from fuser.selection import nearest

    rules = _rules(patterns)
    found = [r for r in rules if rule in (r.id, r.name)]
    if not found:
        close = nearest(rule, {r.id for r in rules} | {r.name for r in rules})
        raise ConfigError(f"there is no rule {rule!r}; {close}, and onnx-fuser patterns list has all")
    files = list(dict.fromkeys(r.file for r in rules))
    terminal.say("\n".join(source(r, files) for r in found).rstrip("\n"))
    return 0


@command.command("check")
@click.argument("files", nargs=-1, required=True, type=options.PATH, metavar="FILE...")
@click.option(
    "--draws", type=click.IntRange(min=1), metavar="N", default=20, show_default=True, help="Draws per call."
)
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", default=0, show_default=True, help="Seed of the draws."
)
@options.quiet
def check(files: tuple[Path, ...], draws: int, seed: int) -> int:
    """Prove each rule in FILE (or in the folder FILE) by running its pattern and its rewrite side by side.

    Exit status: 0, every rule is proved; 1, a rule is refused; 2, a file has a mistake, or a rule could not
    be judged.

    \b
    Example:
      onnx-fuser patterns check my-rules/hard_swish.onnxtxt
    """
    from fuser.language import load_rules
    from fuser.language.bench import prove
    from fuser.report.rules import proofs, refusals

    rules = load_rules(*files)
    with terminal.progress() as step:
        step("proving")
        found = prove(rules, seed=seed, draws=draws)
    if not terminal.quiet():
        terminal.show(*proofs(found))
    for sentence in refusals(found):
        terminal.complain(sentence)
    verdicts = {p.verdict for p in found}
    return 1 if "failed" in verdicts else 2 if "inconclusive" in verdicts else 0


def _rules(patterns: tuple[Path, ...]) -> tuple[RewriteRule, ...]:
    from fuser.selection import select_rules

    return select_rules(patterns)
