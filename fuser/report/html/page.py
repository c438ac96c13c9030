"""The page: what it says, section by section. How it looks is in template.html, style.css and table.js.

Every text out of a model goes through Jinja2's autoescaping. Only the two files beside this one and the
charts are put in as they are. The Content-Security-Policy names the script by its hash, so nothing else
could run, and lets nothing be requested.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from rich.filesize import decimal

from fuser.report.html import algebra, charts, picture
from fuser.report.names import clean, counted

Json = Mapping[str, Any]
MOST_KINDS, MOST_HISTOGRAMS = 24, 8
SEVERITIES = ("error", "warning", "note")
WORDS = {"passed": "passed", "failed": "failed", "inconclusive": "could not be judged"}


def page(report: Json) -> str:
    """Report format 1 as one HTML file."""
    environment = Environment(
        loader=PackageLoader("fuser.report.html", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )
    environment.filters.update(bytes=decimal, count=lambda n: f"{n:,}", measure=measure, percent=percent)
    style, script = (_own(name) for name in ("style.css", "table.js"))
    return environment.get_template("template.html").render(
        report=report,
        model=report["model"],
        parity=report["parity"],
        memory=report["memory"],
        policy=policy(style, script),
        style=style,
        script=script,
        title=_title(report["model"]["path"]),
        verdict=_verdict(report),
        judged=judged(report["target"]["findings"]),
        tiles=list(_tiles(report)),
        kinds=kinds(report),
        sites=sites(report),
        histograms=histograms(report),
        area=area(report),
        command=command(report),
        box=(picture.WIDTH, picture.HEIGHT),
    )


def _finalized(value: Any) -> Any:
    """What is printed, without control characters and marks that turn the direction of text."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _own(name: str) -> Markup:
    return Markup((files("fuser.report.html") / name).read_text("utf-8").strip())  # noqa: S704 - our own file


def policy(style: str, script: str) -> str:
    """Nothing from anywhere; the page's own style and script by their hashes."""
    hashes = (base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (style, script))
    css, js = (f"'sha256-{h}'" for h in hashes)
    return f"default-src 'none'; style-src {css}; script-src {js}; base-uri 'none'; form-action 'none'"


def measure(value: float | None) -> str:
    """A measure, or a dash where it does not exist."""
    return "–" if value is None else f"{value:.2g}"


def percent(share: float | None) -> str:
    """A share in percent, never rounded to all or nothing."""
    if share is None:
        return "–"
    if 0 < share < 0.001:
        return "<0.1 %"
    return ">99.9 %" if 0.999 < share < 1 else f"{100 * share:.3g} %"


def _title(path: str) -> str:
    return PurePath(path.replace("\\", "/")).name or "a model from memory"


def _verdict(report: Json) -> tuple[str, str]:
    """The verdict for the style, and in words."""
    found = report["parity"]
    return ("unchecked", "was not checked") if found is None else (found["verdict"], WORDS[found["verdict"]])


def judged(findings: Sequence[Json]) -> tuple[str, str] | None:
    """The worst severity for the style, and how many there are of each; None where there is nothing."""
    number = Counter(f["severity"] for f in findings)
    found = [severity for severity in SEVERITIES if number[severity]]
    return (found[0], ", ".join(counted(number[s], s) for s in found)) if found else None


def _tiles(report: Json) -> Iterator[tuple[str, str, str, float | None]]:
    """Name, before, after, and how much is left, of what a run changes; None where there was nothing."""
    model, memory = report["model"], report["memory"]
    for name, key in (("operators", "nodes"), ("BatchNormalization", "batch_normalizations")):
        yield _tile(name, model[key]["before"], model[key]["after"], "{:,}".format)
    weights = model["initializer_bytes"]
    yield _tile("bytes of weights", weights["before"], weights["after"], decimal)
    if memory and memory["before"]:
        before, after = memory["before"], memory["after"]
        yield _tile("peak of activations", before["peak"], after["peak"], decimal)
        yield _tile("bytes moved in a run", before["moved"], after["moved"], decimal)


def _tile(name: str, before: int, after: int, shown: Any) -> tuple[str, str, str, float | None]:
    return name, shown(before), shown(after), after / before if before else None


