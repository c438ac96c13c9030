"""Every case of tests/cases: structure, reasons, stability, parity, the checker, and onnxruntime at every level."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import fuser
from fuser.parity.draws import Plan
from fuser.parity.runner import Worker, memory_default
from fuser.parity.shapes import Setting, settings
from fuser.parity.source import input_specs
from fuser.parity.trial import has_random
from tests.engine.casefile import Case, all_cases, names_of, structure

CASES = all_cases()
LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL")


@pytest.fixture(scope="module")
def one_worker() -> Iterator[Worker]:
    """One process runs the models of all cases; starting one for each would take most of the time."""
    with Worker(60.0, memory_default()) as worker:
        yield worker


@pytest.fixture(autouse=True)
def reuse(one_worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """check_parity takes the one process and leaves it running."""

    class Kept:
        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Worker:
            return one_worker

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr("fuser.parity.check.Worker", Kept)


def marked(case: Case) -> Any:
    """The case as a parameter, with its xfail mark."""
    why = case.options.get("xfail")
    return pytest.param(
        case, id=str(case), marks=[pytest.mark.xfail(strict=True, reason=why[0])] if why else []
    )


@pytest.mark.parametrize("case", [marked(c) for c in CASES])
def test_case(case: Case) -> None:
    """The model becomes what the file says, for the reasons it gives, and computes the same."""
    model = case.model()
    check(model, case)
    given = model.SerializeToString(deterministic=True)

    result = fuser.fuse(model, **case.arguments)
    fused = result.model

    assert model.SerializeToString(deterministic=True) == given
    known = names_of(model)
    assert structure(fused, known) == structure(case.expected(), known)
    reasons = [str(d) for d in result.report.declined]
    assert reasons == (reasons[:1] if case.reasons == ("*",) and reasons else list(case.reasons))
    parity = result.report.parity
    assert (parity.verdict, parity.reason) == (case.verdict, parity.reason)
    check(fused, case)
    stale = {v.name for v in fused.graph.value_info} - names_in_scope(fused.graph)
    assert not stale
    again = fuser.fuse(fused, parity=False, **case.arguments)
    assert again.model.SerializeToString(deterministic=True) == fused.SerializeToString(deterministic=True)
    if (
        parity.judge.startswith("onnxruntime")
        and not parity.reason.startswith("site by site")
        and not has_random(model)
    ):
        agree_at_every_level(fused)


def check(model: onnx.ModelProto, case: Case) -> None:
    """onnx.checker accepts the model, with type inference unless the case says that this can't be."""
    how = next(iter(case.options.get("check", ["full"])))
    if how != "none":
        onnx.checker.check_model(model, full_check=how == "full")


def names_in_scope(graph: onnx.GraphProto) -> set[str]:
    """The values that the graph itself defines."""
    return {v.name for vs in (graph.input, graph.initializer) for v in vs} | {
        o for n in graph.node for o in n.output
    }


def agree_at_every_level(model: onnx.ModelProto) -> None:
    """onnxruntime's own optimizer leaves the model's results where they are."""
    specs, _ = input_specs(model.graph)
    plan = Plan(specs, 1, 0)
    results = []
    for level in LEVELS:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        results.append(first_run(session, plan))
    tolerance = 2e-2 if any(a.dtype == np.float16 for a in results[0]) else 1e-4
    for level, arrays in zip(LEVELS[1:], results[1:], strict=True):
        for a, b in zip(results[0], arrays, strict=True):
            # Where NaN stands in a padded Conv is onnxruntime's own choice.
            finite = np.isfinite(a) & np.isfinite(b)
            scale = np.max(np.abs(a[finite]), initial=1e-6)
            np.testing.assert_allclose(
                a[finite], b[finite], rtol=tolerance, atol=tolerance * scale, err_msg=level
            )


def first_run(session: onnxruntime.InferenceSession, plan: Plan) -> list[np.ndarray[Any, Any]]:
    """What the session gives on the first setting of free dims that it runs with."""
    failure: Exception | None = None
    for setting in settings(plan.specs, {}):
        try:
            return list(session.run(None, _feed(plan, setting)))
        except Exception as e:
            failure = failure or e
    raise failure or AssertionError("there is always a setting")


def _feed(plan: Plan, setting: Setting) -> dict[str, np.ndarray[Any, Any]]:
    return plan.feed("normal", 0, setting)
