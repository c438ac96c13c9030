"""What a report says beyond what the passes did: pictures of the sites, memory, advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fuser.advice import advise
from fuser.memory import measured_peaks, memory_of
from fuser.report.facts import name_of, nodes_of

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from fuser.report.model import Fusion, Report
    from fuser.storage import StoredModel

MOST = 1 << 28
"""Bytes of initializers up to which onnxruntime's peak is measured: it costs a run of each model."""


def study(
    before: StoredModel,
    after: StoredModel,
    report: Report,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    fused: Path | None = None,
    timeout: float = 300.0,
) -> Report:
    """The report with how the nodes of each site were connected, with memory, and with advice.

    ``before`` is the model as it was. ``shapes`` are the user's; else those of the first draw
    of the parity check. ``fused`` is a file with the fused model, which is run once to measure; ``timeout``
    is in seconds.

    Raises:
        ConfigError: a shape is given that an input can't have.
        ModelError: a parameter's bytes are damaged.
    """
    drawn = dict(report.parity.draws[0].shapes) if report.parity and report.parity.draws else {}
    memory = memory_of(before.proto, after.proto, {**drawn, **(shapes or {})})
    small = sum(report.model.initializer_bytes) < MOST
    if fused is not None and before.path is not None and memory.before is not None and small:
        peaks = measured_peaks((before.path, fused), before.proto, memory.shapes, timeout=timeout)
        memory = replace(memory, measured=peaks)
    return replace(
        report,
        fusions=connected(report.fusions, before.proto),
        memory=memory,
        advice=advise(before, after.proto, report.parity),
    )


def connected(fusions: Sequence[Fusion], model: ModelProto) -> tuple[Fusion, ...]:
    """The fusions with the edges between the nodes they stand for, as pairs of indices into ``nodes``."""
    wanted = {name for fusion in fusions for name in fusion.nodes}
    nodes: dict[str, NodeProto] = {}
    for node in nodes_of(model) if wanted else ():
        if name_of(node) in wanted:
            nodes.setdefault(name_of(node), node)
    return tuple(replace(fusion, edges=_edges([nodes.get(n) for n in fusion.nodes])) for fusion in fusions)


def _edges(nodes: Sequence[NodeProto | None]) -> tuple[tuple[int, int], ...]:
    found = [(i, node) for i, node in enumerate(nodes) if node is not None]
    makers = {v: i for i, node in found for v in node.output if v}
    return tuple(dict.fromkeys((makers[v], j) for j, node in found for v in node.input if v in makers))
