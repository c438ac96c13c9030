"""Reads a model: its skeleton into memory, large and external tensors as byte ranges of their files."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError, EncodeError
from onnx.onnx_ml_pb2 import ModelProto, TensorProto

from fuser.errors import ModelError
from fuser.storage.model import StoredModel, tensors
from fuser.storage.payload import Block, ByteRange, Stamp
from fuser.storage.weights import MARK, MARK_BYTES, Weights, check_size, label, raw_size
from fuser.storage.wire import LENGTH, DamagedError, RepeatedError, fields, find, leaves, occurrences, splice

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuser.storage.payload import Payload

# A tensor below this is parsed with the skeleton: measured as fast either way, and everything can read it.
THRESHOLD = 1 << 14
LIMIT = 1 << 31  # of a protobuf message
_LOCATION = b"\x0a\x08location"  # key of an external_data entry, as serialized


def load(path: str | Path, threshold: int = THRESHOLD) -> StoredModel:
    """Read the model at ``path``.

    ``raw_data`` of at least ``threshold`` bytes stays in the file, wherever a TensorProto can be; so do all
    external tensors, in their files. Typed data (``float_data`` …) is parsed whatever its size: it is rare
    for large tensors, and varints are no raw bytes that could be streamed.

    Raises ModelError when the file is no ONNX model, is damaged, or refers to external data that are missing,
    too short, or outside of the model's folder; and when a tensor's size contradicts its shape and type (a
    tensor below the threshold is checked when ``Weights.read`` reads it).
    """
    path = Path(path)
    file = _whole(path, "no such file; give the path of an .onnx file")
    if not file.nbytes:
        raise ModelError(f"{path}: the file is empty; export or copy the model again")
    try:
        return _read(file.memory(), file, threshold, path)
    except (DamagedError, DecodeError) as error:
        reason = f" ({error})" if isinstance(error, DamagedError) else ""
        raise ModelError(f"{path}: {_guess(file)}{reason}") from None


def from_proto(model: ModelProto) -> StoredModel:
    """Take a copy of a model in memory; ``model`` itself is never changed.

    Raises ModelError when it refers to external data that were not loaded, or is too large to be copied.
    """
    try:
        source = Block(model.SerializeToString())
    except (EncodeError, ValueError):
        raise ModelError(
            "the model in memory is larger than 2 GiB; "
            "save it with onnx.save(model, path, save_as_external_data=True) and give that path"
        ) from None
    try:
        return _read(source.data, source, THRESHOLD, None)
    except DamagedError as error:
        raise ModelError(f"the model in memory can't be used: {error}; give a whole ModelProto") from None


def _read(data: memoryview, source: Payload, threshold: int, path: Path | None) -> StoredModel:
    weights = Weights()

    def place(start: int, stop: int) -> Payload:
        if isinstance(source, ByteRange):
            return ByteRange(source.path, start, stop - start, source.stamp)
        return Block(data[start:stop])

    try:
        skeleton = _strip(data, weights, place, threshold)
    except RepeatedError:
        # Rare but legal: parsed and serialized again it is in order.
        data = memoryview(ModelProto.FromString(bytes(data)).SerializeToString())
        weights = Weights()
        skeleton = _strip(data, weights, lambda start, stop: Block(data[start:stop]), threshold)
    skeleton = _mark_external(skeleton, weights, path)
    if len(skeleton) >= LIMIT:
        raise ModelError(
            "tensors stored as typed data make the graph larger than 2 GiB; export them as raw data"
        )
    proto = ModelProto.FromString(skeleton)
    if not proto.HasField("graph") or not (proto.graph.node or proto.opset_import):
        raise DamagedError(
            "it has no graph" if not proto.HasField("graph") else "its graph has neither nodes nor an opset"
        )
    if skeleton.count(MARK_BYTES) != len(weights.marks()):
        _refuse_marks(proto, weights)
    return StoredModel(proto, weights, path, source)


def _strip(data: memoryview, weights: Weights, place: Callable[[int, int], Payload], threshold: int) -> bytes:
    """The model's bytes, with marks in place of long raw_data."""
    parts = find(data, least=threshold)
    new: dict[int, list[memoryview | Payload]] = {}
    for leaf in leaves(parts):
        raw = [
            field
            for field in fields(data, leaf.start, leaf.stop)
            if field.number == TensorProto.RAW_DATA_FIELD_NUMBER and field.wire == LENGTH
        ]
        if len(raw) > 1:
            raise RepeatedError
        if not raw or raw[0].stop - raw[0].start < threshold:
            continue
        before, after = data[leaf.start : raw[0].tag], data[raw[0].stop : leaf.stop]
        tensor = TensorProto.FromString(b"".join((before, after)))
        if tensor.data_location == TensorProto.EXTERNAL:
            continue  # what counts are the external data
        if tensor.HasField("segment"):
            continue  # a part of a tensor, which nothing can read
        check_size(tensor, raw[0].stop - raw[0].start)
        mark = weights.register(place(raw[0].start, raw[0].stop))
        new[leaf.start] = [before, after, memoryview(mark)]
    return _joined(splice(data, parts, new))


