"""The fused places cut out of both models and checked alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from onnx import ModelProto

from fuser.parity.border import guesses, is_certain
from fuser.parity.cut import CutError, MissingError
from fuser.parity.draws import Plan, drawn
from fuser.parity.outputs import conclude
from fuser.parity.result import Site, SiteDifference
from fuser.parity.source import write_part
from fuser.parity.together import (
    MOST_ELEMENTS,
    MOST_MODELS,
    elements,
    prefix,
    renamed,
    side_by_side,
    typed,
)
from fuser.parity.trial import try_models

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from fuser.parity.compare import Tolerance
    from fuser.parity.pair import Pair
    from fuser.parity.runner import Seen, Worker
    from fuser.parity.source import InputSpec, Source
    from fuser.parity.trial import Trial


class Found(NamedTuple):
    """What came of one site; ``judge`` is "" where nothing ran."""

    difference: SiteDifference
    judge: str = ""


@dataclass(frozen=True)
class Cut:
    """One site as two models of the same inputs, with what is known of those, likeliest first."""

    site: Site
    a: ModelProto
    b: ModelProto
    guesses: tuple[list[InputSpec], ...]
    certain: bool
    """The shapes are those of a run: where B does not run on them, or gives other shapes, B is wrong."""

    @property
    def elements(self) -> int:
        """About how many the two hold and take."""
        return elements((self.a, self.b), self.guesses[0])

    @property
    def versions(self) -> list[tuple[int, list[tuple[str, int]]]]:
        """Only parts of the same versions can stand in one model."""
        return [
            (model.ir_version, sorted((o.domain, o.version) for o in model.opset_import))
            for model in (self.a, self.b)
        ]


@dataclass(frozen=True)
class Alone:
    """How sites are checked by themselves."""

    worker: Worker
    pair: Pair
    folder: Path
    tolerance: Tolerance
    draws: int
    seed: int

    def check(self, sites: Sequence[Site], seen: Mapping[str, Seen]) -> list[Found]:
        """Cut each site out of A and of B and compare the two; ``seen`` are values in a run of A.

        As many as fit run in one go; one of which that says nothing runs by itself.
        """
        found: dict[Site, Found] = {}
        inside: dict[Site, set[str]] = {}
        group: list[Cut] = []
        for site in dict.fromkeys(sites):
            cut = self._cut(site, seen)
            if isinstance(cut, SiteDifference):
                found[site] = Found(cut)
                continue
            inside[site] = {value for node in cut.b.graph.node for value in node.output}
            if group and not _fits(group, cut):
                found |= self._judge(group)
                group = []
            group.append(cut)
        found |= self._judge(group)
        return [found[site] if site in inside else _within(found, inside, site) for site in sites]

    def _cut(self, site: Site, seen: Mapping[str, Seen]) -> Cut | SiteDifference:
        """The site's two models, or why there are none."""
        try:
            cut_a = self.pair.a.cut(site, self.pair.border(site))
            names = [value.name for value in cut_a.graph.input]
        except CutError as error:
            return SiteDifference(site, "inconclusive", (), None, f"it can't be cut out: {error}")
        try:
            cut_b = self.pair.b.cut(site, names)
        except MissingError as error:
            return SiteDifference(site, "failed", (), None, str(error), alone=True)
        except CutError as error:
            return SiteDifference(site, "inconclusive", (), None, f"it can't be cut out: {error}")
        more = {value.name for value in cut_b.graph.input} - set(names)
        if more:
            reason = f"B computes it from {', '.join(sorted(more))} as well, A does not"
            return SiteDifference(site, "failed", (), None, reason, alone=True)
        types, here = self.pair.types.of(site.graph), {} if site.graph else seen
        known = guesses(names, cut_a, cut_b, types, here)
        return Cut(site, cut_a, cut_b, tuple(known), is_certain(names, types, here))

    def _judge(self, group: Sequence[Cut]) -> dict[Site, Found]:
        together = dict(self._together(group)) if len(group) > 1 else {}
        return {cut.site: together.get(cut.site) or self._by_itself(cut) for cut in group}

    def _together(self, group: Sequence[Cut]) -> Iterator[tuple[Site, Found]]:
        """The verdicts of those that have one when all run as one model."""
        specs = [cut.guesses[0] for cut in group]
        inputs = [spec for index, known in enumerate(specs) for spec in renamed(known, index)]
        trial = self._try(
            side_by_side([cut.a for cut in group], specs),
            side_by_side([cut.b for cut in group], specs),
            inputs,
        )
        for index, cut in enumerate(group):
            before = prefix(index)
            outputs = tuple(
                replace(output, name=output.name.removeprefix(before))
                for output in trial.outputs
                if output.name.startswith(before)
            )
            verdict, reason = conclude(outputs, len(trial.draws), set())
            if verdict == "passed" or (verdict == "failed" and cut.certain):
                share = (trial.negatives or {}).get(before + cut.site.output)
                difference = SiteDifference(cut.site, verdict, outputs, share, reason, alone=True)
                yield cut.site, Found(difference, trial.judge)

    def _by_itself(self, cut: Cut) -> Found:
        trials = []
        for specs in cut.guesses:
            one, other = ModelProto(), ModelProto()
            for model, part in ((one, cut.a), (other, cut.b)):
                model.CopyFrom(part)
                del model.graph.input[:]
                model.graph.input.extend(typed(specs))
            trial = self._try(one, other, specs)
            trials.append(trial)
            if trial.compared or (trial.ran and cut.certain):
                share = (trial.negatives or {}).get(cut.site.output)
                # A site does not saturate: where its output hardly moves, its weights hardly count.
                verdict = "passed" if trial.weak else trial.verdict
                difference = SiteDifference(cut.site, verdict, trial.outputs, share, trial.reason, alone=True)
                return Found(difference, trial.judge)
        return Found(SiteDifference(cut.site, "inconclusive", (), None, trials[0].reason), trials[0].judge)

    def _try(self, a: ModelProto, b: ModelProto, specs: Sequence[InputSpec]) -> Trial:
        plan = Plan(specs, self.draws, self.seed)
        one, other = self._write(a, "A"), self._write(b, "B")
        return try_models(self.worker, one, other, partial(drawn, plan), self.tolerance)

    def _write(self, model: ModelProto, label: str) -> Source:
        return write_part(model, label, self.folder / f"site-{label}.onnx")


def _fits(group: Sequence[Cut], cut: Cut) -> bool:
    """Whether one more can run with the others."""
    total = cut.elements + sum(other.elements for other in group)
    return len(group) < MOST_MODELS and total <= MOST_ELEMENTS and group[0].versions == cut.versions


def _within(found: Mapping[Site, Found], inside: Mapping[Site, set[str]], site: Site) -> Found:
    """What came of a site that can't be cut out. Where B opened a call, one that A has no value of may be part of another
    that agrees.
    """
    whole = next((s for s, values in inside.items() if s.graph == site.graph and site.output in values), None)
    if (
        whole is None
        or found[whole].difference.verdict != "passed"
        or found[site].difference.verdict != "inconclusive"
    ):
        return found[site]
    reason = f"judged as a part of {whole}"
    return Found(replace(found[site].difference, verdict="passed", reason=reason), found[whole].judge)
