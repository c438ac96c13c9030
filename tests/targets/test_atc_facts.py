"""The table of registrations: its form, and what it says of releases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import defs

from fuser.targets.atc.attributes import _KINDS
from fuser.targets.atc.facts import (
    folds_batchnorm,
    is_soc,
    parse_ranges,
    registered_names,
    release,
    show_ranges,
    table,
)


@given(st.frozensets(st.integers(min_value=1, max_value=40)))
def test_ranges_round_trip(opsets: frozenset[int]) -> None:
    """What is shown reads back as the same set."""
    assert parse_ranges(show_ranges(opsets).replace(" ", "")) == opsets


def test_every_entry_is_well_formed() -> None:
    """Opsets parse, releases exist, checks are of kinds that are applied."""
    releases = table()["releases"]
    for name, entry in table()["operators"].items():
        assert parse_ranges(entry["opsets"]), name
        assert {*entry.get("earlier", {}), *entry.get("closed", ())} <= {*releases}, name
    for name, checks in table()["checks"].items():
        assert name in table()["operators"]
        assert all(any(kind in check for kind in _KINDS) for check in checks), name
    assert table()["sources"]["parser"]


def test_no_standard_operator_beyond_opset_18() -> None:
    """Nothing of ONNX's own is registered above opset 18, nor below 8 but for a few leftovers."""
    for name in registered_names():
        opsets = release("master").opsets("ai.onnx", name)
        if defs.has(name):
            assert max(opsets) <= 18, name
            assert {v for v in opsets if v < 8} <= {1, 6}, name


@pytest.mark.parametrize(
    ("domain", "op_type", "cann", "opsets"),
    [
        ("ai.onnx", "Conv", "master", "8-18"),
        ("ai.onnx", "Upsample", "master", "8-9, 11-16"),
        ("ai.onnx", "LayerNormalization", "master", "17-18"),
        ("ai.onnx", "ScatterND", "9.1", "8, 10-18"),
        ("ai.onnx", "Conv", "2022", "8-15"),
        ("npu", "NPUMish", "master", "1"),
        ("ai.onnx", "Loop", "master", ""),
        ("com.microsoft", "FusedConv", "master", ""),
    ],
)
def test_registrations(domain: str, op_type: str, cann: str, opsets: str) -> None:
    """Spot checks of the table."""
    assert show_ranges(release(cann).opsets(domain, op_type)) == opsets


@pytest.mark.parametrize(
    ("cann", "name", "known", "several"),
    [
        ("master", "master", True, False),
        ("develop", "master", True, False),
        ("9.2.0-beta.1", "9.2.0-beta.1", True, True),
        ("9.2.0-beta.2", "master", True, False),
        ("9.9", "master", False, False),
        ("9.1.0", "9.1", True, True),
        ("9.0.1", "9.0", True, True),
        ("8.5", "8.5", True, True),
        ("8.3.RC1", "2022", False, True),
        ("5.1", "2022", False, True),
    ],
)
def test_releases(cann: str, name: str, known: bool, several: bool) -> None:
    """A version's own facts, or the next older one's, and whether several imports are E16005."""
    found = release(cann)
    assert (found.name, found.known, found.several_imports) == (name, known, several)


@pytest.mark.parametrize(
    ("soc", "valid", "folds"),
    [
        ("Ascend310P3", True, True),
        ("Ascend310B1", True, True),
        ("Ascend910A", True, True),
        ("Ascend910B", True, True),
        ("Ascend910B3", True, False),
        ("Ascend910B4-1", True, False),
        ("Ascend910_9391", True, False),
        ("Ascend950PR_9599", True, False),
        ("310P3", False, False),
    ],
)
def test_chips(soc: str, valid: bool, folds: bool) -> None:
    """Names of chips, and on which GE folds a BatchNormalization itself."""
    assert (is_soc(soc), folds_batchnorm(soc)) == (valid, folds)
