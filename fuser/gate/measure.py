"""Everything that is measured of one model before it is judged."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fuser.gate.latency import Latency, time_pair
from fuser.gate.weights import digests
from fuser.options import Options
from fuser.report.facts import name_of, nodes_of
from fuser.steps import check, run
from fuser.storage import StoredModel, load, save
from fuser.targets.atc import lint, to_atc_form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import ModelProto

    from fuser.gate.limits import Limits
    from fuser.report import Report
    from fuser.targets.finding import Finding


@dataclass(frozen=True)
class Measured:
    """The report on one model, and what it does not hold.

    ``model`` is the name that the gate knows it by. ``left`` are the LeakyRelus that no fused operator took,
    by node name. ``nbytes`` are of all files of the model, and of the fused one. ``findings`` by target.
    ``weights`` is a digest of all of the model's weights, ``site_weights`` of those of each fused site, by
    output. ``seconds`` is how long all this took.
    """

    model: str
    report: Report
    left: tuple[str, ...] = ()
    nbytes: tuple[int, int] = (0, 0)
    findings: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    latency: Latency | None = None
    weights: str = ""
    site_weights: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def measure(name: str, path: Path, limits: Limits) -> Measured:
    """Fuse the model, check parity, and measure what its limits ask for; only temporary files are written.

    Raises:
        FuserError: the model or an option of the run is wrong.
    """
    started = time.perf_counter()
    tolerance = max(limits.tolerance.values(), default=None)
    options = Options(
        patterns=limits.patterns, freeze_inputs=limits.freeze_inputs, inputs=limits.inputs,
        shapes=limits.shapes or None, tolerance=tolerance, timeout=limits.timeout,
    )  # fmt: skip
    stored = load(path)
    report = check(path, stored, run(stored, options), options)
    with tempfile.TemporaryDirectory(prefix="onnx-fuser-") as folder:
        fused = save(stored, Path(folder) / "fused.onnx")
        latency = time_pair(path, fused.path, limits) if limits.timed else None
    source = load(path)
    sizes = sum(block.nbytes for block in (source.source, *source.weights.sources.values())), fused.nbytes
    weights, sites = digests(source, report.fusions)
    return Measured(
        model=name,
        report=report,
        left=unfused(stored.proto),
        nbytes=sizes,
        findings={target: _atc(stored, path, limits) for target in limits.targets},
        latency=latency,
        weights=weights,
        site_weights=sites,
        seconds=time.perf_counter() - started,
    )


def unfused(fused: ModelProto) -> tuple[str, ...]:
    """The names of the LeakyRelus that are left in a fused model."""
    return tuple(
        name_of(node)
        for node in nodes_of(fused)
        if node.op_type == "LeakyRelu" and node.domain in ("", "ai.onnx")
    )


def _atc(stored: StoredModel, path: Path, limits: Limits) -> tuple[Finding, ...]:
    """What stands between the fused model, in ATC's form, and ATC."""
    model, findings = to_atc_form(stored.proto, cann=limits.cann)
    return (*findings, *lint(model, cann=limits.cann, soc=limits.soc, path=path))
