"""What a run of A shows at the border of its fused places: types, shapes, and how many values are negative."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onnx import ModelProto

from fuser.parity.repeat import load
from fuser.parity.runner import EngineError, WorkerDiedError
from fuser.parity.source import variant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fuser.parity.result import Site
    from fuser.parity.runner import Seen, Worker
    from fuser.parity.source import Source
    from fuser.parity.trial import Trial

LARGEST_COPY = 200_000_000  # bytes of a model that is worth copying to look inside


@dataclass(frozen=True)
class Watched:
    """``seen``: values of the main graph in the first run. ``negatives``: the share over all runs."""

    seen: Mapping[str, Seen] = field(default_factory=dict)
    negatives: Mapping[str, float] = field(default_factory=dict)


def watch(worker: Worker, a: Source, sites: Sequence[Site], trial: Trial, folder: Path) -> Watched:
    """Run A on the trial's inputs with the values at the sites' borders exposed, as far as it runs so."""
    names = {name for site in sites if not site.graph for name in (*site.inputs, site.output)}
    shown = {value.name for value in a.proto.graph.output}
    extra = names & {name for node in a.proto.graph.node for name in node.output} - shown
    if not (extra or names & shown) or a.nbytes > LARGEST_COPY:
        return Watched()
    model = ModelProto()
    model.CopyFrom(a.proto)
    for name in sorted(extra):
        model.graph.output.add().name = name
    try:
        load(worker, trial.engine, variant(a, model, folder / "exposed.onnx"))
        runs = [worker.watch(feed) for feed in trial.feeds]
    except (EngineError, WorkerDiedError):
        return Watched()
    shares: dict[str, list[float]] = {}
    for name, found in (item for run in runs for item in run.items()):
        if found.negatives is not None:
            shares.setdefault(name, []).append(found.negatives)
    return Watched(runs[0], {name: sum(found) / len(found) for name, found in shares.items()})
