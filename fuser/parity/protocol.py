"""Frames between the check and its worker: a JSON header, then the arrays' bytes. Nothing in them can run
code.

A frame is an 8-byte little-endian length, that many bytes of JSON, and the arrays in the header's order.
Strings are a JSON list. Types are numpy's names, those of ml_dtypes (bfloat16) included.
"""

from __future__ import annotations

import json
import struct
from typing import IO, TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

Array = np.ndarray[Any, np.dtype[Any]]
_LENGTH = struct.Struct("<Q")


def write_frame(stream: IO[bytes], header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write one frame and flush it."""
    entries, blobs = [], []
    for name, array in arrays.items():
        dtype = dtype_name(array)
        blob: Any
        if dtype == "string":
            blob = json.dumps([_text(item) for item in array.reshape(-1).tolist()]).encode()
        else:
            blob = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        entries.append({"name": name, "dtype": dtype, "shape": list(array.shape), "nbytes": len(blob)})
        blobs.append(blob)
    text = json.dumps({"header": dict(header), "arrays": entries}).encode()
    stream.write(_LENGTH.pack(len(text)) + text)
    for blob in blobs:
        stream.write(blob)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read one frame. Raises EOFError when the stream ends first."""
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    frame = json.loads(_exactly(stream, length))
    arrays = {}
    for entry in frame["arrays"]:
        blob = _exactly(stream, entry["nbytes"])
        if entry["dtype"] == "string":
            array = np.array([*json.loads(blob), None], dtype=object)[:-1]
        else:
            array = np.frombuffer(blob, dtype=numpy_dtype(entry["dtype"]))
        arrays[entry["name"]] = array.reshape(entry["shape"])
    return frame["header"], arrays


def dtype_name(array: Array) -> str:
    """What ``numpy_dtype`` takes."""
    return "string" if array.dtype.kind in "OSU" else array.dtype.name


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The dtype of that name, ml_dtypes' included; strings are objects."""
    if name == "string":
        return np.dtype(object)
    return np.dtype(getattr(ml_dtypes, name, name))


def _text(item: object) -> str:
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)


def _exactly(stream: IO[bytes], size: int) -> bytearray:
    buffer = bytearray(size)
    view, filled = memoryview(buffer), 0
    while filled < size:
        got = stream.readinto(view[filled:])  # type: ignore[attr-defined]
        if not got:
            raise EOFError("the stream ended within a frame")
        filled += got
    return buffer
