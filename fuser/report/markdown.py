"""A report, or the summary of a model, for a pull request: the answer first, details folded.

Everything that comes out of a model stands in code spans, where no markup, link or mention of it works. Rows
and their lengths are limited, and the rows once more where that is not enough, so that the text stays below the
65,536 characters that GitHub takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fuser.report.names import counted, one_line
from fuser.report.study_text import in_place, memory_rows, no_figures, note

Json = Mapping[str, Any]
LIMIT, ROWS, LENGTH = 65_536, 50, 200
SEVERITIES = ("error", "warning", "note")
MARKS = {"passed": "✅", "failed": "❌", "inconclusive": "⚠️"}


def report(found: Json) -> str:
    """Report format 1 as Markdown."""
    return fitted(lambda most: _report(found, most))


def fitted(build: Callable[[int], str]) -> str:
    """What ``build`` makes of that many rows in each table and list: as many as stay below the limit."""
    most = ROWS
    while len(text := build(most)) >= LIMIT and most > 1:
        most //= 2
    return text


def _report(found: Json, most: int) -> str:
    """Report format 1, with at most so many rows in each table and list."""
    model, parity, target = found["model"], found["parity"], found["target"]
    left = model["batch_normalizations"]
    lines = [
        f"## onnx-fuser: {code(model['path'] or 'a model from memory')}",
        "",
        f"**{len(found['fusions'])} fused, {left['after']} of {left['before']} BatchNormalization left, "
        + (f"parity {parity['verdict']} {MARKS[parity['verdict']]}" if parity else "parity not checked")
        + "".join(f", {counts} for {target['name'].upper()} {mark}" for counts, mark in _judged(target))
        + "**",
        "",
        *table(("", "before", "after"), _sizes(found)),
        "",
        *(f"{code(text)}\n" for text in (in_place(found["memory"]), no_figures(found["memory"])) if text),
    ]
    kinds = Counter((" + ".join(f["ops"]), f["op"]) for f in found["fusions"])
    if kinds:
        rows = [(str(n), code(parts), code(op)) for (parts, op), n in kinds.most_common(most)]
        lines += [*table(("count", "was", "is"), rows), ""]
    if parity:
        lines += _parity(parity, most)
    for counts, _ in _judged(target):
        worst = sorted(target["findings"], key=lambda f: SEVERITIES.index(f["severity"]))
        items = [f"- {f['severity']} {code(_finding(f))}{way_out(f)}" for f in worst[:most]]
        lines += folded(f"{target['name'].upper()}: {counts}", [*items, *_more(worst, "- ", most)])
    if found["declined"]:
        reasons = [f"- {code(_reason(d))}" for d in found["declined"][:most]]
        title = f"Left alone: {counted(len(found['declined']), 'near miss', 'near misses')}"
        lines += folded(title, [*reasons, *_more(found["declined"], "- ", most)])
    if found["fusions"]:
        every = [
            (code(f["output"]), code(f["op"]), code(", ".join(f["nodes"])), code(", ".join(f["rules"])))
            for f in found["fusions"][:most]
        ]
        head = ("output", "operator", "stands for", "rules")
        body = [*table(head, every), *_more(found["fusions"], "\n", most)]
        lines += folded(f"Every fused operator: {len(found['fusions'])}", body)
    if found["advice"]:
        notes = [f"- {code(note(item))}{way_out(item)}" for item in found["advice"][:most]]
        title = f"Advice: {counted(len(found['advice']), 'note')}"
        lines += folded(title, [*notes, *_more(found["advice"], "- ", most)])
    lines += folded("Versions and hashes", [f"- {code(entry)}" for entry in _made_by(found)])
    return "\n".join(lines).rstrip("\n")


def summary(model: Json) -> str:
    """What a model consists of, as Markdown."""
    return fitted(lambda most: _summary(model, most))


def _summary(model: Json, most: int) -> str:
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
        *table(("operator", "nodes"), [(code(op), str(n)) for op, n in operators[:most]]),
        *_more(operators, "\n", most),
    ]
    lines = [f"## {code(model['path'])}", "", *table(("", ""), rows), "", *folded("Operators", counts)]
    if model["fused"]:
        fused = [(code(f["name"]), code(f["op"]), code(f["replaces"])) for f in model["fused"][:most]]
        body = [*table(("node", "operator", "stands for"), fused), *_more(model["fused"], "\n", most)]
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


def _more(rows: Sequence[Any], before: str, most: int) -> list[str]:
    return [f"{before}… and {len(rows) - most:,} more"] if len(rows) > most else []


def _sizes(found: Json) -> Iterator[tuple[str, str, str]]:
    model = found["model"]
    for name, key in (
        ("nodes", "nodes"), ("bytes of initializers", "initializer_bytes"),
        ("BatchNormalization", "batch_normalizations"),
    ):  # fmt: skip
        yield name, f"{model[key]['before']:,}", f"{model[key]['after']:,}"
    for name, before, after in memory_rows(found["memory"]):
        yield f"bytes: {name}", f"{before:,}", f"{after:,}"


def _reason(declined: Json) -> str:
    where = f" in {declined['graph']}" if declined["graph"] else ""
    return f"[{declined['label']}] {declined['op']} {declined['node']!r}{where}: {declined['reason']}"


def way_out(found: Json) -> str:
    """What to do about a finding, or nothing where there is nothing to do."""
    return f" → {code(found['fix'])}" if found["fix"] else ""


def _judged(target: Json) -> Iterator[tuple[str, str]]:
    """What the target says in numbers, and its mark; nothing where it has nothing to say."""
    number = Counter(f["severity"] for f in target["findings"])
    if number:
        mark = "❌" if number["error"] else "⚠️" if number["warning"] else "✅"
        yield ", ".join(counted(number[s], s) for s in SEVERITIES if number[s]), mark


def _finding(found: Json) -> str:
    where = f"{found['node']!r}: " if found["node"] else ""
    return f"{' '.join(filter(None, (found['code'], found['rule'])))} {where}{found['message']}"


def _parity(found: Json, most: int) -> list[str]:
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
        for o in found["outputs"][:most]
    ]
    body = [f"{code(found['judge'])}: {code(found['reason'])}", ""]
    if rows:
        body += [
            *table(("output", "max difference", "needs", "allowed", "verdict"), rows),
            *_more(found["outputs"], "\n", most),
        ]
    return [*(f"{line}\n" for line in guilty[:most]), *folded(f"Parity {found['verdict']}", body)]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"


def _made_by(found: Json) -> Iterator[str]:
    yield from (f"{name} {version}" for name, version in found["tool"].items() if name != "name")
    for name, key in (("model", "sha256"), ("output", "output_sha256")):
        if found["model"][key]:
            yield f"{name} sha256 {found['model'][key]}"
