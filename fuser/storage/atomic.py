"""Several output files that appear whole, or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from fuser.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import TracebackType

    from fuser.storage.payload import Payload

_FIXES = {
    errno.ENOSPC: "free some space or choose another disk",
    errno.EDQUOT: "free some space or choose another disk",
    errno.EFBIG: "choose another disk, or raise the limit on file sizes",
    errno.EROFS: "choose a folder that can be written",
    errno.EACCES: "choose a folder that can be written",
    errno.EPERM: "choose a folder that can be written",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def refusal(path: Path, error: OSError) -> OutputError:
    """The error of the operating system as a sentence with its fix."""
    fix = _FIXES.get(error.errno or 0, "choose another output path")
    return OutputError(f"{path}: can't be written ({error.strerror or error}); {fix}")


class Staging:
    """Writes each file beside its destination, and renames all of them in ``commit``, the last one last.

    Leaving the context without ``commit``, or an exception in it, leaves every destination as it was. The
    rename of the last file is the moment at which the outputs exist: what fails before it is undone. Nothing
    is forced to the disk (fsync), so this guards against failures of programs, not of power.
    """

    def __init__(self) -> None:
        """Nothing is staged yet."""
        self._staged: list[tuple[Path, Path]] = []  # temporary, destination
        self._started: list[tuple[Path, Path, Path]] = []  # temporary, backup (if any), destination
        self._folders: list[Path] = []
        self._file: BinaryIO | None = None  # being written

    def __enter__(self) -> Staging:
        """Start with nothing staged."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove what was not committed."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        committed = bool(self._started) and not self._staged[-1][0].exists()
        for temporary, backup, destination in reversed(self._started):
            with suppress(OSError):
                if not committed:
                    if backup.exists():
                        backup.replace(destination)
                    elif not temporary.exists():
                        destination.unlink()
                backup.unlink(missing_ok=True)
        for temporary, _ in self._staged:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        for folder in [] if committed else reversed(self._folders):
            with suppress(OSError):
                folder.rmdir()

    def write(
        self, destination: Path, pieces: Iterable[memoryview | Payload], *, digest: bool
    ) -> tuple[int, str]:
        """Write a file beside its destination; returns its size and, if wanted, the SHA-256 of its bytes.

        Raises OutputError where the file can't be written. What a payload raises passes through.
        """
        sha = hashlib.sha256() if digest else None
        size = 0
        try:
            self._make(destination.parent)
            temporary = _beside(destination, "tmp")
            self._staged.append((temporary, destination))
            self._file = temporary.open("xb", buffering=1 << 16)
        except OSError as error:
            raise refusal(destination, error) from None
        for piece in pieces:
            before = size
            for block in (piece,) if isinstance(piece, memoryview) else piece.chunks():
                view = memoryview(block).cast("B")
                if sha is not None:
                    sha.update(view)
                size += view.nbytes
                _put(self._file, view, destination)
            if size - before != piece.nbytes:
                raise RuntimeError(f"a payload of {piece.nbytes} bytes gave {size - before}")
        _put(self._file, None, destination)
        return size, sha.hexdigest() if sha is not None else ""

    def commit(self) -> None:
        """Rename everything to its destination, in the order of writing."""
        for temporary, destination in self._staged:
            backup = _beside(destination, "old")
            self._started.append((temporary, backup, destination))
            try:
                if destination.exists():
                    temporary.chmod(stat.S_IMODE(destination.stat().st_mode))
                    if temporary != self._staged[-1][0]:
                        _keep(destination, backup)
                temporary.replace(destination)
            except OSError as error:
                raise refusal(destination, error) from None

    def _make(self, folder: Path) -> None:
        missing = []
        while not folder.exists():
            missing.append(folder)
            folder = folder.parent
        for each in reversed(missing):
            self._folders.append(each)
            each.mkdir()


def _beside(destination: Path, suffix: str) -> Path:
    return destination.with_name(f".onnx-fuser-{os.urandom(8).hex()}.{suffix}")


def _put(file: BinaryIO, block: memoryview | None, destination: Path) -> None:
    """Write a block, or with None close the file; errors of reading the block are not to be caught here."""
    try:
        if block is None:
            file.close()
        else:
            file.write(block)
    except OSError as error:
        raise refusal(destination, error) from None


def _keep(destination: Path, backup: Path) -> None:
    """Let the old file be found as ``backup``; without links it is gone from its place for a moment."""
    try:
        os.link(destination, backup)
    except OSError:
        destination.replace(backup)