def kinds(report: Json) -> list[dict[str, Any]]:
    """Each kind of site once: how many, the first of them as a picture, its rules and its algebra."""
    docs = {rule["rule"]: rule["doc"] for rule in report["rules"]}
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for fusion in report["fusions"]:
        edges = tuple(map(tuple, fusion["edges"]))
        key = (fusion["op"], tuple(fusion["ops"]), edges, tuple(fusion["rules"]))
        if key in found:
            found[key]["count"] += 1
        elif fusion["ops"] and fusion["nodes"]:
            found[key] = {"count": 1, "fusion": fusion}
    most = sorted(found.values(), key=lambda kind: -kind["count"])[:MOST_KINDS]
    for kind in most:
        fusion = kind["fusion"]
        kind["before"] = picture.before(fusion)
        kind["after"] = picture.after(fusion, kind["before"].height)
        kind["steps"] = algebra.steps(fusion, docs)
    return most


def sites(report: Json) -> list[dict[str, Any]]:
    """One row per fused operator: what it is, what parity saw there, whether it may write in place."""
    found = report["parity"]["sites"] if report["parity"] else []
    checked = {(s["site"]["graph"], s["site"]["output"]): s for s in found}
    memory = report["memory"]
    saves = {r["output"]: r["saves"] for r in memory["in_place"]} if memory else {}
    rows = []
    for fusion in report["fusions"]:
        seen = checked.get((fusion["graph"], fusion["output"]))
        needs = [o["smallest_tolerance"] for o in seen["outputs"]] if seen else []
        rows.append(
            {
                **fusion,
                "made_of": " + ".join(fusion["ops"]),
                "names": ", ".join(fusion["nodes"]),
                "verdict": seen["verdict"] if seen else "",
                "negatives": seen["negatives"] if seen else None,
                "needs": max((n for n in needs if n is not None), default=None),
                "saves": saves.get(fusion["output"]),
            }
        )
    return rows


def histograms(report: Json) -> list[tuple[Json, Sequence[Markup]]]:
    """The outputs that are furthest, each with its chart."""
    outputs = [o for o in (report["parity"] or {"outputs": []})["outputs"] if o["histogram"]]
    outputs.sort(key=lambda o: -(o["smallest_tolerance"] or 0.0))
    return [
        (o, charts.histogram(o["histogram"], o["tolerance"], label=_spoken(o)))
        for o in outputs[:MOST_HISTOGRAMS]
    ]


def _spoken(output: Json) -> str:
    total, equal = sum(output["histogram"]), output["histogram"][0]
    return (
        f"Histogram: of {total:,} elements {equal:,} are equal; the furthest needs a tolerance of "
        f"{measure(output['smallest_tolerance'])}, {measure(output['tolerance'])} is allowed"
    )


def area(report: Json) -> list[Markup]:
    """The chart of activation memory, where there are figures."""
    memory = report["memory"]
    if not memory or not memory["before"] or not memory["before"]["steps"]:
        return []
    before, after = memory["before"], memory["after"]
    label = (
        "Area chart: activation memory over the operators of a run, at most "
        f"{decimal(before['peak'])} before fusion and {decimal(after['peak'])} after it"
    )
    return charts.memory(before, after, label=label)


def command(report: Json) -> str:
    """What to type to get this report again."""
    model, parity, target = report["model"], report["parity"], report["target"]
    output = model["output"] or "fused.onnx"
    way = ["--bundle", str(PurePath(output).parent)] if target["form"] == "node" else ["-o", output]
    words = ["onnx-fuser", "optimize", model["path"] or "MODEL", *way]
    if target["name"] != "onnx":
        words += ["--target", target["name"]]
    if target["form"] != ("function" if target["name"] == "onnx" else "standard"):
        words += ["--fused-as", target["form"]]
    if target.get("cann", "master") != "master":
        words += ["--cann", target["cann"]]
    if target.get("soc"):
        words += ["--soc", target["soc"]]
    if target.get("float16"):
        words += ["--precision", "fp16"]
    if parity is None:
        words += ["--no-parity"]
    elif parity["draws"]:
        first = parity["draws"][0]
        if first["seed"] is None:
            words += ["--inputs", "FILE"]
        else:
            words += ["--seed", str(first["seed"])]
    return shlex.join([*words, "--report", "report.json"])
