"""Report format 1: what is written is what the schema says, no more and no less."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from fuser.cli.app import run
from fuser.parity import Draw, OutputDifference, Parity, Site, SiteDifference
from fuser.report import Declined, Fusion, ModelFacts, Report, Rewrite, RuleCount
from fuser.report.files import schema
from fuser.targets.finding import Finding
from tests.builders import conv_bn_leaky
from tests.cli.running import saved
from tests.report.reports import REPORTS

MODELS = Path(__file__).parents[2] / "models"
VALIDATOR = jsonschema.Draft202012Validator(schema())
RUNS = {
    "fused": ("torch_discriminator.onnx", []),
    "not checked": ("mindspore_discriminator.onnx", ["--no-parity"]),
    "standard": ("torch_generator.onnx", ["--fused-as", "standard"]),
    "declined with a hint": ("darknet_yolov4_tiny.onnx", ["--no-parity"]),
    "in bodies": ("torch_if.onnx", []),
    "in functions": ("torch_functions_generator.onnx", []),
    "could not be judged": ("torch_discriminator.onnx", ["--timeout", "0.001"]),
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A report with fusions, reasons, and parity with sites."""
    folder = tmp_path_factory.mktemp("report")
    path = saved(conv_bn_leaky(channels=(3, 4, 5)), folder / "model.onnx")
    assert (
        run(["optimize", str(path), "-o", str(folder / "o.onnx"), "--report", str(folder / "r.json"), "-q"])
        == 0
    )
    return dict(json.loads((folder / "r.json").read_text()))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("name", RUNS)
def test_real_reports_are_valid(name: str, tmp_path: Path) -> None:
    file, options = RUNS[name]
    path = tmp_path / "report.json"
    run(
        [
            "optimize",
            str(MODELS / file),
            "-o",
            str(tmp_path / "o.onnx"),
            "--report",
            str(path),
            "-q",
            *options,
        ]
    )
    VALIDATOR.validate(json.loads(path.read_text()))


@given(report=REPORTS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_report_is_valid_and_survives_json(report: Report) -> None:
    """Infinite and undefined measures too: JSON has neither."""
    written = report.to_json()
    VALIDATOR.validate(written)
    assert json.loads(json.dumps(written, allow_nan=False)) == written


@pytest.mark.parametrize(
    ("definition", "kind", "also"),
    [
        ("model", ModelFacts, set()), ("fusion", Fusion, set()), ("declined", Declined, set()),
        ("rule", RuleCount, set()), ("parity", Parity, set()), ("draw", Draw, set()),
        ("output", OutputDifference, set()), ("site", Site, set()),
        ("site_difference", SiteDifference, set()),
        ("finding", Finding, set()), ("rewrite", Rewrite, {("pass_name", "pass")}),
        ("", Report, {("", "format")}),
    ],
)  # fmt: skip
def test_the_schema_has_the_fields_of_the_dataclasses(
    definition: str, kind: type, also: set[tuple[str, str]]
) -> None:
    """``also`` holds the fields that have another name in JSON, or none here."""
    part = schema()["$defs"][definition] if definition else schema()
    names = {f.name for f in fields(kind)} - {a for a, _ in also} | {b for _, b in also}
    assert set(part["properties"]) == set(part["required"]) == names


def test_no_object_takes_what_the_schema_does_not_name(report: dict[str, Any]) -> None:
    refused = 0
    for path, broken in _with(report, lambda found: found.update(surprise=1)):
        free = {"operators", "shapes", "timing", "tool", "before", "after"} & set(path)
        if not free:
            refused += 1
            assert not VALIDATOR.is_valid(broken), path
    assert refused > 10


def test_no_field_may_be_missing(report: dict[str, Any]) -> None:
    removed = 0
    for path, found in _objects(report):
        if {"operators", "shapes", "timing", "tool"} & set(path):
            continue
        for key in found:
            broken = copy.deepcopy(report)
            del _at(broken, path)[key]
            removed += 1
            assert not VALIDATOR.is_valid(broken), (*path, key)
    assert removed > 50


def test_another_format_is_another_schema_s() -> None:
    assert schema()["properties"]["format"] == {"const": 1}


def _objects(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Every object in a JSON value, with the path to it."""
    if isinstance(value, dict):
        yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _objects(item, (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def _with(value: Any, change: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The value with one object of it changed, for every object."""
    for path, _ in _objects(value):
        copied = copy.deepcopy(value)
        change(_at(copied, path))
        yield path, copied
