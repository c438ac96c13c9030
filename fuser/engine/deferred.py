"""Large weights that are not computed until they are written.

A weight of many megabytes stays in its file; folding a scale into it only notes the arithmetic. The writer then evaluates
it block by block as it streams, so no whole tensor is ever held twice. All arithmetic is in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from onnx import helper

if TYPE_CHECKING:
    from fuser.storage import ByteRange

BLOCK = 1 << 15
"""Elements evaluated at once: 256 KiB of float64, which stays in a core's cache."""

Floats = NDArray[np.float64]
Binary = Callable[[Any, Any], Any]


class Flat(Protocol):
    """A flat array: a slice of it is an array, which holds until the next is taken."""

    def __getitem__(self, part: slice, /) -> NDArray[Any]: ...


@dataclass(frozen=True)
class FileArray:
    """A flat array that lies in a file. A slice is read when it is asked for, so nothing stays resident."""

    range: ByteRange
    dtype: np.dtype[Any]

    @contextmanager
    def opened(self) -> Iterator[Flat]:
        """The array with its file open."""
        with self.range.opened() as fill:
            yield OpenArray(fill, self.dtype)


class OpenArray:
    """A FileArray with its file open, and the one buffer that slices are read into."""

    def __init__(self, fill: Callable[[int, memoryview], None], dtype: np.dtype[Any]) -> None:
        self._fill = fill
        self._dtype = dtype
        self._buffer: NDArray[Any] = np.empty(0, dtype)

    def __getitem__(self, part: slice, /) -> NDArray[Any]:
        """Read the elements ``start`` to ``stop``."""
        count = part.stop - part.start
        if self._buffer.size < count:
            self._buffer = np.empty(count, self._dtype)
        out = self._buffer[:count]
        self._fill(part.start * self._dtype.itemsize, out.view(np.uint8).data)
        return out


@dataclass(frozen=True)
class Deferred:
    """A tensor of ``shape``, in C order, as arithmetic on ``base``.

    ``base`` is a flat array in its own dtype, here or in a file, or another Deferred of as many elements. ``operand`` has the
    rank of ``shape`` and broadcasts to it; ``function(base, operand)`` (or swapped) gives the values. With no function
    the values are the base's.
    """

    base: NDArray[Any] | FileArray | Deferred
    shape: tuple[int, ...]
    function: Binary | None = None
    operand: Floats | None = None
    swapped: bool = False

    @property
    def size(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    def reshape(self, shape: tuple[int, ...]) -> Deferred:
        """The same values under another shape of as many elements."""
        return Deferred(self, shape)

    def combine(self, function: Binary, operand: Floats, swapped: bool = False) -> Deferred:
        """``function(self, operand)`` elementwise; ``operand`` broadcasts to this shape."""
        rank = len(self.shape)
        return Deferred(
            self, self.shape, function, operand.reshape((1,) * (rank - operand.ndim) + operand.shape), swapped
        )

    @contextmanager
    def opened(self) -> Iterator[Flat]:
        """What the arithmetic begins with, ready to be read."""
        if isinstance(self.base, np.ndarray):
            yield self.base
        else:
            with self.base.opened() as flat:
                yield flat

    def read(self, start: int, stop: int, flat: Flat) -> Floats:
        """The elements of a flat range, computed in float64; ``flat`` is what ``opened`` gave. The array is the caller's."""
        if self.function is None or self.operand is None:
            return self._base(start, stop, flat)
        shape, operand = self.shape, self.operand
        while len(shape) > 1 and shape[0] == 1:
            shape, operand = shape[1:], operand[0]
        row = max(1, prod(shape[1:]))
        first, last = start // row, -(-stop // row)
        x = self._base(first * row, last * row, flat).reshape((last - first, *shape[1:]))
        y = operand if operand.shape[:1] == (1,) else operand[first:last]
        operands = (y, x) if self.swapped else (x, y)
        if isinstance(self.function, np.ufunc):
            self.function(*operands, out=x)
        else:
            x = self.function(*operands)
        return x.reshape(-1)[start - first * row : stop - first * row]

    def _base(self, start: int, stop: int, flat: Flat) -> Floats:
        if isinstance(self.base, Deferred):
            return self.base.read(start, stop, flat)
        return flat[start:stop].astype(np.float64)

    def blocks(self) -> Iterator[Floats]:
        """All elements in order, in blocks of whole rows of about ``BLOCK`` elements."""
        row = self._row()
        step = max(1, BLOCK // row) * row
        with self.opened() as flat:
            for start in range(0, self.size, step):
                yield self.read(start, min(self.size, start + step), flat)

    def _row(self) -> int:
        """How many elements the arithmetic is done in at the least, along the chain."""
        shape = self.shape
        while len(shape) > 1 and shape[0] == 1:
            shape = shape[1:]
        own = max(1, prod(shape[1:])) if self.function is not None else 1
        return max(own, self.base._row()) if isinstance(self.base, Deferred) else own

    def bound(self) -> float:
        """No element is larger in magnitude; NaN or infinity where an element may be, or where there is no telling."""
        if isinstance(self.base, Deferred):
            below = self.base.bound()
        else:
            below = 0.0
            with self.opened() as flat:
                for start in range(0, self.size, 2 * BLOCK):
                    block = flat[start : min(self.size, start + 2 * BLOCK)]
                    top, low = float(block.max()), float(block.min())
                    if top != top or low != low:  # noqa: PLR0124  (NaN)
                        return float("nan")
                    below = max(below, top, -low)
        if self.function is None or self.operand is None:
            return below
        magnitude = np.abs(self.operand)
        if self.function is np.multiply:
            return below * float(magnitude.max())
        if self.function in (np.add, np.subtract):
            return below + float(magnitude.max())
        if self.function is np.divide and not self.swapped and magnitude.min() > 0:
            return below / float(magnitude.min())
        return float("nan")

    def array(self) -> Floats:
        """Everything at once, in float64."""
        with self.opened() as flat:
            return self.read(0, self.size, flat).reshape(self.shape)


@dataclass(frozen=True)
class Rounded:
    """The bytes of a deferred tensor, rounded once to an ONNX element type: a Payload, computed as it is written."""

    values: Deferred
    dtype: int

    @property
    def nbytes(self) -> int:
        """Their number."""
        return self.values.size * helper.tensor_dtype_to_np_dtype(self.dtype).itemsize

    def chunks(self) -> Iterator[memoryview]:
        """Compute and yield them block by block."""
        to = helper.tensor_dtype_to_np_dtype(self.dtype)
        with np.errstate(all="ignore"):
            for block in self.values.blocks():
                yield np.ascontiguousarray(block.astype(to)).view(np.uint8).data
