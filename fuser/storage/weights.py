"""The side table of a model's skeleton: which tensors have their bytes elsewhere, and where."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from onnx.onnx_ml_pb2 import StringStringEntryProto, TensorProto

from fuser.errors import ModelError
from fuser.storage.payload import Block, ByteRange
from fuser.storage.wire import length_delimited

if TYPE_CHECKING:
    import numpy.typing as npt

    from fuser.storage.payload import Payload

# The mark of a tensor whose bytes are elsewhere is an entry of its external_data with this key: it is part of
# the message, so it survives CopyFrom and MergeFrom. Its value counts through the process, so that a tensor
# copied from another model is noticed.
EXTERNAL = TensorProto.EXTERNAL  # looking it up in its message is slow
MARK = "onnx-fuser.payload"
MARK_BYTES = b"\x0a" + bytes([len(MARK)]) + MARK.encode()  # as serialized
_counter = itertools.count(1)

_BITS = {
    TensorProto.FLOAT: 32,
    TensorProto.UINT8: 8,
    TensorProto.INT8: 8,
    TensorProto.UINT16: 16,
    TensorProto.INT16: 16,
    TensorProto.INT32: 32,
    TensorProto.INT64: 64,
    TensorProto.BOOL: 8,
    TensorProto.FLOAT16: 16,
    TensorProto.DOUBLE: 64,
    TensorProto.UINT32: 32,
    TensorProto.UINT64: 64,
    TensorProto.COMPLEX64: 64,
    TensorProto.COMPLEX128: 128,
    TensorProto.BFLOAT16: 16,
    # By number from here on: onnx 1.20 does not name all of them.
    **dict.fromkeys((17, 18, 19, 20, 24), 8),  # FLOAT8 …
    **dict.fromkeys((21, 22, 23), 4),  # UINT4, INT4, FLOAT4E2M1
    **dict.fromkeys((25, 26), 2),  # UINT2, INT2
    **dict.fromkeys((27, 28), 6),  # FLOAT6 …
}


def label(tensor: TensorProto) -> str:
    """What to call a tensor in a sentence."""
    return f"tensor {tensor.name!r}" if tensor.name else f"an unnamed tensor of shape {list(tensor.dims)}"


def raw_size(tensor: TensorProto) -> int | None:
    """Bytes that raw_data must have for the tensor's dims and type; None where this version does not know the
    type.

    Raises ModelError for a type that has no raw form, and for a negative dimension.
    """
    if tensor.data_type in (TensorProto.UNDEFINED, TensorProto.STRING):
        kind = "strings" if tensor.data_type else "elements of no type"
        raise ModelError(
            f"{label(tensor)} holds {kind}, which raw or external data can't; export the model again"
        )
    if tensor.HasField("segment"):
        return None  # a part of a tensor, of which dims tell nothing
    if any(dim < 0 for dim in tensor.dims):
        raise ModelError(f"{label(tensor)} has the shape {list(tensor.dims)}; export the model again")
    bits = _BITS.get(tensor.data_type)
    return None if bits is None else (math.prod(tensor.dims) * bits + 7) // 8


def check_size(tensor: TensorProto, nbytes: int) -> None:
    """Raise ModelError unless ``nbytes`` is what the tensor's dims and type need."""
    expected = raw_size(tensor)
    if expected is not None and nbytes != expected:
        raise ModelError(
            f"{label(tensor)} has {nbytes} bytes of data, but its shape {list(tensor.dims)} and type "
            f"{TensorProto.DataType.Name(tensor.data_type)} need {expected}; "
            "the file is damaged, export the model again"
        )


