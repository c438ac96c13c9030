"""One fused site as a Mermaid flowchart, which GitHub, GitLab and many editors draw."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from fuser.errors import ConfigError

Json = Mapping[str, Any]
PLAIN = frozenset(string.ascii_letters + string.digits + " _./:")
LENGTH = 60


def flowchart(fusion: Json) -> str:
    """The nodes that a fused operator stands for, and beside them the operator."""
    return "\n".join(_lines(fusion)) + "\n"


def _lines(fusion: Json) -> Iterator[str]:
    ops, names, edges = fusion["ops"], fusion["nodes"], fusion["edges"]
    if not edges:
        edges = [(i, i + 1) for i in range(len(ops) - 1)]
    makers, readers = {a for a, _ in edges}, {b for _, b in edges}
    first = [i for i in range(len(ops)) if i not in readers]
    last = [i for i in range(len(ops)) if i not in makers]
    yield "flowchart TB"
    yield '  subgraph before["before"]'
    for i, (op, name) in enumerate(zip(ops, names, strict=True)):
        yield f'    n{i}["{escaped(op)}<br/>{escaped(name)}"]'
    yield from (f"    n{a} --> n{b}" for a, b in edges)
    yield "  end"
    yield '  subgraph after["after"]'
    yield f'    fused["{escaped(fusion["op"])}<br/>{escaped(fusion["name"] or fusion["output"])}"]'
    yield "  end"
    for k, value in enumerate(fusion["inputs"]):
        yield f'  x{k}(["{escaped(value)}"])'
        yield from (f"  x{k} --> n{i}" for i in first)
        yield f"  x{k} --> fused"
    yield f'  y(["{escaped(fusion["output"])}"])'
    yield from (f"  n{i} --> y" for i in last)
    yield "  fused --> y"
    folded = [f"n{i}" for i, name in enumerate(names) if name in fusion["folded"]]
    if folded:
        yield "  classDef folded stroke-dasharray: 4 3"
        yield f"  class {','.join(folded)} folded"


def escaped(text: str) -> str:
    """Text for a label: everything that could mean something to Mermaid or HTML becomes a character code."""
    shown = text if len(text) <= LENGTH else text[: LENGTH - 1] + "…"
    return "".join(c if c in PLAIN else f"#{ord(c)};" for c in shown)


def site_of(fusions: list[Json], wanted: str | None) -> Json:
    """The fused site by the name of its output, of one of its nodes, or of the fused operator.

    Raises:
        ConfigError: there is none, or none of that name; or several and none is named.
    """
    if not fusions:
        raise ConfigError("nothing was fused, so there is no site to draw")
    if wanted is None:
        if len(fusions) == 1:
            return fusions[0]
        names = ", ".join(repr(f["output"]) for f in fusions[:3])
        raise ConfigError(f"there are {len(fusions)} sites; name one with --site, such as {names}")
    for fusion in fusions:
        if wanted in (fusion["output"], fusion["name"], *fusion["nodes"]):
            return fusion
    known = {name for f in fusions for name in (f["output"], f["name"], *f["nodes"])}
    close = get_close_matches(wanted, sorted(known), 1)
    hint = f"the nearest is {close[0]!r}" if close else f"the first is {fusions[0]['output']!r}"
    raise ConfigError(f"no site has a node or a value {wanted!r}; {hint}")
