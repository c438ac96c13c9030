"""action.yml: valid, and its steps run as GitHub's runner would run them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import junitparser
import pytest
import yaml

from tests.gate import repository
from tests.gate.offline import ROOT, environment
from tests.gate.repository import Repository

ACTION = ROOT / "action.yml"


@pytest.fixture(scope="module")
def action() -> Any:
    return yaml.safe_load(ACTION.read_text("utf-8"))


def test_it_is_valid_by_githubs_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions", ACTION]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_input_is_pasted_into_a_script(action: Any) -> None:
    assert [step["name"] for step in action["runs"]["steps"] if "${{" in step["run"]] == []


def test_every_input_is_used_and_described(action: Any) -> None:
    used = set(re.findall(r"inputs\.(\w+)", json.dumps(action["runs"])))
    assert used == {*action["inputs"]}
    assert all(entry["description"] for entry in (*action["inputs"].values(), *action["outputs"].values()))


def filled(text: str, inputs: Mapping[str, str]) -> str:
    """The expressions of an environment variable, as the runner fills them in."""
    known = {f"inputs.{name}": value for name, value in inputs.items()}
    known["github.action_path"] = str(ROOT)
    return re.sub(r"\$\{\{\s*([\w.]+)\s*\}\}", lambda match: known[match[1]], text)


def run(
    action: Any, folder: Path, home: Path, steps: slice, **given: str
) -> subprocess.CompletedProcess[str]:
    """Run steps in a folder; the last one's process."""
    inputs = {name: str(entry.get("default", "")) for name, entry in action["inputs"].items()}
    inputs |= {"python": sys.executable, **given}
    files = {f"GITHUB_{n}": str(home / n.lower()) for n in ("OUTPUT", "STEP_SUMMARY")}
    for step in action["runs"]["steps"][steps]:
        assert step["shell"] == "bash"
        env = {name: filled(value, inputs) for name, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder, env=environment(home, RUNNER_TEMP=str(home), **files, **env),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    return done


@pytest.fixture(scope="module")
def home(action: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runner's folder for temporary files, after the step that installs."""
    folder = tmp_path_factory.mktemp("runner")
    done = run(action, folder, folder, slice(0, 1))
    assert done.returncode == 0, done.stderr
    return folder


def test_a_green_repository_passes(action: Any, home: Path, repo: Repository) -> None:
    done = run(action, repo.folder, home, slice(1, None), models="exports/*.onnx\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "2 models: 2 passed"
    assert "## onnx-fuser gate: 2 models: 2 passed" in (home / "step_summary").read_text("utf-8")


def test_a_red_repository_fails_with_annotations_and_files(action: Any, home: Path, repo: Repository) -> None:
    repo.save(repository.in_training_mode(repository.discriminator()), "discriminator")
    repo.write("more limits.toml", "batch-normalizations = 0")
    models = "exports/discriminator.onnx\n\nexports/gen*.onnx"
    (home / "output").unlink(missing_ok=True)
    done = run(action, repo.folder, home, slice(1, None), models=models, config="more limits.toml")
    assert done.returncode == 1
    assert (
        "::error file=exports/discriminator.onnx,title=onnx-fuser%3A batch-normalizations::1 Batch"
        in done.stdout
    )
    outputs = dict(line.split("=", 1) for line in (home / "output").read_text("utf-8").splitlines())
    assert {*outputs} == {*action["outputs"]}
    (result, *_) = json.loads(Path(outputs["sarif"]).read_text("utf-8"))["runs"][0]["results"]
    assert result["level"] == "error"
    assert sum(suite.failures for suite in junitparser.JUnitXml.fromfile(outputs["junit"])) == 2


def test_a_glob_for_nothing_is_status_2(action: Any, home: Path, repo: Repository) -> None:
    done = run(action, repo.folder, home, slice(1, None), models="export/*.onnx")
    assert done.returncode == 2
    assert "export/*.onnx matches no file" in done.stderr


def test_an_input_is_no_code(action: Any, home: Path, repo: Repository) -> None:
    run(action, repo.folder, home, slice(1, None), models="$(touch pwned)`touch pwned`;touch pwned\n--update")
    assert not (repo.folder / "pwned").exists()
    assert (repo.folder / "fusion.lock").read_text("utf-8").count('"exports/') == 2
