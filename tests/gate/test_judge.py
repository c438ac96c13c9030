"""Judging: limits, a report and a baseline in; what is refused, by how much and what to do, out."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from fuser.gate import baseline as baselines
from fuser.gate.judge import judge
from fuser.gate.latency import Latency
from fuser.gate.limits import Accepted, Limits
from fuser.gate.measure import Measured
from fuser.gate.verdict import Found, Outcome, Verdict
from fuser.parity import Parity, Site
from fuser.targets.finding import Finding
from tests.gate.reports import declined, fusion, measured, output

TODAY = date(2026, 6, 1)
LATENCY = Latency(2.0, 1.0)


def verdict(limits: Limits, found: Measured, before: Measured | None = None, **more: Any) -> Verdict:
    baseline = None if before is None else baselines.of(before)
    return judge(limits, found, baseline, TODAY, **{"compared": before is not None, **more})


def only(judged: Verdict) -> Found:
    (found,) = judged.found
    return found


def parity(word: Any, **more: Any) -> Parity:
    return Parity(word, "the reason", "onnxruntime", **more)


SITE = Site("", "act1", ("x",), "ConvLeakyRelu", ("Conv_1",))
CASES: list[tuple[str, Limits, Measured, str, str, str]] = [
    (
        "too few fusions", Limits(fusions=3), measured(),
        "fusions", "1 fused, 2 fewer than the 3 that fusions asks for", "lower fusions in onnx-fuser.toml",
    ),
    (
        "all fusions, one left", Limits(fusions="all"), measured(left=("Act_2",)),
        "unfused", "LeakyRelu 'Act_2' was not fused", "`onnx-fuser explain exports/net.onnx Act_2`",
    ),
    (
        "all fusions, one left for a reason", Limits(fusions="all"),
        measured(left=("Act_2",), declines=(declined(node="Act_1"), declined(node="Act_2", reason="reads 'x'"))),
        "unfused", "'Act_2' was not fused, and fusions asks for all: reads 'x'", "accept in onnx-fuser.toml",
    ),
    (
        "all fusions of none", Limits(fusions="all"), measured(fusions=()),
        "fusions", "nothing was fused", "set 0 for it: fusions in onnx-fuser.toml",
    ),
    (
        "BatchNormalization left", Limits(batch_normalizations=1), measured(batch_normalizations=(4, 3)),
        "batch-normalizations", "3 BatchNormalizations left, 2 more than the 1 allowed", "in evaluation mode",
    ),
    (
        "BatchNormalization left, with a hint", Limits(batch_normalizations=0),
        measured(batch_normalizations=(1, 1), declines=(declined(hint="--freeze-inputs"),)),
        "batch-normalizations", "BatchNormalization 'BN_1': has 5 outputs", "--freeze-inputs would help",
    ),
    (
        "BatchNormalization left, for what stands before it", Limits(batch_normalizations=0),
        measured(
            batch_normalizations=(1, 1),
            declines=(declined(op="Conv", node="C", rule="ConvLeakyRelu"), declined(op="Conv", node="D")),
        ),
        "batch-normalizations", "1 more than the 0 allowed: Conv 'D': has 5 outputs", "`onnx-fuser explain",
    ),
    (
        "a reason", Limits(refuse_reasons=("*training*",)),
        measured(declines=(declined(), declined(reason="x"))),
        "reason", "BatchNormalization 'BN_1': has 5 outputs", "take '*training*' out: refuse-reasons in",
    ),
    (
        "parity failed", Limits(),
        measured(parity=parity("failed", outputs=(output(needs=0.01, verdict="failed"),), guilty=(SITE,))),
        "parity", "parity failed: the reason; that is 10.0 times what is allowed", "as a bug of the rule",
    ),
    (
        "one output over its own tolerance", Limits(tolerance={"*": 1e-3, "y": 1e-7}), measured(),
        "parity", "output 'y' differs by 1e-06, 10.0 times the tolerance 1e-07", "raise tolerance in",
    ),
    (
        "an output that may not differ", Limits(tolerance={"*": 0.0}), measured(),
        "parity", "output 'y' differs by 1e-06, over the tolerance 0", "raise tolerance in",
    ),
    (
        "a target", Limits(targets=("atc",)),
        measured(findings={"atc": (Finding("E1", "error", "Gelu_1", "no such operator", "export", "op"),)}),
        "target", "atc (E1): 'Gelu_1': no such operator", "export",
    ),
    (
        "larger than the model", Limits(max_size_ratio=0.5), measured(),
        "size", "the fused model has 900 bytes, 0.9 times the model's 1,000, over the 0.5 allowed",
        "raise max-size-ratio in onnx-fuser.toml",
    ),
    (
        "slower than the model", Limits(max_latency_ratio=0.4), measured(latency=LATENCY),
        "latency", "the fused model takes 1 ms, 0.5 times the model's 2, over the 0.4 allowed",
        "raise max-latency-ratio in onnx-fuser.toml",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("limits", "found", "kind", "message", "fix"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_each_limit_says_by_how_much_and_what_to_do(
    limits: Limits, found: Measured, kind: str, message: str, fix: str
) -> None:
    judged = verdict(limits, found)
    one = only(judged)
    assert (one.kind, one.severity, judged.word) == (kind, "refused", "refused")
    assert message in one.message
    assert fix in one.fix
    assert kind in {*judged.checks, "unfused"}


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        (Limits(), measured(fusions=(), batch_normalizations=(3, 3))),
        (Limits(fusions=1), measured()),
        (Limits(fusions="all"), measured()),
        (Limits(batch_normalizations=3), measured(batch_normalizations=(3, 3))),
        (Limits(refuse_reasons=("*training*",)), measured(declines=(declined(reason="is not constant"),))),
        (Limits(tolerance={"y": 1e-7, "*": 1e-3}), measured()),  # the last that fits
        (Limits(tolerance={"*": 1e-6}), measured()),
        (Limits(max_size_ratio=0.9, max_latency_ratio=0.5), measured(latency=LATENCY)),
    ],
)
def test_what_is_within_its_limits_passes(limits: Limits, found: Measured) -> None:
    judged = verdict(limits, found)
    assert (judged.found, judged.status) == ((), 0)


@pytest.mark.parametrize("found", [None, parity("inconclusive")])
def test_parity_that_was_not_judged_is_unjudged(found: Parity | None) -> None:
    judged = verdict(Limits(), measured(parity=found))
    assert judged.status == 2
    assert only(judged).message.startswith("parity could not be judged: ")


@pytest.mark.parametrize("severity", ["warning", "note"])
def test_what_a_target_only_warns_of_is_a_note(severity: Any) -> None:
    findings = {"atc": (Finding(None, severity, "", "said", "fix", "rule"),)}
    judged = verdict(Limits(targets=("atc",)), measured(findings=findings))
    assert (only(judged).severity, judged.status) == ("note", 0)


ONE, TWO = (fusion("a"),), (fusion("a"), fusion("b", "If_1/then_branch"))


def test_a_fusion_lost_is_refused_and_one_gained_is_a_note() -> None:
    lost = only(verdict(Limits(), measured(fusions=ONE), measured(fusions=TWO)))
    assert (lost.kind, lost.severity, lost.node, lost.graph) == (
        "fusion-lost",
        "refused",
        "b",
        "If_1/then_branch",
    )
    assert "(Conv + BatchNormalization + LeakyRelu) is no longer fused: no rule came near it" in lost.message
    gained = only(verdict(Limits(), measured(fusions=TWO), measured(fusions=ONE)))
    assert (gained.kind, gained.severity) == ("fusion-gained", "note")


def test_a_fusion_lost_names_the_nearest_miss() -> None:
    now = measured(fusions=(), declines=(declined("other"), declined("a", "is read by Add")))
    (lost,) = [f for f in verdict(Limits(), now, measured(fusions=ONE)).found if f.kind == "fusion-lost"]
    assert lost.message.endswith("'a': is read by Add")


def test_a_site_of_the_same_weights_under_another_name_is_a_note() -> None:
    same = only(verdict(Limits(), measured(fusions=(fusion("new"),)), measured(fusions=(fusion("old"),))))
    assert same.kind == "fusion-renamed"
    other = measured(fusions=(fusion("new"),), site_weights={"new": "22"}, weights="bb")
    kinds = {f.kind for f in verdict(Limits(), other, measured(fusions=(fusion("old"),))).found}
    assert kinds == {"fusion-lost", "fusion-gained", "weights"}


@pytest.mark.parametrize(
    ("limits", "now", "before", "kind", "severity", "message"),
    [
        (
            Limits(), measured(batch_normalizations=(3, 2)), measured(),
            "batch-normalizations", "refused", "2 BatchNormalizations left, 2 more than in fusion.lock",
        ),
        (
            Limits(), measured(declines=(declined(), declined())), measured(),
            "reason-new", "note", "new: Affine:batchnorm [bn] BatchNormalization 'BN_1': has 5 outputs",
        ),
        (
            Limits(max_size_increase=0.1), measured(nbytes=(1000, 1000)), measured(nbytes=(1000, 900)),
            "size", "refused", "1,000 bytes, 100 (11.1%) more than in fusion.lock, over the 10.0% allowed",
        ),
        (
            Limits(max_latency_increase=0.1), measured(latency=Latency(2, 1.2)), measured(latency=LATENCY),
            "latency", "refused", "takes 0.6 of the model's time, 20.0% more than the 0.5 in fusion.lock",
        ),
        (
            Limits(max_latency_increase=0.1), measured(latency=LATENCY), measured(),
            "latency", "unjudged", "fusion.lock has no time of the model",
        ),
        (
            Limits(weights="locked"), measured(weights="bb"), measured(),
            "weights", "refused", "not those in fusion.lock: outside of the fused sites changed",
        ),
        (
            Limits(), measured(weights="bb", site_weights={"y": "22"}), measured(),
            "weights", "note", "those of 'y' changed",
        ),
    ],
)  # fmt: skip
def test_what_changed_since_the_baseline_is_named(  # noqa: PLR0917
    limits: Limits, now: Measured, before: Measured, kind: str, severity: str, message: str
) -> None:
    found = only(verdict(limits, now, before))
    assert (found.kind, found.severity) == (kind, severity)
    assert message in found.message


def test_nothing_changed_is_nothing_to_say() -> None:
    limits = Limits(max_size_increase=0.0, max_latency_increase=0.0, weights="locked")
    same = measured(declines=(declined(),), latency=LATENCY)
    assert verdict(limits, same, same).found == ()


@pytest.mark.parametrize(
    ("limits", "compared", "status"),
    [
        (Limits(), False, 0),
        (Limits(), True, 2),
        (Limits(weights="locked"), False, 2),
        (Limits(max_size_increase=0.1), False, 2),
    ],
)
def test_a_missing_baseline_is_unjudged_where_something_compares_with_it(
    limits: Limits, compared: bool, status: int
) -> None:
    assert verdict(limits, measured(), None, compared=compared).status == status


def exception(expires: date, node: str = "*") -> Accepted:
    return Accepted("*", "fusions", "agreed with the team", expires, node, "onnx-fuser.toml: accept[0]")


def test_an_exception_lets_its_finding_pass_through_its_last_day() -> None:
    judged = verdict(Limits(fusions=3, accept=(exception(TODAY),)), measured())
    assert (judged.found, judged.status) == ((), 0)
    ((found, by),) = judged.accepted
    assert (found.kind, by.reason) == ("fusions", "agreed with the team")


def test_an_exception_for_another_node_lets_nothing_pass() -> None:
    judged = verdict(Limits(fusions=3, accept=(exception(TODAY, "Conv_1"),)), measured())
    assert only(judged).kind == "fusions"


@pytest.mark.parametrize("asked", [3, 1])
def test_an_expired_exception_refuses_and_says_so_whether_it_is_needed_or_not(asked: int) -> None:
    judged = verdict(Limits(fusions=asked, accept=(exception(date(2026, 5, 30)),)), measured())
    assert judged.status == 1
    said = judged.found[-1]
    assert said.kind == "exception-expired"
    assert "expired on 2026-05-30, 2 days ago: agreed with the team" in said.message
    assert said.fix.endswith("in onnx-fuser.toml: accept[0]")
    if asked == 3:
        assert "(accepted until 2026-05-30: agreed with the team)" in judged.found[0].message


def test_a_later_exception_holds_where_an_earlier_one_has_expired() -> None:
    accept = (exception(date(2026, 5, 30)), exception(TODAY))
    assert {f.kind for f in verdict(Limits(fusions=3, accept=accept), measured()).found} == {
        "exception-expired"
    }


def test_judging_the_same_twice_gives_the_same() -> None:
    limits = Limits(fusions=3, refuse_reasons=("*",), accept=(exception(TODAY),))
    now, before = measured(declines=(declined(),)), measured(fusions=TWO)
    assert verdict(limits, now, before) == verdict(limits, now, before)


@pytest.mark.parametrize(
    ("severities", "status"),
    [([], 2), (["passed"], 0), (["passed", "unjudged"], 2), (["unjudged", "refused", "passed"], 1)],
)
def test_a_run_is_refused_where_one_model_is(severities: list[Any], status: int) -> None:
    verdicts = [Verdict("m", (), () if s == "passed" else (Found("fusions", s, "said"),)) for s in severities]
    assert Outcome(tuple(verdicts)).status == status


def test_a_model_is_refused_though_more_could_not_be_judged() -> None:
    both = replace(measured(parity=None))
    assert verdict(Limits(fusions=3), both).status == 1