def _mark_external(skeleton: bytes, weights: Weights, path: Path | None) -> bytes:
    """The skeleton with a mark on every external tensor."""
    hits = occurrences(skeleton, _LOCATION)
    if not hits:
        return skeleton
    data = memoryview(skeleton)
    parts = find(data, hits=hits)
    new: dict[int, list[memoryview | Payload]] = {}
    for leaf in leaves(parts):
        content = data[leaf.start : leaf.stop]
        tensor = TensorProto.FromString(bytes(content))
        if tensor.data_location == TensorProto.EXTERNAL:
            if path is None:
                raise ModelError(
                    f"{label(tensor)} is external data that were not loaded with the model in memory; "
                    "give the model's path, or load it with onnx.load(path)"
                )
            mark = weights.register(_external(tensor, weights, path))
            new[leaf.start] = [content, memoryview(mark)]
    return _joined(splice(data, parts, new))


def _external(tensor: TensorProto, weights: Weights, path: Path) -> ByteRange:
    """The range of an external tensor's bytes, checked."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries["location"]
    if location not in weights.sources:
        weights.sources[location] = _data_file(location, path, tensor)
    file = weights.sources[location]
    numbers = []
    for key in ("offset", "length"):
        text = entries.get(key, "")
        if not text.isascii() or not (text.isdigit() or not text):
            raise ModelError(
                f"{path}: {label(tensor)} has {key} {text!r}, which is no number of bytes; export it again"
            )
        numbers.append(int(text) if text else None)
    offset, length = numbers[0] or 0, numbers[1]
    if length is None:
        expected = raw_size(tensor)
        length = max(file.nbytes - offset, 0) if expected is None else expected
    if offset + length > file.nbytes:
        raise ModelError(
            f"{path}: {label(tensor)} needs the bytes {offset} to {offset + length} of {location}, which has "
            f"only {file.nbytes}; it is cut short or belongs to another export, copy both files again"
        )
    check_size(tensor, length)
    return replace(file, offset=offset, nbytes=length)


def _data_file(location: str, path: Path, tensor: TensorProto) -> ByteRange:
    """The data file of that location, which must be in the model's folder."""
    name = f"{path}: {label(tensor)} refers to external data at {location!r}"
    if not location:
        raise ModelError(f"{name}, which is no file name; export the model again")
    windows = PureWindowsPath(location)  # splits at both kinds of slashes, and knows drives
    if windows.drive or windows.root or ".." in windows.parts:
        raise ModelError(
            f"{name}, which is outside of the model's folder; move the file there and export the model again"
        )
    file = _whole(path.parent / location, f"is missing; copy it beside {path.name}", name)
    # A model that is itself a link (as in download caches) has its data beside the file it links to.
    real = file.path.resolve()
    if not any(real.is_relative_to(folder) for folder in (path.parent.resolve(), path.resolve().parent)):
        raise ModelError(
            f"{name}, which links to {real}, outside of the model's folder; copy the file itself there"
        )
    return file


def _whole(path: Path, missing: str, name: str | None = None) -> ByteRange:
    """All bytes of a regular file. ``name`` says who asks, where the path alone does not."""
    name = f"{name}, which" if name else f"{path}:"
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise ModelError(f"{name} {missing}") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{name} can't be read ({error}); check the path and its permissions") from None
    if stat.S_ISDIR(status.st_mode):
        raise ModelError(f"{name} is a folder; give the path of a file in it")
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(f"{name} is no regular file; give the path of a file")
    return ByteRange(path.absolute(), 0, status.st_size, Stamp.of(status))


def _guess(file: ByteRange) -> str:
    """What a file that is no model might be, and what to do."""
    head = bytes(file.memory()[:1024])
    if head.startswith(b"version https://git-lfs"):
        return "is a Git LFS pointer and not the model; fetch it with `git lfs pull`"
    if head.startswith(b"PK\x03\x04"):
        return "is a zip archive (a PyTorch checkpoint?) and no ONNX model; export it with torch.onnx.export"
    text = head.decode("utf-8", "ignore")
    if (
        text
        and all(character.isprintable() or character.isspace() for character in text)
        and b"\0" not in head
    ):
        return (
            "is text and no binary ONNX model; give an .onnx file (onnx.load and onnx.save convert ONNX text)"
        )
    return "is damaged, cut short, or no ONNX model; export or copy it again"


def _refuse_marks(proto: ModelProto, weights: Weights) -> None:
    """Refuse a model that carries marks of its own; the same bytes in a doc string do no harm."""
    found = [entry.value for tensor in tensors(proto) for entry in tensor.external_data if entry.key == MARK]
    if sorted(found) != sorted(weights.marks()):
        raise ModelError(
            f"a tensor has an external_data entry {MARK!r}, which is reserved; remove it from the model"
        )


def _joined(pieces: list[memoryview | Payload]) -> bytes:
    return b"".join(piece for piece in pieces if isinstance(piece, memoryview))
