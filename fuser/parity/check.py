"""Does model B compute what model A computes?"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fuser.errors import ConfigError
from fuser.parity.compare import Tolerance
from fuser.parity.conditioning import amplified
from fuser.parity.draws import Plan, drawn, supplied
from fuser.parity.inputs import read_inputs
from fuser.parity.judge import Judge
from fuser.parity.outside import outside_change
from fuser.parity.pair import Pair
from fuser.parity.result import Parity, Site, SiteDifference
from fuser.parity.runner import Worker, memory_default
from fuser.parity.shapes import check_given
from fuser.parity.sites import Alone
from fuser.parity.source import (
    Array,
    input_specs,
    interface_difference,
    open_model,
    overridable,
    weight_tolerance,
)
from fuser.parity.trial import Trial, try_models
from fuser.parity.watch import Watched, watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from onnx import ModelProto

    from fuser.parity.draws import Ran, Run


def check_parity(
    a: str | Path | ModelProto,
    b: str | Path | ModelProto,
    *,
    inputs: str | Path | Mapping[str, Array] | None = None,
    draws: int = 3,
    seed: int = 0,
    tolerance: float | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    sites: Sequence[Site] = (),
    freeze_inputs: bool = False,
    timeout: float = 600.0,
    memory: int | None = None,
) -> Parity:
    """Run both models, optimizations off, on the same inputs and compare what they give.

    ``inputs``: the user's, instead of ``draws`` seeded ones; a .npz, .npy or .pb file, a test_data_set
    folder, or arrays by name. ``shapes`` fixes the shape of inputs by name. ``tolerance`` replaces the one
    that follows from the type of A's weights. ``sites`` are the places where B was fused: each is also cut
    out and checked alone, which finds the guilty one when the models differ, finds errors that the outputs
    hide, and has to do when the models as wholes can't run. ``freeze_inputs``: no caller overrides a weight
    that is listed as an input too, so B need not take it. ``timeout``: seconds that one load or one run may
    take; ``memory``: bytes the process that runs the models may take (default: nine tenths of the machine's).

    Models given as paths go to onnxruntime as paths, so external data and large files are never copied.

    Raises ModelError when a model can't be read, ConfigError when an option or an input file does not fit.
    """
    _check_options(draws, tolerance, timeout, memory)
    with tempfile.TemporaryDirectory(prefix="onnx-fuser-") as name:
        folder = Path(name)
        source_a, source_b = open_model(a, "A", folder), open_model(b, "B", folder)
        specs, others = input_specs(source_a.proto.graph)
        check_given(specs, shapes or {})
        feeds = None if inputs is None else read_inputs(inputs, specs)
        difference = interface_difference(source_a.proto, source_b.proto, freeze_inputs=freeze_inputs)
        if difference:
            return Parity("failed", difference, "the models' interfaces")
        if others:
            reason = f"input {others[0]!r} is no tensor, and only tensors can be drawn or given"
            return Parity("inconclusive", reason, "none")
        with Worker(timeout, memory or memory_default()) as worker:
            allowed = Tolerance(
                weight_tolerance(source_a.proto) if tolerance is None else tolerance, tolerance is not None
            )
            plan = Plan(specs, draws, seed, shapes or {}, {} if freeze_inputs else overridable(source_a))
            feed = partial(drawn, plan) if feeds is None else partial(supplied, feeds)
            alone = Alone(worker, Pair(source_a, source_b), folder, allowed, draws, seed)
            return judge_models(alone, feed, sites)


def judge_models(alone: Alone, feed: Callable[[Run], list[Ran]], sites: Sequence[Site]) -> Parity:
    """The verdict on the two models of ``alone``, of the same interface: as wholes on what ``feed`` runs, then at the sites."""
    trial = try_models(alone.worker, alone.pair.before, alone.pair.after, feed, alone.tolerance)
    return _conclude(alone, trial, sites) if sites or trial.weak else _as_parity(trial)


def _check_options(draws: int, tolerance: float | None, timeout: float, memory: int | None) -> None:
    if draws < 1:
        raise ConfigError(f"{draws} draws check nothing: ask for at least 1")
    if tolerance is not None and not 0 <= tolerance < 1:
        raise ConfigError(
            f"a tolerance of {tolerance:g} is none: give one from 0 to below 1, relative to the output"
        )
    if timeout <= 0:
        raise ConfigError(f"a time limit of {timeout:g} seconds leaves no time: give a positive one")
    if memory is not None and memory <= 0:
        raise ConfigError(f"a memory limit of {memory} bytes leaves no memory: give a positive one")


def _conclude(alone: Alone, trial: Trial, sites: Sequence[Site]) -> Parity:
    whole = _as_parity(trial)
    watched = watch(alone.worker, alone.pair.before, sites, trial, alone.folder) if trial.ran else Watched()
    if trial.verdict == "failed":
        return _blame(alone, whole, watched, trial, sites)
    if trial.verdict == "passed" or (trial.ran and not trial.outputs):  # A ran, and B into a limit
        return _within(alone, whole, watched, sites)
    return _site_by_site(alone, whole, watched, sites)


def _within(alone: Alone, whole: Parity, watched: Watched, sites: Sequence[Site]) -> Parity:
    """The outputs agree. Deep models forget: an error in the middle need not reach an output.

    So every site is checked alone as well, on one draw, and one that differs is a failure.
    """
    checked = replace(alone, draws=1).check(sites, watched.seen)
    known = [_judged(difference, whole, watched) for difference, _ in checked]
    whole = replace(whole, sites=tuple(known))
    guilty = tuple(difference for difference in known if difference.verdict == "failed")
    if guilty:
        hidden = "differs when checked alone, though the outputs don't show it"
        reason = f"{guilty[0].site} {hidden}: {guilty[0].reason}"
        return replace(whole, verdict="failed", reason=reason, guilty=tuple(found.site for found in guilty))
    blind = sum(difference.negatives == 0.0 for difference in known)
    if blind and whole.verdict == "passed":
        fused = sum(site.has_activation for site in sites)
        text = f"{whole.reason}; no negative value was seen at {blind} of {fused} fused places"
        return replace(whole, reason=text)
    return whole


def _judged(difference: SiteDifference, whole: Parity, watched: Watched) -> SiteDifference:
    """With the signs that the whole model's runs showed, and its verdict where the site has none of its own."""
    site = difference.site
    share = None if site.graph or not site.has_activation else watched.negatives.get(site.output)
    if difference.verdict != "inconclusive":
        return replace(difference, negatives=share)
    reason = f"judged within the whole model only: {difference.reason}"
    return replace(difference, negatives=share, verdict=whole.verdict, reason=reason)


def _as_parity(trial: Trial) -> Parity:
    return Parity(trial.verdict, trial.reason, trial.judge, trial.draws, trial.outputs)


def _site_by_site(alone: Alone, whole: Parity, watched: Watched, sites: Sequence[Site]) -> Parity:
    """The whole model can't run or says nothing; that its parts agree is evidence only when nothing else changed."""
    checked = alone.check(sites, watched.seen)
    known = tuple(difference for difference, _ in checked)
    failed = tuple(site.site for site in known if site.verdict == "failed")
    judge = "; ".join(sorted({name for _, name in checked if name})) or whole.judge
    if failed:
        reason = f"site by site, {len(failed)} of {len(sites)} differ ({whole.reason})"
        return replace(whole, verdict="failed", reason=reason, judge=judge, sites=known, guilty=failed)
    open_sites = [site for site in known if site.verdict != "passed"]
    if open_sites:
        text = f"{whole.reason}; and {len(open_sites)} of {len(sites)} sites could not be judged alone"
        reason = f"{text}: {open_sites[0].site}: {open_sites[0].reason}"
        return replace(whole, reason=reason, sites=known)
    change = outside_change(alone.pair, sites)
    if change:
        but = "every site agrees alone, but " if sites else ""
        reason = f"{whole.reason}; {but}{change}, which nothing judged"
        return replace(whole, reason=reason, sites=known)
    same = f"site by site: all {len(sites)} agree alone, and all else is the same"
    reason = f"{same if sites else 'the models are the same node for node'} ({whole.reason})"
    return replace(whole, verdict="passed", reason=reason, judge=judge, sites=known)


def _blame(alone: Alone, whole: Parity, watched: Watched, trial: Trial, sites: Sequence[Site]) -> Parity:
    """The guilty; where there is none, and all else is the same, the model may amplify what rounding there is."""
    known = tuple(difference for difference, _ in alone.check(sites, watched.seen))
    guilty = tuple(site.site for site in known if site.verdict == "failed")
    if guilty:
        more = f" and {len(guilty) - 1} more" if len(guilty) > 1 else ""
        return replace(
            whole, reason=f"{whole.reason}; to blame: {guilty[0]}{more}", sites=known, guilty=guilty
        )
    change = outside_change(alone.pair, sites)
    note = f": {change}" if change else ""
    unjudged = sum(site.verdict == "inconclusive" for site in known)
    if not (change or unjudged or alone.tolerance.fixed):
        judge = Judge(alone.worker, trial.engine, alone.tolerance)
        why = amplified(judge, alone.pair.before, trial.feeds, trial.outputs)
        if why:
            reason = f"site by site: all {len(sites)} agree alone, and all else is the same ({whole.reason}; {why})"
            return replace(whole, verdict="passed", reason=reason, sites=known)
    note += f"; {unjudged} could not be judged alone" if unjudged else ""
    return replace(whole, reason=f"{whole.reason}; no site differs when checked alone{note}", sites=known)