class Weights:
    """Payloads of the tensors of one model whose bytes are not in its skeleton."""

    def __init__(self) -> None:
        """No tensor has its bytes elsewhere yet."""
        self._payloads: dict[str, Payload] = {}
        self.sources: dict[
            str, ByteRange
        ] = {}  # each whole data file of the source, by the location its tensors name

    def register(self, payload: Payload) -> bytes:
        """Add a payload; returns its mark, as a serialized field of TensorProto."""
        number = str(next(_counter))
        self._payloads[number] = payload
        entry: bytes = StringStringEntryProto(key=MARK, value=number).SerializeToString()
        return length_delimited(TensorProto.EXTERNAL_DATA_FIELD_NUMBER, len(entry)) + entry

    def payload(self, tensor: TensorProto) -> Payload | None:
        """Where the tensor's bytes are; None means that they are in the tensor."""
        mark = None
        for entry in tensor.external_data:
            if entry.key == MARK:
                mark = entry.value
        if mark is None:
            return None
        if mark not in self._payloads:
            raise LookupError(f"{label(tensor)} was copied from another model without its payload")
        return self._payloads[mark]

    def payloads(self) -> list[Payload]:
        """Every payload that was ever loaded or attached."""
        return list(self._payloads.values())

    def marks(self) -> set[str]:
        """The values of all marks given."""
        return set(self._payloads)

    def attach(self, tensor: TensorProto, payload: Payload) -> None:
        """Let the tensor's bytes be the payload's, instead of what they were.

        Name, dims, data type, documentation and, for a tensor that was external, its external_data stay.
        Raises ModelError where the payload's size is not what dims and data type need.
        """
        expected = raw_size(tensor)
        if expected is not None and payload.nbytes != expected:
            raise ValueError(f"{label(tensor)} needs {expected} bytes, the payload has {payload.nbytes}")
        unmark(tensor)
        for name in _DATA_FIELDS:
            tensor.ClearField(name)
        tensor.MergeFromString(self.register(payload))

    def detach(self, tensor: TensorProto) -> None:
        """Forget the tensor's payload and that it was external: its bytes are to be put into it."""
        unmark(tensor)
        if self.is_external(tensor):
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")

    def is_external(self, tensor: TensorProto) -> bool:
        """Whether the tensor was external data in the source; it will be in the output."""
        return bool(tensor.data_location == EXTERNAL)

    def is_elsewhere(self, tensor: TensorProto) -> bool:
        """Whether the tensor's bytes are not in it."""
        return self.is_external(tensor) or self.payload(tensor) is not None

    def read(self, tensor: TensorProto) -> npt.NDArray[Any]:
        """The tensor as ``onnx.numpy_helper.to_array`` gives it, wherever its bytes are.

        Where nothing has to be unpacked the array is a read-only view of the mapped file. Raises ModelError
        where the tensor contradicts itself.
        """
        import numpy as np
        from onnx import helper, numpy_helper

        if tensor.HasField("segment"):
            raise ModelError(f"{label(tensor)} is a segment, which onnx can't read; export the model again")
        payload = self.payload(tensor)
        if payload is None:
            if self.is_external(tensor):
                raise ModelError(
                    f"{label(tensor)} is external data without a location; export the model again"
                )
            if tensor.HasField("raw_data"):
                check_size(tensor, len(tensor.raw_data))
            try:
                return numpy_helper.to_array(tensor)
            except (ValueError, TypeError, KeyError) as error:
                raise ModelError(f"{label(tensor)} can't be read: {error}; export the model again") from None
        data = payload.memory() if isinstance(payload, (ByteRange, Block)) else b"".join(payload.chunks())
        if _BITS.get(tensor.data_type, 0) % 8:
            packed = TensorProto(dims=tensor.dims, data_type=tensor.data_type, raw_data=bytes(data))
            return numpy_helper.to_array(packed)
        try:
            dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        except KeyError:
            raise ModelError(
                f"{label(tensor)} has a type that this onnx does not know; upgrade onnx"
            ) from None
        return np.frombuffer(data, dtype=dtype).reshape(tuple(tensor.dims))


_DATA_FIELDS = (
    "raw_data",
    "float_data",
    "int32_data",
    "string_data",
    "int64_data",
    "double_data",
    "uint64_data",
)


def unmark(tensor: TensorProto) -> None:
    """Remove the mark, keep the tensor's own external_data."""
    kept = [entry for entry in tensor.external_data if entry.key != MARK]
    if len(kept) != len(tensor.external_data):
        own = [
            (entry.key, entry.value) for entry in kept
        ]  # copied out: deleting would invalidate the entries
        del tensor.external_data[:]
        for key, value in own:
            tensor.external_data.add(key=key, value=value)
