"""Configuration files: what is read, and how each mistake is named."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from fuser.errors import ConfigError
from fuser.gate.config import find, idle_overrides, limits_of, read, schema
from fuser.gate.limits import Limits

OWN = "onnx-fuser.toml"


def file(folder: Path, text: str, name: str = OWN) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema())


def test_the_schema_has_every_limit_for_all_models_and_for_some() -> None:
    everywhere, some = schema()["properties"], schema()["$defs"]["limits"]["properties"]
    assert {*everywhere} - {*some} == {"models", "accept"}
    fields = {name.replace("_", "-") for name in Limits.__dataclass_fields__}
    assert {*some} == fields - {"file", "origin", "accept", "lock"}


def test_every_key_reaches_its_limit(tmp_path: Path) -> None:
    text = """
        fusions = 3
        batch-normalizations = 1
        tolerance = {"*" = 1e-3, logits = 1e-5}
        refuse-reasons = ["*training*"]
        targets = ["atc"]
        cann = "8.0"
        soc = "Ascend310P3"
        max-size-ratio = 1.1
        max-size-increase = 0.1
        max-latency-ratio = 1.2
        max-latency-increase = 0.2
        weights = "locked"
        inputs = "data/inputs.npz"
        shapes = {x = [1, 3, 8, 8]}
        patterns = ["rules"]
        freeze-inputs = true
        timeout = 20
        """
    limits = limits_of(read(file(tmp_path, text)), "a.onnx")
    assert limits == Limits(
        fusions=3, batch_normalizations=1, tolerance={"*": 1e-3, "logits": 1e-5},
        refuse_reasons=("*training*",), targets=("atc",), cann="8.0", soc="Ascend310P3", max_size_ratio=1.1,
        max_size_increase=0.1, max_latency_ratio=1.2, max_latency_increase=0.2, weights="locked",
        inputs=tmp_path / "data/inputs.npz", shapes={"x": (1, 3, 8, 8)}, patterns=(tmp_path / "rules",),
        freeze_inputs=True, timeout=20, file=str(tmp_path / OWN), origin=limits.origin,
        lock=str(tmp_path / "fusion.lock"),
    )  # fmt: skip
    assert {*limits.origin} == {*schema()["$defs"]["limits"]["properties"]}


def test_the_last_override_that_fits_wins_and_is_named(tmp_path: Path) -> None:
    text = """
        fusions = 1
        timeout = 5
        [models."exports/*"]
        fusions = 2
        [models."exports/head.onnx"]
        fusions = 3
        """
    config = read(file(tmp_path, text))
    limits = [limits_of(config, name) for name in ("a.onnx", "exports/a.onnx", "exports/head.onnx")]
    assert [(one.fusions, one.timeout) for one in limits] == [(1, 5), (2, 5), (3, 5)]
    assert limits[0].where("fusions") == f"fusions in {tmp_path / OWN}"
    assert limits[2].where("fusions") == f'models."exports/head.onnx".fusions in {tmp_path / OWN}'
    assert [*idle_overrides(config, ["exports/a.onnx"])] == [
        f'{tmp_path / OWN}: models."exports/head.onnx" is for no model; correct the glob, or remove the table'
    ]


def test_a_glob_may_be_a_name_with_brackets(tmp_path: Path) -> None:
    config = read(file(tmp_path, '[models."net[1].onnx"]\nfusions = 2'))
    assert limits_of(config, "net[1].onnx").fusions == 2
    assert limits_of(config, "net1.onnx").fusions == 2


def test_an_exception_is_for_the_models_it_names(tmp_path: Path) -> None:
    text = """
        [[accept]]
        model = "exports/*"
        finding = "reason"
        node = "BN_1"
        reason = "until it is trained anew"
        expires = 2027-01-31
        """
    config = read(file(tmp_path, text))
    assert limits_of(config, "other.onnx").accept == ()
    (exception,) = limits_of(config, "exports/a.onnx").accept
    assert exception.expires == date(2027, 1, 31)
    assert exception.where == f"{tmp_path / OWN}: accept[0]"
    assert exception.covers("reason", "BN_1")
    assert not exception.covers("reason", "BN_2")
    assert not exception.covers("target", "BN_1")


def test_a_date_may_be_text_too(tmp_path: Path) -> None:
    text = '[[accept]]\nmodel = "*"\nfinding = "reason"\nreason = "r"\nexpires = "2027-01-31"'
    assert limits_of(read(file(tmp_path, text)), "a").accept[0].expires == date(2027, 1, 31)


ACCEPT = '[[accept]]\nmodel = "*"\nfinding = "reason"\nreason = "r"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fusons = 1", "FILE: fusons is not known; the nearest is 'fusions'"),
        ("zzzz = 1", "FILE: zzzz is not known; known are accept, batch-normalizations,"),
        ('[models."a*"]\nfusion = 1', "FILE: models.\"a*\".fusion is not known; the nearest is 'fusions'"),
        ('[models."a*".models]', 'FILE: models."a*".models is not known'),
        (ACCEPT + "expired = 2027-01-01", "FILE: accept[0].expired is not known; the nearest is 'expires'"),
        (ACCEPT, "FILE: accept[0] has no 'expires'; add it: the last day on which it holds"),
        (ACCEPT + 'expires = "soon"', "FILE: accept[0].expires is 'soon'; it must be the last day on which"),
        (
            ACCEPT + "expires = 2027-01-01T10:00:00Z",
            "FILE: accept[0].expires is '2027-01-01T10:00:00+00:00'; it must",
        ),
        (ACCEPT.replace('"r"', '" "') + "expires = 2027-01-01", "it must be why it is accepted"),
        (ACCEPT.replace('"reason"', '"reasons"') + "expires = 2027-01-01", "it must be the kind of finding"),
        ("fusions = -1", "FILE: fusions is -1; it must be the fewest fused operators, a whole number from 0"),
        ('fusions = "most"', "FILE: fusions is 'most'; it must be the fewest fused operators, a whole"),
        ("fusions = true", "FILE: fusions is True; it must be"),
        ("batch-normalizations = 0.5", "FILE: batch-normalizations is 0.5; it must be the most"),
        ("tolerance = nan", "FILE: tolerance is 'nan'; it must be the parity tolerance"),
        ("tolerance = 1", "FILE: tolerance is 1; it must be the parity tolerance"),
        ("tolerance = {logits = 1e-3}", "it must be the parity tolerance relative to an output's scale"),
        ("max-size-ratio = inf", "FILE: max-size-ratio is 'inf'; it must be the most that"),
        ("max-latency-ratio = 0", "FILE: max-latency-ratio is 0; it must be the most that"),
        ('targets = ["onnx"]', "FILE: targets[0] is 'onnx'; it must be a target, of which there is \"atc\""),
        ('targets = "atc"', "FILE: targets is 'atc'; it must be a list of the targets"),
        ('weights = "lock"', 'FILE: weights is \'lock\'; it must be "free", or "locked"'),
        ("shapes = {x = [0]}", "FILE: shapes.x[0] is 0; it must be a whole number from 1"),
        ("timeout = 0", "FILE: timeout is 0; it must be the seconds"),
        ("fusions = ", "FILE is no TOML: "),
        ("fusions = 1\nfusions = 2", "FILE is no TOML: "),
    ],
)
def test_each_mistake_is_named_with_its_file_and_key(tmp_path: Path, text: str, says: str) -> None:
    path = file(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert says.replace("FILE", str(path)) in str(caught.value)


def test_keys_in_pyproject_are_named_in_full(tmp_path: Path) -> None:
    path = file(tmp_path, "[tool.onnx-fuser]\nfusons = 1", "pyproject.toml")
    with pytest.raises(ConfigError, match=r"pyproject.toml: tool\.onnx-fuser\.fusons is not known"):
        read(path)


@pytest.mark.parametrize("text", ["", "[tool.ruff]", "tool = 1"])
def test_a_pyproject_without_limits_is_refused_when_it_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"pyproject.toml has no \[tool.onnx-fuser\]; add it"):
        read(file(tmp_path, text, "pyproject.toml"))


def test_what_can_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.toml can't be read: No such file"):
        read(tmp_path / "gone.toml")
    (tmp_path / OWN).write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is no UTF-8 text"):
        read(tmp_path / OWN)


def test_the_nearest_folder_with_limits_is_found(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    file(tmp_path / "a", "[tool.ruff]", "pyproject.toml")
    file(tmp_path, "[tool.onnx-fuser]\nfusions = 1", "pyproject.toml")
    assert find(inner).file == tmp_path / "pyproject.toml"
    file(tmp_path, "fusions = 2")
    assert find(inner).file == tmp_path / OWN


def test_without_limits_there_are_none(tmp_path: Path) -> None:
    config = find(tmp_path)
    assert config.file is None
    assert limits_of(config, "a.onnx") == Limits(lock=str(tmp_path / "fusion.lock"))


def test_models_are_named_from_the_configurations_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = read(file(tmp_path, ""))
    (tmp_path / "exports").mkdir()
    monkeypatch.chdir(tmp_path / "exports")
    assert config.name(Path("a.onnx")) == "exports/a.onnx"
    assert config.name(Path("/elsewhere/a.onnx")) == "/elsewhere/a.onnx"
