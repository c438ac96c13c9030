"""Writes a model: its skeleton with the large tensors put back, streamed from where they are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from google.protobuf.message import EncodeError
from onnx.onnx_ml_pb2 import TensorProto

from fuser.errors import OutputError
from fuser.storage.atomic import Staging, refusal
from fuser.storage.layout import Marked, lay_out
from fuser.storage.payload import ByteRange
from fuser.storage.weights import MARK_BYTES, unmark
from fuser.storage.wire import find, leaves, length_delimited, occurrences, splice

if TYPE_CHECKING:
    from fuser.storage.model import StoredModel
    from fuser.storage.payload import Payload

# Protobuf reads no message of 2 GiB; a little less leaves room for who adds metadata later.
LIMIT = (1 << 31) - (1 << 20)


@dataclass(frozen=True)
class Written:
    """What ``save`` wrote."""

    path: Path
    data_paths: tuple[Path, ...]  # external data files
    nbytes: int  # of all files together
    sha256: str  # hex digest of the model's own file, empty where none was asked for


def save(model: StoredModel, path: str | Path, *, force: bool = False, digest: bool = True) -> Written:
    """Write the model to ``path``, and its external data beside it; all of it or nothing.

    Every file is written beside its destination under a temporary name and renamed at the end, the model's
    last. When anything fails, an interrupt included, what was at the destinations is still there and nothing
    else is. A file that is overwritten keeps its permissions. ``model`` can be used and saved again, unless
    its own file was replaced.

    A tensor that was external stays external, in a file of the same relative name. Where that name is taken,
    the file gets a name that begins with the output's: ``<output name>.data``, or ``<output name>.<file
    name>`` in the same folder where the source has several data files; with a number where that is taken too.
    A name is taken when a file is there, unless that file is external data of the model being overwritten and
    not of the source: then it is overwritten with it. A data file in which nothing changed is copied as it
    is, with its gaps and its checksum. In others the tensors lie in the source's order, each range once, at
    the alignment that all offsets in the source had in common (up to 64 KiB; that of large and of small
    tensors separately), and checksums are removed. Other keys of ``external_data`` stay.

    Where the model's file would come near 2 GiB, which protobuf can't read, the large tensors in it go to a
    new data file ``<output name>.data``.

    ``path`` may be the model's own file only with ``force``, which replaces it whole, external data included.
    Raises OutputError when it is so without, and when something can't be written; ModelError when a source
    file is not what it was when it was loaded.
    """
    path = Path(path)
    destination = _checked(model, path, force=force)
    try:
        skeleton = model.proto.SerializeToString()
    except (EncodeError, ValueError):
        raise OutputError(
            f"{path}: can't be written, its graph alone is larger than 2 GiB; store typed data as raw data"
        ) from None
    data = memoryview(skeleton)
    parts = find(data, hits=occurrences(skeleton, MARK_BYTES))
    marked = []
    for leaf in leaves(parts):
        tensor = TensorProto.FromString(skeleton[leaf.start : leaf.stop])
        payload = model.weights.payload(tensor)
        if payload is not None:
            marked.append(Marked(leaf.start, tensor, payload))
    external = [each for each in marked if model.weights.is_external(each.tensor)]
    inline = [each for each in marked if not model.weights.is_external(each.tensor)]
    spill = len(skeleton) + sum(each.payload.nbytes for each in inline) > LIMIT
    for each in inline:
        unmark(each.tensor)
    files = lay_out(model, external, inline if spill else [], path)
    new: dict[int, list[memoryview | Payload]] = {
        each.start: [memoryview(each.tensor.SerializeToString())] for each in marked
    }
    for each in [] if spill else inline:
        tag = length_delimited(TensorProto.RAW_DATA_FIELD_NUMBER, each.payload.nbytes)
        new[each.start] += [memoryview(tag), each.payload]
    pieces = splice(data, parts, new)
    with Staging() as staging:
        total = 0
        for file in files:
            total += staging.write(file.path, file.pieces, digest=False)[0]
        size, sha256 = staging.write(destination, pieces, digest=digest)
        staging.commit()
    return Written(path, tuple(file.path for file in files), total + size, sha256)


def _checked(model: StoredModel, path: Path, *, force: bool) -> Path:
    """The file that a rename to will change: ``path``, or what it links to."""
    try:
        if path.is_dir():
            raise OutputError(f"{path}: is a folder; add a file name")
        if not path.parent.is_dir():
            raise OutputError(
                f"{path}: the folder {path.parent} does not exist; create it, or choose another"
            )
        if path.exists():
            if not path.is_file():
                raise OutputError(f"{path}: is no regular file; choose another output path")
            if model.path is not None and model.path.exists() and path.samefile(model.path):
                if not force:
                    raise OutputError(
                        f"{path}: is the input; choose another output path, or force it to be replaced"
                    )
            else:
                for each in model.weights.payloads():
                    if isinstance(each, ByteRange) and each.path.exists() and path.samefile(each.path):
                        raise OutputError(f"{path}: holds weights of the input; choose another output path")
        return Path(os.path.realpath(path))
    except OSError as error:
        raise refusal(path, error) from None
    except ValueError as error:
        raise OutputError(f"{str(path)!r}: is no file name ({error}); choose another output path") from None
