"""Two reports, or two models, side by side: what changed, as plain data.

Sites are the same where they make the same value in the same graph, near misses where node and reason are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fuser.report import markdown
from fuser.report.layout import Sentences, columns, heading, line

if TYPE_CHECKING:
    from rich.console import RenderableType

Json = Mapping[str, Any]
FACTS = (
    ("operators", "nodes"),
    ("bytes of initializers", "initializer_bytes"),
    ("BatchNormalization", "batch_normalizations"),
)


def reports(a: Json, b: Json) -> dict[str, Any]:
    """What report B has that A has not, and the other way round."""
    sites = [{(f["graph"], f["output"]): f for f in r["fusions"]} for r in (a, b)]
    misses = [{(d["graph"], d["node"], d["reason"]): d for d in r["declined"]} for r in (a, b)]
    return {
        "kind": "reports",
        "a": a["model"]["path"],
        "b": b["model"]["path"],
        "numbers": [n for n in _numbers(a, b) if n["a"] != n["b"]],
        "lost": [_site(sites[0][key]) for key in sites[0] if key not in sites[1]],
        "gained": [_site(sites[1][key]) for key in sites[1] if key not in sites[0]],
        "changed": [*_changed(sites[0], sites[1])],
        "new_reasons": [_miss(misses[1][key]) for key in misses[1] if key not in misses[0]],
        "old_reasons": [_miss(misses[0][key]) for key in misses[0] if key not in misses[1]],
    }


def models(a: Json, b: Json) -> dict[str, Any]:
    """What model B consists of and A does not: each being the summary that ``inspect`` makes of a model."""
    operators = sorted({*a["operators"], *b["operators"]})
    numbers = [
        _number("operators", a["nodes"], b["nodes"]),
        _number("initializers", a["initializers"], b["initializers"]),
        _number("bytes of initializers", a["initializer_bytes"], b["initializer_bytes"]),
        *(_number(op, a["operators"].get(op, 0), b["operators"].get(op, 0)) for op in operators),
    ]
    before, after = ({(f["op"], f["name"]): f for f in model["fused"]} for model in (a, b))
    return {
        "kind": "models",
        "a": a["path"],
        "b": b["path"],
        "numbers": [n for n in numbers if n["a"] != n["b"]],
        "lost": [_fused(before[key]) for key in before if key not in after],
        "gained": [_fused(after[key]) for key in after if key not in before],
        "changed": [*_borders(a, b)],
        "new_reasons": [],
        "old_reasons": [],
    }


def _numbers(a: Json, b: Json) -> Iterator[dict[str, Any]]:
    yield _number("fused operators", len(a["fusions"]), len(b["fusions"]))
    yield _number("near misses", len(a["declined"]), len(b["declined"]))
    for name, key in FACTS:
        for when in ("before", "after"):
            yield _number(f"{name} {when} fusion", a["model"][key][when], b["model"][key][when])
    verdicts = [r["parity"]["verdict"] if r["parity"] else "not checked" for r in (a, b)]
    yield _number("parity", *verdicts)
    for name, key in (("peak of activations", "peak"), ("bytes moved", "moved")):
        for when in ("before", "after"):
            yield _number(f"{name} {when} fusion", *(_memory(r, when, key) for r in (a, b)))


def _memory(report: Json, when: str, key: str) -> int | None:
    found = report["memory"] and report["memory"][when]
    return found[key] if found else None


def _number(name: str, a: Any, b: Any) -> dict[str, Any]:
    return {"name": name, "a": a, "b": b}


def _changed(a: Mapping[Any, Json], b: Mapping[Any, Json]) -> Iterator[str]:
    for key in a:
        if key not in b:
            continue
        for field in ("op", "ops", "rules", "negative_slope"):
            was, is_now = a[key][field], b[key][field]
            if was != is_now:
                yield f"site {key[1]!r}: {field} was {_shown(was)} and is {_shown(is_now)}"


def _borders(a: Json, b: Json) -> Iterator[str]:
    for way in ("inputs", "outputs"):
        for name in dict.fromkeys([*a[way], *b[way]]):
            was, is_now = a[way].get(name, "absent"), b[way].get(name, "absent")
            if was != is_now:
                yield f"{way[:-1]} {name!r}: {was} in A, {is_now} in B"
    for domain in dict.fromkeys([*a["opsets"], *b["opsets"]]):
        versions = a["opsets"].get(domain, "absent"), b["opsets"].get(domain, "absent")
        if versions[0] != versions[1]:
            yield f"opset {domain}: {versions[0]} in A, {versions[1]} in B"


def _shown(value: Any) -> str:
    return " + ".join(map(str, value)) if isinstance(value, list) else str(value)


def _site(fusion: Json) -> str:
    where = f" in {fusion['graph']}" if fusion["graph"] else ""
    return f"{fusion['op']} at {fusion['output']!r}{where}, made of {_shown(fusion['ops'])}"


def _fused(node: Json) -> str:
    return f"{node['op']} {node['name']!r} stands for {node['replaces'] or 'nodes that it does not name'}"


def _miss(declined: Json) -> str:
    where = f" in {declined['graph']}" if declined["graph"] else ""
    return f"[{declined['label']}] {declined['op']} {declined['node']!r}{where}: {declined['reason']}"


TITLES = (
    ("lost", "Lost: fused in A, not in B"),
    ("gained", "Gained: fused in B, not in A"),
    ("changed", "Changed"),
    ("new_reasons", "Reasons that are new in B"),
    ("old_reasons", "Reasons that B no longer has"),
)


def as_text(found: Json) -> Iterator[RenderableType]:
    """For the terminal."""
    yield line(f"A: {found['a']}")
    yield line(f"B: {found['b']}")
    if found["numbers"]:
        yield heading("Numbers")
        rows = [(n["name"], _count(n["a"]), _count(n["b"])) for n in found["numbers"]]
        yield columns(rows, headings=("", "A", "B"), right=[1, 2])
    for key, title in TITLES:
        if found[key]:
            yield heading(f"{title}: {len(found[key])}")
            yield Sentences(*found[key])
    if _same(found):
        yield heading("Nothing differs")


def as_markdown(found: Json) -> str:
    """For a pull request: numbers first, lists folded."""
    return markdown.fitted(lambda most: _as_markdown(found, most))


def _as_markdown(found: Json, most: int) -> str:
    lines = [f"## {markdown.code(found['a'])} → {markdown.code(found['b'])}", ""]
    if found["numbers"]:
        rows = [(markdown.code(n["name"]), _count(n["a"]), _count(n["b"])) for n in found["numbers"]]
        lines += [*markdown.table(("", "A", "B"), rows[:most]), ""]
    for key, title in TITLES:
        rest = len(found[key]) - most
        items = [f"- {markdown.code(item)}" for item in found[key][:most]]
        items += [f"- … and {rest:,} more"] if rest > 0 else []
        lines += markdown.folded(f"{title}: {len(found[key])}", items) if items else []
    if _same(found):
        lines.append("Nothing differs.")
    return "\n".join(lines).rstrip("\n")


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "–" if value is None else str(value)


def _same(found: Json) -> bool:
    return not found["numbers"] and not any(found[key] for key, _ in TITLES)
