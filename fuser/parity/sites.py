"""The fused places one by one: cut out and checked alone, and watched for the sign of their values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from onnx import ModelProto, helper

from fuser.parity.border import guesses
from fuser.parity.cut import CutError, MissingError
from fuser.parity.draws import Plan, drawn
from fuser.parity.repeat import load
from fuser.parity.result import Site, SiteDifference
from fuser.parity.runner import EngineError, WorkerDiedError
from fuser.parity.source import write_part
from fuser.parity.trial import try_models

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from onnx import TypeProto

    from fuser.parity.border import Types
    from fuser.parity.compare import Tolerance
    from fuser.parity.cut import Cutter
    from fuser.parity.runner import Engine, Worker
    from fuser.parity.source import Array, InputSpec, Source
    from fuser.parity.trial import Trial

LARGEST_COPY = 200_000_000  # bytes of a model that is worth copying to look inside


@dataclass(frozen=True)
class Alone:
    """How sites are checked by themselves."""

    worker: Worker
    a: Cutter
    b: Cutter
    types: Types
    folder: Path
    tolerance: Tolerance
    draws: int
    seed: int

    def check(self, site: Site, observed: Mapping[str, Array]) -> tuple[SiteDifference, str]:
        """Cut the site out of A and of B and compare the two; ``observed`` are values seen in a run of A.

        Returns the judge's name as well.
        """
        try:
            cut_a = self.a.cut(site, site.inputs)
            names = [value.name for value in cut_a.graph.input]
        except CutError as error:
            return SiteDifference(site, "inconclusive", (), None, f"it can't be cut out: {error}"), ""
        try:
            cut_b = self.b.cut(site, names)
        except MissingError as error:
            return SiteDifference(site, "failed", (), None, str(error), alone=True), ""
        except CutError as error:
            return SiteDifference(site, "inconclusive", (), None, f"it can't be cut out: {error}"), ""
        more = {value.name for value in cut_b.graph.input} - set(names)
        if more:
            reason = f"B computes it from {', '.join(sorted(more))} as well, A does not"
            return SiteDifference(site, "failed", (), None, reason, alone=True), ""
        trial = self._try(cut_a, cut_b, names, self.types.of(site.graph), observed)
        if not trial.ran:
            return SiteDifference(site, "inconclusive", (), None, trial.reason), trial.judge
        negatives = (trial.negatives or {}).get(site.output)
        found = SiteDifference(site, trial.verdict, trial.outputs, negatives, trial.reason, alone=True)
        return found, trial.judge

    def _try(
        self,
        cut_a: ModelProto,
        cut_b: ModelProto,
        names: Sequence[str],
        types: Mapping[str, TypeProto],
        observed: Mapping[str, Array],
    ) -> Trial:
        first: Trial | None = None
        for specs in guesses(names, cut_a, types, observed):
            plan = Plan(specs, self.draws, self.seed)
            one, other = self._write(cut_a, specs, "A"), self._write(cut_b, specs, "B")
            trial = try_models(self.worker, one, other, partial(drawn, plan), self.tolerance)
            if trial.ran:
                return trial
            first = first or trial
        if first is None:
            raise AssertionError("there is always a guess")
        return first

    def _write(self, cut: ModelProto, specs: Sequence[InputSpec], label: str) -> Source:
        typed = ModelProto()
        typed.CopyFrom(cut)
        del typed.graph.input[:]
        typed.graph.input.extend(
            helper.make_tensor_value_info(spec.name, spec.elem_type, spec.dims) for spec in specs
        )
        return write_part(typed, label, self.folder / f"site-{label}.onnx")


def observe(
    worker: Worker, a: Source, names: Sequence[str], trial: Trial, folder: Path
) -> Mapping[str, Array]:
    """Values inside A in one run, as far as A runs with them exposed."""
    try:
        if not _expose(worker, trial.engine, a, names, folder):
            return {}
        outputs, _ = worker.run(trial.feeds[0])
    except (EngineError, WorkerDiedError):
        return {}
    return outputs


def negatives(
    worker: Worker, a: Source, sites: Sequence[Site], trial: Trial, folder: Path
) -> dict[str, float]:
    """The share of negative values at the outputs of the main graph's sites in A, over all draws."""
    names = [site.output for site in sites if not site.graph]
    shares: dict[str, list[float]] = {}
    try:
        if not _expose(worker, trial.engine, a, names, folder):
            return {}
        for feed in trial.feeds:
            for name, share in worker.signs(feed).items():
                if share is not None:
                    shares.setdefault(name, []).append(share)
    except (EngineError, WorkerDiedError):
        return {}
    return {name: sum(found) / len(found) for name, found in shares.items()}


def _expose(worker: Worker, engine: Engine, a: Source, names: Sequence[str], folder: Path) -> bool:
    """Load a copy of A that also gives the named values; False when there is nothing to see or A is too
    large."""
    produced = {name for node in a.proto.graph.node for name in node.output}
    shown = {value.name for value in a.proto.graph.output}
    extra = [name for name in dict.fromkeys(names) if name in produced - shown]
    if not any(name in produced | shown for name in names) or a.nbytes > LARGEST_COPY:
        return False
    model = a.stored.materialize()
    for name in extra:
        model.graph.output.add().name = name
    load(worker, engine, write_part(model, "A", folder / "exposed.onnx"))
    return True
