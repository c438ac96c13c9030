"""A report for the terminal. Takes report format 1 as JSON has it, gives what rich can print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.filesize import decimal
from rich.text import Text

from fuser.report.layout import BAD, DOUBTFUL, FAINT, Sentences, clean, columns, heading, line, verdict

Json = Mapping[str, Any]
SHOWN = 10
"""Reasons shown before ``… and N more``."""


def render(report: Json, *, verbose: bool = False) -> Iterator[RenderableType]:
    """The whole report: what was fused, what was left and why, whether it computes the same, what it weighs."""
    yield from fusions(report, verbose=verbose)
    yield from left_alone(report, verbose=verbose)
    if report["parity"] is not None:
        yield from parity(report["parity"], verbose=verbose)
    yield from sizes(report)
    if verbose:
        yield from rules(report)
        yield from timing(report)


def fusions(report: Json, *, verbose: bool = False) -> Iterator[RenderableType]:
    """What was fused, by kind, and what happened to BatchNormalization."""
    found = report["fusions"]
    kinds = Counter((made_of(f), f["op"]) for f in found)
    yield heading(f"Fused {len(found)}" if found else "Nothing was fused")
    if kinds:
        yield columns([(str(n), parts, "->", op) for (parts, op), n in kinds.most_common()], right=[0])
    if verbose and found:
        yield columns(
            [(f["output"], f["graph"] or "main graph", ", ".join(f["rules"])) for f in found],
            headings=("output", "graph", "rules"),
        )
    before, after = (report["model"]["batch_normalizations"][k] for k in ("before", "after"))
    if before:
        yield line(f"BatchNormalization: {before} before, {after} left", DOUBTFUL if after else "")


def made_of(fusion: Json) -> str:
    """``Conv + BatchNormalization + LeakyRelu``: the operators of the nodes that a fused one stands for."""
    return " + ".join(fusion["ops"])


def left_alone(report: Json, *, verbose: bool = False) -> Iterator[RenderableType]:
    """Near misses with their reasons, nearest first, and the options that would let them go through."""
    found = report["declined"]
    if not found:
        return
    shown = found if verbose else found[:SHOWN]
    yield heading(f"Left alone: {len(found)} near {'miss' if len(found) == 1 else 'misses'}, nearest first")
    yield Sentences(*map(reason, shown))
    if len(shown) < len(found):
        yield Sentences(f"… and {len(found) - len(shown)} more: --verbose, --report FILE or onnx-fuser explain has them")
    hints = Counter(d["hint"] for d in found if d["hint"])
    for hint, count in hints.most_common():
        yield Text(f"Hint: {clean(hint)} would help {count} of them", DOUBTFUL)


def reason(declined: Json) -> str:
    """A near miss as one sentence."""
    where = f" in {declined['graph']}" if declined["graph"] else ""
    return f"[{declined['label']}] {declined['op']} {declined['node']!r}{where}: {declined['reason']}"


def parity(found: Json, *, verbose: bool = False) -> Iterator[RenderableType]:
    """The verdict and what it rests on; each output where it did not pass."""
    word = found["verdict"]
    yield Text.assemble(("Parity ", "bold"), verdict(word), f" ({clean(found['judge'])})")
    yield Sentences(found["reason"])
    if found["outputs"] and (verbose or word != "passed"):
        yield outputs(found["outputs"])
    for site in found["guilty"]:
        where = f" in {site['graph']}" if site["graph"] else ""
        yield Text(clean(f"Guilty: {site['op']} at {site['output']!r}{where}"), BAD)
        yield Sentences(f"stands for {', '.join(site['nodes'])}")


def outputs(found: Sequence[Json]) -> RenderableType:
    """One row per output: how far off, what it would need, what it may."""
    return columns(
        [
            (
                o["name"], o["dtype"], number(o["max_abs"]), number(o["snr_db"], ".0f"),
                number(o["smallest_tolerance"]), number(o["tolerance"]), verdict(o["verdict"]),
            )
            for o in found
        ],
        headings=("output", "type", "max diff", "SNR dB", "needs", "allowed", "verdict"),
        right=[2, 3, 4, 5],
    )  # fmt: skip


def number(value: float | None, form: str = ".2g") -> str:
    """A measure, or a dash where it does not exist."""
    return "–" if value is None else format(value, form)


def sizes(report: Json) -> Iterator[RenderableType]:
    """Nodes and bytes before and after, and where the model went."""
    model = report["model"]
    nodes, weights = model["nodes"], model["initializer_bytes"]
    yield heading("Size")
    yield columns(
        [
            ("nodes", str(nodes["before"]), "->", str(nodes["after"])),
            ("initializers", decimal(weights["before"]), "->", decimal(weights["after"])),
        ],
        right=[1, 3],
    )


def rules(report: Json) -> Iterator[RenderableType]:
    """The rules that applied, how often."""
    yield heading("Rules")
    yield columns(
        [(r["rule"], str(r["tries"]), str(r["hits"])) for r in report["rules"] if r["tries"]],
        headings=("rule", "tried", "applied"),
        right=[1, 2],
    )
    never = [r["rule"] for r in report["rules"] if not r["tries"]]
    if never:
        yield Sentences(f"never tried, as no node is of the kind they begin with: {', '.join(never)}")


def timing(report: Json) -> Iterator[RenderableType]:
    """Seconds by step."""
    yield Text("Seconds: " + ", ".join(f"{k} {v:.3f}" for k, v in report["timing"].items()), FAINT)
