"""The baseline: what each model was when someone last agreed to it; a line for each site and reason."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fuser.errors import ConfigError
from fuser.gate.weights import key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fuser.gate.measure import Measured
    from fuser.report import Declined

FORMAT = 1


@dataclass(frozen=True)
class Site:
    """A fused operator: the operators it stands for, the rules that led there, a digest of its weights."""

    op: str
    ops: tuple[str, ...]
    rules: tuple[str, ...]
    weights: str


@dataclass(frozen=True)
class Baseline:
    """One model. ``latency_ratio`` is None where no limit asked for it."""

    sha256: str
    weights: str
    nodes: int
    batch_normalizations: int
    nbytes: int
    latency_ratio: float | None = None
    sites: Mapping[str, Site] = field(default_factory=dict)
    declined: tuple[str, ...] = ()


def of(measured: Measured) -> Baseline:
    """The baseline that a model as measured is."""
    report = measured.report
    sites = {
        key(f): Site(f.op, f.ops, f.rules, measured.site_weights.get(key(f), "")) for f in report.fusions
    }
    return Baseline(
        sha256=report.model.sha256,
        weights=measured.weights,
        nodes=report.model.nodes[1],
        batch_normalizations=report.model.batch_normalizations[1],
        nbytes=measured.nbytes[1],
        latency_ratio=None if measured.latency is None else round(measured.latency.ratio, 3),
        sites=sites,
        declined=tuple(sorted({sentence(d) for d in report.declined})),
    )


def sentence(declined: Declined) -> str:
    """A near miss as the baseline has it."""
    where = f" in {declined.graph}" if declined.graph else ""
    return f"{declined.rule} [{declined.label}] {declined.op} {declined.node!r}{where}: {declined.reason}"


def read(file: Path) -> dict[str, Baseline] | None:
    """The baselines by model; None where there is no file.

    Raises:
        ConfigError: it is no baseline that this release reads.
    """
    try:
        found = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} can't be read as a baseline ({error}); {_again(file)}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ConfigError(f"{file} is no baseline of format {FORMAT}; {_again(file)}")
    try:
        return {model: _entry(entry) for model, entry in found["models"].items()}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigError(f"{file} is damaged ({error!r}), perhaps by a merge; {_again(file)}") from None


def write(baselines: Mapping[str, Baseline]) -> str:
    """The text of the file: JSON, laid out so that a change of one site is a change of one line."""
    models = {model: _json(baseline) for model, baseline in sorted(baselines.items())}
    return _lines({"format": FORMAT, "models": models}, depth=4) + "\n"


def _again(file: Path) -> str:
    return f"restore it from version control, or delete {file} and write it with `onnx-fuser gate --update`"


def _entry(found: Mapping[str, Any]) -> Baseline:
    """One model's entry; sites as tuples."""
    sites = {
        str(name): Site(site["op"], tuple(site["ops"]), tuple(site["rules"]), site["weights"])
        for name, site in found["fusions"].items()
    }
    hashes, numbers = found["hashes"], found["numbers"]
    ratio = numbers.get("latency_ratio")
    return Baseline(
        sha256=str(hashes["model"]),
        weights=str(hashes["weights"]),
        nodes=int(numbers["nodes"]),
        batch_normalizations=int(numbers["batch_normalizations"]),
        nbytes=int(numbers["bytes"]),
        latency_ratio=None if ratio is None else float(ratio),
        sites=sites,
        declined=tuple(map(str, found["declined"])),
    )


def _json(baseline: Baseline) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        "batch_normalizations": baseline.batch_normalizations,
        "bytes": baseline.nbytes,
        "nodes": baseline.nodes,
    }
    if baseline.latency_ratio is not None:
        numbers["latency_ratio"] = baseline.latency_ratio
    return {
        "declined": list(baseline.declined),
        "fusions": {
            name: {"op": site.op, "ops": list(site.ops), "rules": list(site.rules), "weights": site.weights}
            for name, site in baseline.sites.items()
        },
        "hashes": {"model": baseline.sha256, "weights": baseline.weights},
        "numbers": numbers,
    }


def _lines(value: Any, depth: int, indent: str = "") -> str:
    """JSON with one item a line down to a depth, and each item below it whole in its line."""
    if not depth or not isinstance(value, (dict, list)) or not value:
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    inner = indent + " "
    items: Sequence[str]
    if isinstance(value, dict):
        items = [
            f"{json.dumps(k, ensure_ascii=False)}: {_lines(value[k], depth - 1, inner)}"
            for k in sorted(value)
        ]
        opening, closing = "{", "}"
    else:
        items = [_lines(item, depth - 1, inner) for item in value]
        opening, closing = "[", "]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}{closing}"
