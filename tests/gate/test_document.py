"""docs/gate.md: its configuration is read, its commands run, what it names in YAML is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from fuser.gate.config import limits_of, read, schema
from tests.builders import conv_bn_leaky
from tests.cli.running import ROOT, onnx_fuser, saved

TEXT = (ROOT / "docs" / "gate.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def blocks(kind: str) -> list[str]:
    return [block for found, block in BLOCKS if found == kind]


def test_the_configuration_is_read_and_names_every_key(tmp_path: Path) -> None:
    [text] = blocks("toml")
    path = tmp_path / "pyproject.toml"
    path.write_text(text, "utf-8")
    config = read(path)
    assert {*config.tables} == {*schema()["properties"]}
    assert limits_of(config, "exports/head.onnx").fusions == 3
    assert limits_of(config, "exports/body.onnx").fusions == "all"


def test_the_commands_run_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("exports").mkdir()
    saved(conv_bn_leaky(), Path("exports/discriminator.onnx"))
    lines = [line for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    for line in lines:
        program, *arguments = shlex.split(line.removeprefix("$ "), comments=True)
        assert program == "onnx-fuser"
        assert onnx_fuser(*arguments).status == 0, line
    assert {"fusion.lock", "gate.xml", "gate.md"} <= {path.name for path in Path().iterdir()}


def test_the_workflow_uses_what_the_action_has() -> None:
    """Its inputs and its outputs; the hook of the other file."""
    workflow, hooks = (yaml.safe_load(block) for block in blocks("yaml"))
    action: Any = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    _, gate, upload = workflow["jobs"]["models"]["steps"]
    assert gate["uses"] == "OWNER/onnx-fuser@REF"
    assert {*gate["with"]} <= {*action["inputs"]}
    [output] = re.findall(r"steps\.gate\.outputs\.(\w+)", upload["with"]["sarif_file"])
    assert output in action["outputs"]
    [hook] = hooks["repos"][0]["hooks"]
    [known] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert hook["id"] == known["id"]


def test_every_kind_of_finding_is_named() -> None:
    """As the gate's source makes them; near misses are no findings."""
    source = "".join(path.read_text("utf-8") for path in (ROOT / "fuser" / "gate").glob("*.py"))
    kinds = {*re.findall(r'Found\(\s*"([a-z-]+)"', source)} - {"near-miss"}
    assert len(kinds) >= 15
    assert kinds <= {*re.findall(r"`([a-z-]+)`", TEXT)}
