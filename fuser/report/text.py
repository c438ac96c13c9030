"""A report for the terminal. Takes report format 1 as JSON has it, gives what rich can print."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal
from rich.text import Text

from fuser.report.layout import BAD, DOUBTFUL, FAINT, Sentences, columns, heading, line, verdict
from fuser.report.names import clean, counted
from fuser.report.study_text import advice, in_place, memory_rows, no_figures

if TYPE_CHECKING:
    from rich.console import RenderableType

Json = Mapping[str, Any]
SHOWN = 10
"""Reasons shown before ``… and N more``."""


def render(report: Json, *, verbose: bool = False) -> Iterator[RenderableType]:
    """The whole report: what was fused, what was left and why, whether it computes the same, what the
    target says, what could be better, its size."""
    model = report["model"]
    about = f"{model['path'] or 'A model from memory'} (opset {model['opset']}, IR {model['ir_version']})"
    sections: list[list[RenderableType]] = [
        [line(about, FAINT)],
        [*fusions(report, verbose=verbose)],
        [*left_alone(report, verbose=verbose)],
        [] if report["parity"] is None else [*parity(report["parity"], verbose=verbose)],
        [*target(report["target"], verbose=verbose)],
        [*advice(report["advice"], verbose=verbose)],
        [*sizes(report)],
        [*rules(report), *timing(report)] if verbose else [],
    ]
    yield from spaced(sections)


def spaced(sections: Iterable[Sequence[RenderableType]]) -> Iterator[RenderableType]:
    """The sections that say something, an empty line between them."""
    for i, section in enumerate(filter(None, sections)):
        if i:
            yield ""
        yield from section


def fusions(report: Json, *, verbose: bool = False) -> Iterator[RenderableType]:
    """What was fused, by kind, and what happened to BatchNormalization."""
    found = report["fusions"]
    kinds = Counter((made_of(f), f["op"]) for f in found)
    form = ", written as standard operators" if report["target"]["form"] == "standard" else ""
    yield heading(f"Fused {len(found)}{form}" if found else "Nothing was fused")
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
    yield heading(f"Left alone: {counted(len(found), 'near miss', 'near misses')}, nearest first")
    if verbose:
        yield Sentences(*map(reason, found))
    else:
        groups = alike(found)
        yield Sentences(
            *(reason(d) + (f" (and {n - 1} more like it)" if n > 1 else "") for d, n in groups[:SHOWN])
        )
        if rest := sum(n for _, n in groups[SHOWN:]):
            yield Sentences(f"… and {rest} more: --verbose, --report FILE or onnx-fuser explain has them")
    yield from hints(found)


def hints(found: Sequence[Json]) -> Iterator[RenderableType]:
    """The options that are the way out, with how many of the reasons each would remove."""
    for hint, count in Counter(d["hint"] for d in found if d["hint"]).most_common():
        yield Text(f"Hint: {clean(hint)} would help {count} of them", DOUBTFUL)


def alike(found: Sequence[Json]) -> list[tuple[Json, int]]:
    """The first of the near misses that differ in names only, and how many there are; in the order given."""
    groups: dict[tuple[str, ...], list[Json]] = {}
    for d in found:
        key = (d["rule"], d["label"], d["op"], re.sub(r"'[^']*'", "", d["reason"]))
        groups.setdefault(key, []).append(d)
    return [(group[0], len(group)) for group in groups.values()]


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


def target(found: Json, *, verbose: bool = False) -> Iterator[RenderableType]:
    """What the target would refuse or do otherwise, and the fix."""
    from fuser.targets import text

    if found["findings"]:
        yield heading(f"For {target_name(found)}: {text.counts(found['findings'])}")
        yield from text.findings(found["findings"], verbose=verbose)


def target_name(found: Json) -> str:
    """``ATC``, as people call it."""
    return str(found["name"]).upper()


def sizes(report: Json) -> Iterator[RenderableType]:
    """Nodes and bytes before and after, of a run too where that was counted; where the model went."""
    model = report["model"]
    nodes, weights, memory = model["nodes"], model["initializer_bytes"], report["memory"]
    rows = [("initializers", weights["before"], weights["after"]), *memory_rows(memory)]
    yield heading("Size")
    yield columns(
        [
            ("nodes", str(nodes["before"]), "->", str(nodes["after"])),
            *((name, decimal(before), "->", decimal(after)) for name, before, after in rows),
        ],
        right=[1, 3],
    )
    yield from (Sentences(text) for text in (in_place(memory), no_figures(memory)) if text)
    if model["output"]:
        yield line(f"Wrote {model['output']}")


def rules(report: Json) -> Iterator[RenderableType]:
    """The rules that applied, how often."""
    applied = [r for r in report["rules"] if r["hits"]]
    if applied:
        yield heading("Rules that applied")
        yield columns(
            [(r["rule"], str(r["hits"]), f"of {r['tries']} tries") for r in applied],
            right=[1],
        )


def never_applied(report: Json) -> Iterator[RenderableType]:
    """The rules that did nothing: tried in vain, or not even tried."""
    vain = [r["rule"] for r in report["rules"] if r["tries"] and not r["hits"]]
    idle = Counter(r["rule"].partition(":")[0] for r in report["rules"] if not r["tries"])
    if vain:
        yield heading(f"Rules that were tried in vain: {len(vain)}")
        yield Sentences(", ".join(vain))
    if idle:
        yield heading(f"Rules without a node to begin with: {idle.total()}")
        yield Sentences(", ".join(name if n == 1 else f"{name} ({n})" for name, n in idle.items()))


def story(report: Json, node: str, tried: Sequence[Json]) -> Iterator[RenderableType]:
    """What became of one node, and why each rule that was tried there did not apply."""
    done = [r for r in report["rewrites"] if node in r["nodes"] or node == r["output"]]
    fused = [f for f in report["fusions"] if node in f["nodes"] or node == f["output"]]
    for f in fused:
        yield heading(f"{node!r} is part of {f['op']} at {f['output']!r}")
        yield Sentences(f"made of {made_of(f)}: {', '.join(f['nodes'])}")
    if done:
        yield heading(f"Rules that applied at {node!r}, in order")
        yield columns([(r["pass"], r["rule"], ", ".join(r["nodes"])) for r in done])
    if tried:
        yield heading(f"Rules that did not apply at {node!r}, nearest first")
        yield Sentences(*(f"{d['rule']}: {reason(d)}" for d in tried))
        yield from hints(tried)
    if not (done or fused or tried):
        yield line(f"No rule was tried at {node!r}: no pattern has an operator of its kind where it stands.")


def timing(report: Json) -> Iterator[RenderableType]:
    """Seconds by step."""
    yield line("Seconds: " + ", ".join(f"{k} {v:.3f}" for k, v in report["timing"].items()), FAINT)


def summary(model: Json, *, verbose: bool = False) -> Iterator[RenderableType]:
    """What a model consists of, the fused operators in it, and what could be fused."""
    opsets = ", ".join(f"{domain} {version}" for domain, version in model["opsets"].items())
    about = [
        ("IR version", str(model["ir_version"])),
        ("opset", opsets or "none"),
        ("producer", model["producer"] or "not given"),
        ("sha256", model["sha256"]),
        ("initializers", f"{model['initializers']:,}, {decimal(model['initializer_bytes'])}"),
    ]
    for way in ("input", "output"):
        about += [(f"{way} {name}", kind) for name, kind in model[way + "s"].items()]
    most = sorted(model["operators"].items(), key=lambda item: (-item[1], item[0]))
    functions = model["functions"]
    sections: list[list[RenderableType]] = [
        [line(model["path"], FAINT), columns(about)],
        [heading(counted(len(functions), "function")), Sentences(", ".join(functions))] if functions else [],
        [heading(counted(model["nodes"], "node")), columns([(str(n), op) for op, n in most], right=[0])],
        [*fused_before(model["fused"], verbose=verbose)],
        [*fusible(model["fusible"])],
    ]
    yield from spaced(sections)


def fused_before(found: Sequence[Json], *, verbose: bool) -> Iterator[RenderableType]:
    """The fused operators in a model and the nodes they stand for."""
    shown = found if verbose else found[:SHOWN]
    if found:
        yield heading(f"Fused operators: {len(found)}")
    for f in shown:
        yield Sentences(
            f"{f['op']} {f['name']!r} stands for {f['replaces'] or 'nodes that it does not name'}"
        )
    if len(shown) < len(found):
        yield Sentences(f"… and {len(found) - len(shown)} more: --verbose has them")


def fusible(found: Json) -> Iterator[RenderableType]:
    """What onnx-fuser would do with the model."""
    kinds = Counter((made_of(f), f["op"]) for f in found["fusions"])
    if kinds:
        yield heading(f"Could be fused: {len(found['fusions'])}")
        yield columns([(str(n), parts, "->", op) for (parts, op), n in kinds.most_common()], right=[0])
    else:
        yield heading("Nothing could be fused")
    if found["declined"]:
        yield Sentences(
            f"{counted(len(found['declined']), 'near miss', 'near misses')}: see onnx-fuser explain"
        )
