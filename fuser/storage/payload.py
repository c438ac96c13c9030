"""The bytes of one tensor, wherever they are: little-endian, as in ``TensorProto.raw_data``."""

from __future__ import annotations

import io
import mmap
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from fuser.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Reads and writes of this size cost no more CPU than sendfile or copy_file_range, and can be hashed.
BLOCK = 1 << 18


class Payload(Protocol):
    """The bytes of one tensor."""

    @property
    def nbytes(self) -> int:
        """Their number."""

    def chunks(self) -> Iterator[bytes | memoryview]:
        """Yield them in order, in blocks of at most a few MiB whose lengths add up to ``nbytes``."""


@dataclass(frozen=True)
class Stamp:
    """What tells a file from its successor of the same name."""

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """Take the stamp from ``os.stat`` or ``os.fstat``."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@dataclass(frozen=True)
class ByteRange:
    """``nbytes`` bytes at ``offset`` of a file, read when asked for.

    ``stamp``, where given, is the file's when the range was made. Reading raises ModelError when the file is
    another one by then: its bytes would be somebody else's.
    """

    path: Path
    offset: int
    nbytes: int
    stamp: Stamp | None = field(default=None, repr=False)

    @contextmanager
    def _file(self) -> Iterator[int]:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise ModelError(
                f"{self.path}: can't be read any more ({error.strerror}); put it back and run again"
            ) from None
        try:
            if self.stamp is not None and Stamp.of(os.fstat(descriptor)) != self.stamp:
                raise ModelError(f"{self.path}: changed after it was loaded; load the model again")
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def opened(self) -> Iterator[Callable[[int, memoryview], None]]:
        """Open the file once for many reads: gives a function that fills a buffer with the range's bytes from a place on."""
        with self._file() as descriptor, io.FileIO(descriptor, closefd=False) as file:

            def fill(start: int, buffer: memoryview) -> None:
                file.seek(self.offset + start)
                while buffer:
                    count = file.readinto(buffer)
                    if not count:
                        raise ModelError(
                            f"{self.path}: ends {buffer.nbytes} bytes too early; copy or export it again"
                        )
                    buffer = buffer[count:]

            yield fill

    def memory(self) -> memoryview:
        """Map the range, read-only; the mapping lasts as long as the view, or an array made from it."""
        if not self.nbytes:
            return memoryview(b"")
        before = self.offset % mmap.ALLOCATIONGRANULARITY
        with self._file() as descriptor:
            mapped = mmap.mmap(
                descriptor, self.nbytes + before, access=mmap.ACCESS_READ, offset=self.offset - before
            )
        return memoryview(mapped)[before:]

    def chunks(self) -> Iterator[bytes]:
        """Read the range block by block; nothing is mapped, so nothing stays resident."""
        with self._file() as descriptor:
            os.lseek(descriptor, self.offset, os.SEEK_SET)
            left = self.nbytes
            while left:
                block = os.read(descriptor, min(left, BLOCK))
                if not block:
                    raise ModelError(f"{self.path}: ends {left} bytes too early; copy or export it again")
                left -= len(block)
                yield block


@dataclass(frozen=True, eq=False)
class Block:
    """Bytes in memory: anything with a contiguous buffer, ``bytes`` or a little-endian numpy array."""

    data: memoryview

    def __init__(self, data: bytes | memoryview) -> None:
        """Refer to the buffer; nothing is copied."""
        view = memoryview(data)
        object.__setattr__(self, "data", view.cast("B") if view.nbytes else memoryview(b""))

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.data.nbytes

    def memory(self) -> memoryview:
        """The bytes themselves."""
        return self.data

    def chunks(self) -> Iterator[memoryview]:
        """Yield slices of the bytes, without copying."""
        for start in range(0, self.nbytes, BLOCK):
            yield self.data[start : start + BLOCK]
