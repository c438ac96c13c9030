"""The pre-commit hook, installed from this repository and run on someone's changed models."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate import repository
from tests.gate.offline import ROOT, environment
from tests.gate.repository import Repository


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pre-commit keeps the hooks that it installed."""
    return tmp_path_factory.mktemp("home")


def run(*command: object, folder: Path, home: Path) -> subprocess.CompletedProcess[str]:
    env = environment(home, PRE_COMMIT_HOME=str(home / "cache"), GIT_CONFIG_NOSYSTEM="1")
    return subprocess.run(
        [str(word) for word in command], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def test_the_manifest_is_valid(home: Path) -> None:
    done = run(
        sys.executable,
        "-m",
        "pre_commit",
        "validate-manifest",
        ROOT / ".pre-commit-hooks.yaml",
        folder=ROOT,
        home=home,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="pre-commit installs from a git repository")
def test_the_hook_passes_and_refuses(repo: Repository, home: Path) -> None:
    assert shutil.which("git"), "a git repository without git"
    run("git", "init", "--quiet", folder=repo.folder, home=home)
    run("git", "add", ".", folder=repo.folder, home=home)

    def hook() -> subprocess.CompletedProcess[str]:
        command = (
            sys.executable,
            "-m",
            "pre_commit",
            "try-repo",
            ROOT,
            "onnx-fuser-gate",
            "--all-files",
            "--verbose",
        )
        return run(*command, folder=repo.folder, home=home)

    done = hook()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 models: 2 passed" in done.stdout
    repo.save(repository.nudged(repository.discriminator()), "discriminator")
    run("git", "add", ".", folder=repo.folder, home=home)
    done = hook()
    assert done.returncode == 1
    assert "the weights are not those in fusion.lock: those of 'act1' changed" in " ".join(
        done.stdout.split()
    )
