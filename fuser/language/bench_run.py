"""One pair of calls, run on draws: where pattern and rewrite differ, and where `where` keeps them out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from fuser.language.bench_draws import KINDS, float_attributes, values, variants
from fuser.language.bench_model import cut, where_call
from fuser.parity.compare import compare
from fuser.parity.runner import EngineError, Worker, WorkerDiedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from onnx import ModelProto, NodeProto

    from fuser.language.calls import Pair
    from fuser.language.rule import RewriteRule

Array = np.ndarray[Any, np.dtype[Any]]
Outcome = list[Array] | str  # outputs in order, or why there are none

# Relative to the scale of the output, in float32. Folded weights round once more than the pattern does, which
# costs some 1e-6; a slope that is off by 1 % is at 1e-3.
TOLERANCE = 1e-5
_DRAWS_PER_VARIANT = 2


@dataclass(frozen=True)
class Draw:
    """One run of a pair. `error`: why nothing could be compared; `differs`: how values differ, or ""."""

    inputs: str
    conditions: Mapping[str, bool] = field(default_factory=dict)
    difference: float = 0.0
    differs: str = ""
    error: str = ""

    @property
    def inside(self) -> bool:
        """Whether `where` allows it."""
        return all(self.conditions.values())


@dataclass(frozen=True)
class Engine:
    """Runs models in the worker process, through a file in `folder`."""

    worker: Worker
    folder: Path

    def outcomes(self, model: ModelProto, feeds: Sequence[Mapping[str, Array]]) -> list[Outcome]:
        """Run a model on each feed, by onnx's reference where onnxruntime has no kernels: for bfloat16."""
        path = self.folder / "bench.onnx"
        path.write_bytes(model.SerializeToString())
        try:
            self.worker.load("reference" if _has_bfloat16(model) else "onnxruntime", path)
        except (EngineError, WorkerDiedError) as error:
            return [str(error) for _ in feeds]
        return [self._outcome(feed) for feed in feeds]

    def _outcome(self, feed: Mapping[str, Array]) -> Outcome:
        try:
            return list(self.worker.run(feed)[0].values())
        except (EngineError, WorkerDiedError) as error:
            return str(error)


def _has_bfloat16(model: ModelProto) -> bool:
    casts = (a for f in model.functions for n in f.node for a in n.attribute if a.name == "to")
    return any(a.i == TensorProto.BFLOAT16 for a in casts) or any(
        value.type.tensor_type.elem_type == TensorProto.BFLOAT16 for value in model.graph.input
    )


@dataclass(frozen=True)
class Trial:
    """One pair of calls of a rule."""

    rule: RewriteRule
    pair: Pair
    engine: Engine
    random: np.random.Generator

    def draws(self, count: int) -> Iterator[Draw]:
        """Yield inputs of each kind with the attributes of main; then with others, if these hold floats."""
        given = float_attributes(self.pair.pattern.node)
        kinds = [KINDS[at % len(KINDS)] for at in range(count)]
        first = len(KINDS) if given else count
        yield from self._run(given, kinds[:first])
        other = variants(given, self.random)
        for at in range(first, count, _DRAWS_PER_VARIANT):
            yield from self._run(next(other), kinds[at : at + _DRAWS_PER_VARIANT])

    def _run(self, floats: Mapping[str, float], kinds: Sequence[str]) -> Iterator[Draw]:
        rule, main = self.rule, self.rule.bench.main
        fixed = {tensor.name for tensor in main.graph.initializer}
        inputs = [value for value in main.graph.input if value.name not in fixed]
        feeds = [values(rule.file, inputs, kind, self.random) for kind in kinds]
        left = self._outcomes(self.pair.pattern.node, floats, feeds)
        right = self._outcomes(self.pair.rewrite.node, floats, feeds)
        allowed: list[Outcome] = [[] for _ in kinds]
        if rule.where is not None:
            call = where_call(rule.pattern.proto, rule.where.proto, self.pair.pattern.node)
            allowed = self._outcomes(call, floats, feeds)
        attributes = "".join(f", {name} = {value:g}" for name, value in floats.items())
        for at, kind in enumerate(kinds):
            said = f"{kind} inputs{attributes} (called on line {self.pair.pattern.line})"
            yield _judge(rule, said, left[at], right[at], allowed[at])

    def _outcomes(
        self, call: NodeProto, floats: Mapping[str, float], feeds: Sequence[Mapping[str, Array]]
    ) -> list[Outcome]:
        model = cut(self.rule.bench.main, self.rule.bench.functions, call, floats)
        names = {value.name for value in model.graph.input}
        wanted = [{name: array for name, array in feed.items() if name in names} for feed in feeds]
        return self.engine.outcomes(model, wanted)


def _judge(rule: RewriteRule, inputs: str, left: Outcome, right: Outcome, allowed: Outcome) -> Draw:
    conditions = _conditions(rule.where.outputs if rule.where else (), allowed)
    if isinstance(conditions, str):
        return Draw(inputs, error=conditions)
    if isinstance(left, str):
        return Draw(inputs, error=f"the pattern can't run: {left}")
    if not all(array.size for array in left):
        return Draw(inputs, error="the pattern gives no value")
    if not all(np.isfinite(array).all() for array in left if array.dtype.kind == "f"):
        return Draw(inputs, error="the pattern gives values that are not finite")
    worst, differs = _difference(rule, left, right)
    return Draw(inputs, conditions, worst, differs)


def _conditions(names: Sequence[str], outcome: Outcome) -> dict[str, bool] | str:
    if isinstance(outcome, str):
        return f"`where` can't run: {outcome}"
    for name, array in zip(names, outcome, strict=True):
        if array.dtype != np.bool_ or array.size != 1:
            return f"condition {name} is {array.dtype.name}{list(array.shape)}; reduce it to one boolean"
    return {name: bool(array.all()) for name, array in zip(names, outcome, strict=True)}


def _difference(rule: RewriteRule, left: list[Array], right: Outcome) -> tuple[float, str]:
    """Return the largest difference of an output, relative to its scale, and what is wrong with it."""
    if isinstance(right, str):
        return float("inf"), f"the rewrite can't run: {right}"
    worst, differs = 0.0, ""
    for name, expected, found in zip(rule.pattern.outputs, left, right, strict=True):
        result = compare(name, expected, found, tolerance=TOLERANCE)
        difference = float("inf") if result.smallest_tolerance is None else result.smallest_tolerance
        if result.verdict != "passed" and difference >= worst:
            differs = f"output {name} differs (A is the pattern, B the rewrite): {result.reason}"
        worst = max(worst, difference)
    return worst, differs
