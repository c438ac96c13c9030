"""A report, or the summary of a model, for a pull request: the answer first, details folded.

Everything that comes out of a model stands in code spans, where no markup, link or mention of it works. Rows
and their lengths are limited, so that the text stays below the 65,536 characters that GitHub takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fuser.report.names import counted, one_line

Json = Mapping[str, Any]
ROWS, LENGTH = 50, 200
MARKS = {"passed": "✅", "failed": "❌", "inconclusive": "⚠️"}


def report(found: Json) -> str:
    """Report format 1 as Markdown."""
    model, parity = found["model"], found["parity"]
    left = model["batch_normalizations"]
    lines = [
        f"## onnx-fuser: {code(model['path'] or 'a model from memory')}",
        "",
        f"**{len(found['fusions'])} fused, {left['after']} of {left['before']} BatchNormalization left, "
        + (f"parity {parity['verdict']} {MARKS[parity['verdict']]}**" if parity else "parity not checked**"),
        "",
        *table(("", "before", "after"), _sizes(model)),
        "",
    ]
    kinds = Counter((" + ".join(f["ops"]), f["op"]) for f in found["fusions"])
    if kinds:
        rows = [(str(n), code(parts), code(op)) for (parts, op), n in kinds.most_common(ROWS)]
        lines += [*table(("count", "was", "is"), rows), ""]
    if parity:
        lines += _parity(parity)
    if found["declined"]:
        reasons = [f"- {code(_reason(d))}" for d in found["declined"][:ROWS]]
        title = f"Left alone: {counted(len(found['declined']), 'near miss', 'near misses')}"
        lines += folded(title, [*reasons, *_more(found["declined"], "- ")])
    if found["fusions"]:
        every = [
            (code(f["output"]), code(f["op"]), code(", ".join(f["nodes"])), code(", ".join(f["rules"])))
            for f in found["fusions"][:ROWS]
        ]
        body = [*table(("output", "operator", "stands for", "rules"), every), *_more(found["fusions"], "\n")]
        lines += folded(f"Every fused operator: {len(found['fusions'])}", body)
    lines += folded("Versions and hashes", [f"- {code(entry)}" for entry in _made_by(found)])
    return "\n".join(lines).rstrip("\n")


def summary(model: Json) -> str:
    """What a model consists of, as Markdown."""
    opsets = ", ".join(f"{domain} {version}" for domain, version in model["opsets"].items())
    rows = [
        ("IR version", str(model["ir_version"])),
        ("opset", code(opsets)),
        ("producer", code(model["producer"] or "not given")),
        ("nodes", f"{model['nodes']:,}"),
        ("initializers", f"{model['initializers']:,}, {model['initializer_bytes']:,} bytes"),
        ("fused operators in it", str(len(model["fused"]))),
        ("could be fused", str(len(model["fusible"]["fusions"]))),
        ("near misses", str(len(model["fusible"]["declined"]))),
    ]
    operators = sorted(model["operators"].items(), key=lambda item: (-item[1], item[0]))
    counts = [
        *table(("operator", "nodes"), [(code(op), str(n)) for op, n in operators[:ROWS]]),
        *_more(operators, "\n"),
    ]
    lines = [f"## {code(model['path'])}", "", *table(("", ""), rows), "", *folded("Operators", counts)]
    if model["fused"]:
        fused = [(code(f["name"]), code(f["op"]), code(f["replaces"])) for f in model["fused"][:ROWS]]
        body = [*table(("node", "operator", "stands for"), fused), *_more(model["fused"], "\n")]
        lines += folded("Fused operators", body)
    return "\n".join(lines).rstrip("\n")


def code(text: object) -> str:
    """A code span: no markup in it works; long text is cut."""
    shown = one_line(text)
    if len(shown) > LENGTH:
        shown = shown[: LENGTH - 1] + "…"
    fence = "`"
    while fence in shown:
        fence += "`"
    edge = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{edge}{shown or ' '}{edge}{fence}"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table; the bars in its cells are escaped."""
    for row in (headings, ["---"] * len(headings), *rows):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def folded(title: str, lines: Iterable[str]) -> list[str]:
    """Details that open on a click."""
    return ["<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>", ""]


def _more(rows: Sequence[Any], before: str) -> list[str]:
    return [f"{before}… and {len(rows) - ROWS:,} more"] if len(rows) > ROWS else []


def _sizes(model: Json) -> Iterator[tuple[str, str, str]]:
    for name, key in (
        ("nodes", "nodes"), ("bytes of initializers", "initializer_bytes"),
        ("BatchNormalization", "batch_normalizations"),
    ):  # fmt: skip
        yield name, f"{model[key]['before']:,}", f"{model[key]['after']:,}"


def _reason(declined: Json) -> str:
    where = f" in {declined['graph']}" if declined["graph"] else ""
    return f"[{declined['label']}] {declined['op']} {declined['node']!r}{where}: {declined['reason']}"


def _parity(found: Json) -> list[str]:
    guilty = [
        f"Guilty: {code(s['op'])} at {code(s['output'])}, for {code(', '.join(s['nodes']))}"
        for s in found["guilty"]
    ]
    rows = [
        (
            code(o["name"]),
            *(_number(o[k]) for k in ("max_abs", "smallest_tolerance", "tolerance")),
            o["verdict"],
        )
        for o in found["outputs"][:ROWS]
    ]
    body = [f"{code(found['judge'])}: {code(found['reason'])}", ""]
    if rows:
        body += [
            *table(("output", "max difference", "needs", "allowed", "verdict"), rows),
            *_more(found["outputs"], "\n"),
        ]
    return [*(f"{line}\n" for line in guilty[:ROWS]), *folded(f"Parity {found['verdict']}", body)]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"


def _made_by(found: Json) -> Iterator[str]:
    yield from (f"{name} {version}" for name, version in found["tool"].items() if name != "name")
    for name, key in (("model", "sha256"), ("output", "output_sha256")):
        if found["model"][key]:
            yield f"{name} sha256 {found['model'][key]}"
