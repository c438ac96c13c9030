"""Outputs appear whole or not at all, whatever fails and whenever."""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pytest

from fuser.errors import ModelError, OutputError
from fuser.storage import StoredModel, Written, load, save
from fuser.storage.atomic import Staging
from tests.storage.samples import array, external, listing


@dataclass(frozen=True)
class Failing:
    """A payload whose second block is an error, or that is shorter than it says."""

    nbytes: int
    error: BaseException | None

    def chunks(self) -> Iterator[bytes]:
        yield bytes(100)
        if self.error is not None:
            raise self.error


@pytest.fixture
def stored(tmp_path: Path) -> StoredModel:
    """A model with one external and one inline weight on disk."""
    external(tmp_path / "in", count=2)
    stored = load(tmp_path / "in" / "model.onnx")
    inline = stored.proto.graph.initializer[1]
    stored.weights.detach(inline)
    inline.raw_data = array(*inline.dims).tobytes()
    return stored


@pytest.fixture(params=["nothing there", "overwriting", "forced"])
def out(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where to write: an empty folder, over another model with data of the same name, or over the input."""
    if request.param == "forced":
        return tmp_path / "in" / "model.onnx"
    (tmp_path / "out").mkdir()
    if request.param == "overwriting":
        external(tmp_path / "out", count=5)
    return tmp_path / "out" / "model.onnx"


@pytest.mark.parametrize("which", ["external", "inline"])
@pytest.mark.parametrize(
    "error",
    [ModelError("no"), KeyboardInterrupt(), MemoryError(), OSError(errno.EIO, "bad disk"), None],
    ids=str,
)
def test_a_payload_that_fails(
    tmp_path: Path, stored: StoredModel, out: Path, which: str, error: BaseException | None
) -> None:
    """Its error comes through as it is; one that is too short is an error as well."""
    tensor = stored.proto.graph.initializer[which == "inline"]
    size = stored.proto.graph.initializer[0].dims[1] if which == "external" else 101
    stored.weights.attach(tensor, Failing(size * 16, error))
    before = listing(tmp_path)
    with pytest.raises(BaseException) as caught:  # noqa: PT011  compared below
        save(stored, out, force=True)
    assert caught.value is error or (error is None and "gave 100" in str(caught.value))
    assert listing(tmp_path) == before


@contextmanager
def limited(size: int) -> Iterator[None]:
    """No file may become longer, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 1, 1000, 1599, 1700])
def test_a_disk_that_is_full(tmp_path: Path, stored: StoredModel, out: Path, size: int) -> None:
    before = listing(tmp_path)
    with limited(size), pytest.raises(OutputError, match=r"File too large.*; choose another disk"):
        save(stored, out, force=True)
    assert listing(tmp_path) == before


def test_folders_made_for_data_files_go_again(tmp_path: Path) -> None:
    external(tmp_path / "in", location="a/b{}")
    (tmp_path / "out").mkdir()
    stored = load(tmp_path / "in" / "model.onnx")
    with limited(1000), pytest.raises(OutputError):
        save(stored, tmp_path / "out" / "model.onnx")
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_rename_that_fails(  # noqa: PLR0917
    tmp_path: Path, stored: StoredModel, out: Path, monkeypatch: pytest.MonkeyPatch, nth: int, links: bool
) -> None:
    """Data files that were already renamed become what they were, also on file systems without hard links."""
    calls, replace = [0], Path.replace

    def failing(self: Path, target: Path) -> Path:
        calls[0] += 1
        if calls[0] == nth:
            raise OSError(errno.EACCES, "Permission denied")
        return replace(self, target)

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    before = listing(tmp_path)
    monkeypatch.setattr(Path, "replace", failing)
    if not links:
        monkeypatch.setattr(os, "link", refuse)
    try:
        save(stored, out, force=True)
    except OutputError as error:
        assert "Permission denied" in str(error)  # noqa: PT017  whether it is raised depends on the parameters
        assert listing(tmp_path) == before
    else:
        assert calls[0] < nth


def interrupted(stored: StoredModel, out: Path, nth: int) -> Written | None:
    """Save, with Ctrl-C at the nth line of the code that writes and renames; None when it came through."""
    lines = [0]
    codes = {Staging.write.__code__, Staging.commit.__code__, Staging._make.__code__}

    def trace(frame: FrameType, event: str, argument: object) -> object:
        if frame.f_code not in codes:
            return None
        if event == "line":
            lines[0] += 1
            if lines[0] == nth:
                raise KeyboardInterrupt
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        return save(stored, out, force=True)
    except KeyboardInterrupt:
        return None
    finally:
        sys.settrace(previous)


def test_an_interrupt_at_any_line(tmp_path: Path, stored: StoredModel, out: Path) -> None:
    """Either all files are the old ones or all are the new ones; and no other file is left."""
    before = listing(tmp_path)
    for nth in range(1, 500):
        stored.proto.doc_string = "new" * nth
        result = interrupted(stored, out, nth)
        after = listing(tmp_path)
        if result is not None:
            break
        if after != before:
            # The model had its new name already.
            assert load(out).proto.doc_string == stored.proto.doc_string
            assert after.keys() == before.keys() | {
                str((out.parent / name).relative_to(tmp_path)) for name in ("model.onnx", "model.data")
            }
            stored = load(out) if out.parent.name == "in" else stored
            before = after
    assert nth > 40
    assert load(out).proto.doc_string == "new" * nth
