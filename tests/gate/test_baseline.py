"""The baseline file: what is written is read, line by line, and damage is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuser.errors import ConfigError
from fuser.gate import baseline as baselines
from fuser.gate.baseline import Baseline, Site
from tests.gate.reports import declined, fusion, measured

NAMES = st.text(min_size=1, max_size=8)
SITES = st.builds(
    Site, NAMES, st.lists(NAMES, max_size=3).map(tuple), st.lists(NAMES, max_size=3).map(tuple), NAMES
)
BASELINES = st.builds(
    Baseline,
    NAMES,
    NAMES,
    st.integers(0),
    st.integers(0),
    st.integers(0),
    st.none() | st.floats(0.1, 10).map(lambda x: round(x, 3)),
    st.dictionaries(NAMES, SITES, max_size=3),
    st.lists(NAMES, max_size=3).map(tuple),
)


@given(known=st.dictionaries(NAMES, BASELINES, max_size=3))
def test_what_is_written_is_read(
    known: dict[str, Baseline], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("lock") / "fusion.lock"
    file.write_text(baselines.write(known), "utf-8")
    assert baselines.read(file) == known


def test_the_order_of_models_and_sites_does_not_show() -> None:
    one = baselines.of(measured(fusions=(fusion("a"), fusion("b"))))
    two = baselines.of(measured(fusions=(fusion("b"), fusion("a"))))
    assert baselines.write({"x": one, "y": two}) == baselines.write({"y": one, "x": two})


def test_a_site_and_a_reason_is_a_line() -> None:
    few = baselines.of(measured(fusions=(fusion("a"),), declines=(declined("n"),)))
    more = baselines.of(
        measured(fusions=(fusion("a"), fusion("b")), declines=(declined("n"), declined("n"), declined("m")))
    )
    before, after = (baselines.write({"x": b}).splitlines() for b in (few, more))
    assert len(after) == len(before) + 2
    assert sum('"a": {' in line for line in after) == 1


def test_it_has_sites_rules_reasons_hashes_and_numbers() -> None:
    found = json.loads(baselines.write({"net": baselines.of(measured(declines=(declined(),)))}))
    assert found == {
        "format": 1,
        "models": {
            "net": {
                "declined": [
                    "Affine:batchnorm [bn] BatchNormalization 'BN_1': has 5 outputs, which is training"
                ],
                "fusions": {
                    "y": {
                        "op": "ConvLeakyRelu",
                        "ops": ["Conv", "BatchNormalization", "LeakyRelu"],
                        "rules": ["Fold:conv", "ConvLeakyRelu"],
                        "weights": "11",
                    }
                },
                "hashes": {"model": "0" * 64, "weights": "aa"},
                "numbers": {"batch_normalizations": 0, "bytes": 900, "nodes": 1},
            }
        },
    }


def test_no_file_is_no_baseline(tmp_path: Path) -> None:
    assert baselines.read(tmp_path / "fusion.lock") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "can't be read as a baseline"),
        ("<<<<<<< HEAD\n", "can't be read as a baseline"),
        ("[]", "is no baseline of format 1"),
        ('{"format": 2, "models": {}}', "is no baseline of format 1"),
        ('{"format": 1}', "is damaged (KeyError('models'))"),
        ('{"format": 1, "models": {"a": {}}}', "is damaged (KeyError('fusions'))"),
        ('{"format": 1, "models": []}', "is damaged"),
    ],
)
def test_damage_is_named_with_the_way_out(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "fusion.lock"
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        baselines.read(file)
    assert says in str(caught.value)
    assert "write it with `onnx-fuser gate --update`" in str(caught.value)
