"""The repository of these tests, made once and copied for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.gate import repository
from tests.gate.repository import Repository


@pytest.fixture(scope="session")
def agreed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a repository whose baseline was just written."""
    folder = tmp_path_factory.mktemp("agreed")
    with pytest.MonkeyPatch.context() as monkeypatch:
        repository.make(folder, monkeypatch)
    return folder


@pytest.fixture
def repo(agreed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository that is agreed to."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    folder = shutil.copytree(agreed, tmp_path / "repository")
    return Repository(folder, monkeypatch)
