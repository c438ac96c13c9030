"""Rules proved by running them: `main` calls pattern and rewrite side by side, on drawn values.

No matcher takes part. A rule passes when every draw that its `where` allows gives the same values, and when
each of its conditions keeps out a draw that does not: a condition that keeps out nothing wrong is needless.
onnxruntime judges, in a child process, with every optimization off.
"""

from __future__ import annotations

import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from fuser.language.bench_run import Draw, Engine, Trial
from fuser.language.conditions import by_shape_alone
from fuser.parity.runner import Worker, memory_default

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuser.language.rule import RewriteRule

_TIMEOUT = 60.0  # seconds for one run of a rule, on a few hundred values


@dataclass(frozen=True)
class Proof:
    """What running a rule showed.

    `passed`: every draw agrees and every condition is needed. `failed`: a draw differs, or a condition is
    needless. `inconclusive`: nothing could be compared. `draws` counts the draws inside `where` and `outside`
    those that it keeps out; `difference` is the largest inside, relative to the scale of its output.
    """

    rule: str
    verdict: Literal["passed", "failed", "inconclusive"]
    draws: int
    outside: int
    difference: float
    reason: str  # "" when it passed

    @property
    def passed(self) -> bool:
        """Whether the rule may be used."""
        return self.verdict == "passed"


def prove(rules: Iterable[RewriteRule], *, seed: int = 0, draws: int = 20) -> tuple[Proof, ...]:
    """Run each rule on `draws` draws for each pair of calls in its file's `main`; one proof per rule.

    Raises:
        PatternError: an input of main has no shape to draw.
    """
    with Worker(_TIMEOUT, memory_default()) as worker, tempfile.TemporaryDirectory(prefix="fuser-") as folder:
        engine = Engine(worker, Path(folder))
        return tuple(_prove(rule, engine, seed, draws) for rule in rules)


def _prove(rule: RewriteRule, engine: Engine, seed: int, count: int) -> Proof:
    random = np.random.default_rng([seed, zlib.crc32(rule.id.encode())])
    found: list[Draw] = []
    for pair in rule.bench.pairs:
        draws = list(Trial(rule, pair, engine, random).draws(count))
        if all(draw.error for draw in draws):
            return Proof(rule.id, "inconclusive", 0, 0, 0.0, f"{draws[0].error}, for {draws[0].inputs}")
        found += draws
    compared = [draw for draw in found if not draw.error]
    inside = [draw for draw in compared if draw.inside]
    worst = max((draw.difference for draw in inside), default=0.0)
    counts = (len(inside), len(compared) - len(inside), worst)
    if wrong := [draw for draw in inside if draw.differs]:
        return Proof(rule.id, "failed", *counts, f"{wrong[0].differs}, for {wrong[0].inputs}")
    if not inside:
        reason = "`where` allows no draw; let main call the rule with attributes and inputs that it allows"
        return Proof(rule.id, "inconclusive", *counts, reason)
    for condition in rule.where.outputs if rule.where else ():
        if reason := _needless(rule, condition, compared):
            return Proof(rule.id, "failed", *counts, reason)
    return Proof(rule.id, "passed", *counts, "")


def _needless(rule: RewriteRule, condition: str, draws: Sequence[Draw]) -> str:
    """Say why a condition is not shown to be needed, "" if it is.

    It is needed when values differ in a draw that it keeps out, alone if there is such a draw.
    """
    outside = [draw for draw in draws if not draw.conditions[condition]]
    alone = [draw for draw in outside if sum(draw.conditions.values()) == len(draw.conditions) - 1]
    if any(draw.differs for draw in alone or outside):
        return ""
    if outside:
        return (
            f"condition {condition} is needless: pattern and rewrite agree in all {len(alone or outside)} "
            "draws that it keeps out; remove it"
        )
    if rule.where is not None and by_shape_alone(rule.where.proto, condition):
        return ""
    return (
        f"condition {condition} holds in every draw, so nothing shows that it is needed; let main call "
        "pattern and rewrite where it fails, or remove it"
    )
