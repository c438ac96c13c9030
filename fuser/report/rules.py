"""Rules for the terminal: what there is, how one is written, how their proofs went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from fuser.language.text import read
from fuser.report.layout import columns, heading, verdict

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fuser.language import RewriteRule
    from fuser.language.bench import Proof
    from fuser.language.text import Block


def listing(rules: Sequence[RewriteRule]) -> Iterator[RenderableType]:
    """Id and meaning of each rule, under the file it stands in."""
    for file, group in groupby(rules, key=lambda r: r.file):
        yield heading(shown(file))
        yield columns([(r.id, r.pattern.doc) for r in group])


def shown(file: Path) -> str:
    """The path from here where the file is below here, else the whole path."""
    try:
        return str(file.relative_to(Path.cwd()))
    except ValueError:
        return str(file)


def source(rule: RewriteRule, files: Iterable[Path]) -> str:
    """The text of the functions that belong to a rule, as it stands in the files, comments included.

    ``files`` are those that may define what the rule calls.
    """
    own = {(domain, rule.name, rule.overload) for domain in ("pattern", "rewrite", "where")}
    called = {(f.domain, f.name, f.overload) for f in rule.definitions}
    parts = [f"# {rule.id}, from {shown(rule.file)}", *_texts(rule.file, own)]
    for file in dict.fromkeys((rule.file, *files)):
        parts += _texts(file, called)
    return "\n".join(parts) + "\n"


def _texts(file: Path, wanted: set[tuple[str, str, str]]) -> Iterator[str]:
    """The text of each wanted function of a file."""
    text = read(file)
    lines = file.read_text("utf-8-sig").splitlines()
    starts = [_first_line(lines, block) for block in text.functions]
    for block, start, stop in zip(text.functions, starts, [*starts[1:], len(lines)], strict=True):
        if (block.domain, block.name, block.overload) in wanted:
            yield "\n".join(lines[start:stop]).strip("\n")


def _first_line(lines: Sequence[str], block: Block) -> int:
    """Index of the line a function begins on: that of its header, or of the comment right above it."""
    at = block.lines.block - 1
    while at > 0 and not lines[at].lstrip().startswith("<"):
        at -= 1
    while at > 0 and lines[at - 1].lstrip().startswith("#"):
        at -= 1
    return at


def proofs(found: Sequence[Proof]) -> Iterator[RenderableType]:
    """One row per rule: the verdict and what it rests on."""
    yield columns(
        [(p.rule, verdict(p.verdict), str(p.draws), str(p.outside), f"{p.difference:.1e}") for p in found],
        headings=("rule", "verdict", "draws", "kept out", "difference"),
        right=[2, 3, 4],
    )


def refusals(found: Sequence[Proof]) -> Iterator[str]:
    """A sentence for each rule that may not be used."""
    for p in found:
        if p.verdict == "failed":
            yield f"rule {p.rule} is refused: {p.reason}"
        elif p.verdict == "inconclusive":
            yield f"rule {p.rule} could not be judged: {p.reason}"
