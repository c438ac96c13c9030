"""What must hold for every drawn model, and the faults where it does not."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from onnx import ModelProto

from fuser.fuzz.explained import unexplained
from fuser.fuzz.kept import lost
from fuser.parity.check import judge_models
from fuser.parity.compare import Tolerance
from fuser.parity.draws import Plan, drawn
from fuser.parity.pair import Pair
from fuser.parity.sites import Alone
from fuser.parity.source import (
    input_specs,
    interface_difference,
    open_model,
    overridable,
    weight_tolerance,
)
from fuser.pipeline import Rewritten, rewrite
from fuser.places import changed_places
from fuser.storage import from_proto, load

if TYPE_CHECKING:
    from fuser.fuzz.models import Drawn
    from fuser.language import RewriteRule
    from fuser.parity.runner import Worker

SMALL = 32
"""Bytes of a weight that stays in the model's file where others have one of their own."""
FLOAT32, COARSE = 1e-4, 4
"""Weights in float16 are rounded anew when something is folded in; sums of large drawn values that cancel show more of it."""
KINDS = frozenset({"crash", "invalid", "wrong", "unstable", "lost", "unexplained"})


@dataclass(frozen=True)
class Fault:
    """What went wrong with one model; ``kind`` is one of KINDS."""

    kind: str
    text: str


@dataclass(frozen=True)
class Outcome:
    """What one drawn model led to."""

    faults: tuple[Fault, ...]
    fused: int = 0
    skipped: str = ""


def check(
    model: Drawn, rules: Sequence[RewriteRule], worker: Worker, folder: Path, kinds: frozenset[str] = KINDS
) -> Outcome:
    """Fuse the model and check that it still computes the same, lost nothing, is stable and has its reasons."""
    try:
        after, done = fused(model.model, rules, model)
    except Exception as e:
        return Outcome((Fault("crash", f"{type(e).__name__}: {e}"),))
    try:
        onnx.checker.check_model(after, full_check=True)
    except Exception as e:
        return Outcome((Fault("invalid", str(e)[:500]),))
    found = []
    verdict, reason = parity(model, after, done, worker, folder) if "wrong" in kinds else ("passed", "")
    if verdict == "failed":
        found.append(Fault("wrong", reason))
    if "unstable" in kinds:
        found += unstable(model, after, rules)
    found += [Fault("lost", text) for text in lost(model.model, after, done)]
    found += [Fault("unexplained", text) for text in unexplained(after, done)]
    outcome = tuple(f for f in found if f.kind in kinds)
    return Outcome(outcome, len(done.fusions), reason if verdict == "inconclusive" else "")


def unstable(model: Drawn, after: ModelProto, rules: Sequence[RewriteRule]) -> list[Fault]:
    """What a second run does to the model, which should be nothing."""
    try:
        again, _ = fused(after, rules, model)
    except Exception as e:
        return [Fault("unstable", f"a second run fails: {type(e).__name__}: {e}")]
    if again.SerializeToString(deterministic=True) != after.SerializeToString(deterministic=True):
        return [Fault("unstable", "a second run changes the model")]
    return []


def fused(model: ModelProto, rules: Sequence[RewriteRule], how: Drawn) -> tuple[ModelProto, Rewritten]:
    """The rewritten copy of a model, and what was done to it."""
    with tempfile.TemporaryDirectory(prefix="onnx-fuser-") as folder:
        stored = load(_with_data_file(model, Path(folder)), SMALL) if how.external else from_proto(model)
        done = rewrite(stored, rules, freeze_inputs=how.freeze_inputs, standard=how.standard)
        return stored.materialize(), done


def _with_data_file(model: ModelProto, folder: Path) -> Path:
    """The model in a file, its larger weights in another."""
    copy = ModelProto()
    copy.CopyFrom(model)
    path = folder / "model.onnx"
    onnx.save_model(copy, path, save_as_external_data=True, location="model.data", size_threshold=SMALL)
    return path


def parity(
    before: Drawn, after: ModelProto, done: Rewritten, worker: Worker, folder: Path
) -> tuple[str, str]:
    """The verdict on both models, as wholes and place by place, and its reason."""
    a, b = open_model(before.model, "A", folder), open_model(after, "B", folder)
    different = interface_difference(a.proto, b.proto, freeze_inputs=before.freeze_inputs)
    if different:
        return "failed", different
    specs, _ = input_specs(a.proto.graph)
    plan = Plan(specs, 2, 0, {}, {} if before.freeze_inputs else overridable(a))
    tolerance = weight_tolerance(a.proto)
    allowed = Tolerance(tolerance * COARSE if tolerance > FLOAT32 else tolerance, fixed=False)
    sites = changed_places(before.model, after, done.fusions, done.rewrites)
    alone = Alone(worker, Pair(a, b), folder, allowed, plan.draws, plan.seed)
    found = judge_models(alone, partial(drawn, plan), sites)
    if tolerance > FLOAT32 and re.search(r"A is (-?inf|nan)", found.reason):
        return "inconclusive", "A leaves float16's range"
    return found.verdict, found.reason
