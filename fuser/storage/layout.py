"""Where the external tensors of an output go: its data files, their names, the offsets in them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from onnx.onnx_ml_pb2 import TensorProto

from fuser.errors import ModelError
from fuser.storage.payload import ByteRange
from fuser.storage.weights import unmark

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuser.storage.model import StoredModel
    from fuser.storage.payload import Payload

PAGE = 1 << 16  # what every operating system can map at; also the largest alignment that onnx names
LARGE = 1 << 20  # exporters align tensors from about this size on, and pack smaller ones


class Marked(NamedTuple):
    """A tensor of the skeleton whose bytes are elsewhere. ``tensor`` is a copy, to be changed freely."""

    start: int  # in the serialized skeleton
    tensor: TensorProto
    payload: Payload


@dataclass
class DataFile:
    """One external data file of the output."""

    path: Path
    pieces: list[memoryview | Payload] = field(default_factory=list)
    size: int = 0

    def add(self, payload: Payload, alignment: int) -> int:
        """Append a payload at the next multiple of the alignment; returns its offset."""
        gap = -self.size % alignment
        if gap:
            self.pieces.append(memoryview(bytes(gap)))
        offset = self.size + gap
        self.pieces.append(payload)
        self.size = offset + payload.nbytes
        return offset


def lay_out(
    model: StoredModel, external: list[Marked], spilled: list[Marked], output: Path
) -> list[DataFile]:
    """Decide the data files for tensors that were external and for those that don't fit into the model's
    file.

    Changes ``external_data`` and ``data_location`` of the given tensors, and nothing else. Names, order and
    alignment are explained at ``fuser.storage.save``.
    """
    groups: dict[str, list[Marked]] = {}
    for each in external:
        groups.setdefault(_entries(each.tensor).get("location", ""), []).append(each)
    names = _Names(model, output)
    files = []
    for location, members in groups.items():
        name = names.pick(location, lone=len(groups) == 1)
        file = DataFile(output.parent / name)
        whole = _unchanged(model, location, members)
        if whole:
            file.pieces, file.size = [whole], whole.nbytes
            for each in members:
                _point(each.tensor, name, location)
        else:
            _pack(file, members, name, location)
        files.append(file)
    if spilled:
        name = names.pick(f"{output.name}.data", lone=True)
        file = DataFile(output.parent / name)
        for each in spilled:
            each.tensor.data_location = TensorProto.EXTERNAL
            each.tensor.external_data.add(key="location", value=name)
        _pack(file, spilled, name, name, {False: 64, True: PAGE})
        files.append(file)
    return files


def _pack(
    file: DataFile, members: list[Marked], name: str, location: str, alignment: dict[bool, int] | None = None
) -> None:
    """Put the payloads one after the other, in the source's order, each one once."""
    if alignment is None:
        members = sorted(members, key=lambda each: _number(each.tensor, "offset") or 0)
        # The alignment that all offsets of the source have in common, for large and for small tensors.
        alignment = {large: math.gcd(PAGE, *_offsets(members, large=large)) for large in (False, True)}
    placed: dict[object, int] = {}
    for each in members:
        key = each.payload if isinstance(each.payload, ByteRange) else id(each.payload)
        if key not in placed:
            placed[key] = file.add(each.payload, alignment[each.payload.nbytes >= LARGE])
    for each in members:
        key = each.payload if isinstance(each.payload, ByteRange) else id(each.payload)
        _point(each.tensor, name, location)
        # Absent keys mean the start and the end of the file; they stay absent where that is so.
        if (_number(each.tensor, "offset") or 0) != placed[key]:
            _set(each.tensor, "offset", str(placed[key]))
        length = _number(each.tensor, "length")
        if (file.size - placed[key] if length is None else length) != each.payload.nbytes:
            _set(each.tensor, "length", str(each.payload.nbytes))
        _drop(each.tensor, "checksum")  # of the whole file, which is another one now


def _offsets(members: Iterable[Marked], *, large: bool) -> list[int]:
    return [
        _number(each.tensor, "offset") or 0 for each in members if (each.payload.nbytes >= LARGE) == large
    ]


def _unchanged(model: StoredModel, location: str, members: list[Marked]) -> ByteRange | None:
    """The source's data file, to be copied as it is, where the output needs all of its tensors unchanged.

    Not where most of it is no tensor of this model (a file that several models share).
    """
    file = model.weights.sources.get(location)
    if file is None:
        return None
    had = {
        each for each in model.weights.payloads() if isinstance(each, ByteRange) and each.path == file.path
    }
    if had != {each.payload for each in members if isinstance(each.payload, ByteRange)}:
        return None
    if not all(isinstance(each.payload, ByteRange) for each in members):
        return None
    covered = sum(each.nbytes for each in had)
    return file if file.nbytes - covered <= PAGE * (len(had) + 1) else None


class _Names:
    """Picks the locations of data files beside the output."""

    def __init__(self, model: StoredModel, output: Path) -> None:
        self._output = output
        self._sources = (
            [] if _same(output, model.path) else [file.path for file in model.weights.sources.values()]
        )
        self._used = {output}
        self._own: set[Path] | None = None

    def pick(self, location: str, *, lone: bool) -> str:
        if self._take(location):
            return location
        base = PurePosixPath(location)
        stem = self._output.name if lone else f"{self._output.name}.{base.name}"
        suffix = ".data" if lone else ""
        count = 1
        while True:
            name = str(base.with_name(f"{stem}{f'.{count}' if count > 1 else ''}{suffix}"))
            if self._take(name):
                return name
            count += 1

    def _take(self, location: str) -> bool:
        """Take the name if nothing is there, or data of the model being replaced, which no source uses."""
        path = self._output.parent / location
        if path in self._used or any(_same(path, source) for source in self._sources):
            return False
        if path.exists() or path.is_symlink():
            if self._own is None:
                self._own = _data_paths(self._output)
            if path not in self._own:
                return False
        self._used.add(path)
        return True


def _data_paths(output: Path) -> set[Path]:
    """The data files of the model that the output replaces."""
    from fuser.storage.loader import load

    try:
        return {output.parent / location for location in load(output).weights.sources}
    except ModelError:
        return set()


def _same(path: Path, other: Path | None) -> bool:
    return other is not None and path.exists() and other.exists() and path.samefile(other)


def _entries(tensor: TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _number(tensor: TensorProto, key: str) -> int | None:
    text = _entries(tensor).get(key, "")
    return int(text) if text else None


def _point(tensor: TensorProto, name: str, location: str) -> None:
    unmark(tensor)
    if name != location:
        _set(tensor, "location", name)


def _set(tensor: TensorProto, key: str, value: str) -> None:
    entries = [entry for entry in tensor.external_data if entry.key == key]
    for entry in entries or [tensor.external_data.add(key=key)]:
        entry.value = value


def _drop(tensor: TensorProto, key: str) -> None:
    for index in reversed(range(len(tensor.external_data))):
        if tensor.external_data[index].key == key:
            del tensor.external_data[index]
