"""Finds tensors in the bytes of a serialized ModelProto, without parsing it.

The protobuf wire format is a sequence of fields, each a tag, and for a nested message its length and bytes.
So a message that can't hold what is looked for is skipped by its length alone: a model of 100,000 nodes and
300,000 small initializers takes 60 ms. What is looked for is either long tensors (``least``) or tensors
around given positions (``hits``). Format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fuser.storage.payload import Payload

# Message -> field number -> message, wherever it leads to a TensorProto.
SCHEMA: dict[str, dict[int, str]] = {
    "ModelProto": {7: "GraphProto", 20: "TrainingInfoProto", 25: "FunctionProto"},
    "GraphProto": {1: "NodeProto", 5: "TensorProto", 15: "SparseTensorProto"},
    "TrainingInfoProto": {1: "GraphProto", 2: "GraphProto"},
    "FunctionProto": {7: "NodeProto", 11: "AttributeProto"},
    "NodeProto": {5: "AttributeProto"},
    "AttributeProto": {
        5: "TensorProto",
        6: "GraphProto",
        10: "TensorProto",
        11: "GraphProto",
        22: "SparseTensorProto",
        23: "SparseTensorProto",
    },
    "SparseTensorProto": {1: "TensorProto", 2: "TensorProto"},
}
# Fields of these that may come once. Protobuf merges a second one into the first, which a walk can't.
SINGULAR: dict[str, frozenset[int]] = {
    "ModelProto": frozenset({7}),
    "TrainingInfoProto": frozenset({1, 2}),
    "AttributeProto": frozenset({5, 6, 22}),
    "SparseTensorProto": frozenset({1, 2}),
}

VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 = range(6)
NEVER = 1 << 62  # longer than any field, behind any position
# Elements of AttributeProto.floats and .ints, each a field: tree ensembles have millions. The limit keeps
# the memory small.
RUN = re.compile(rb"(?:=[\s\S]{4}){1,1024}|(?:@[\x80-\xff]{0,9}[\x00-\x7f]){1,1024}")
MAX_DEPTH = 100  # protobuf's own limit of nested messages


class DamagedError(Exception):
    """The bytes are no protobuf message."""


class RepeatedError(Exception):
    """A message that may come once comes twice: only protobuf itself can merge them."""


class Field(NamedTuple):
    """One field: ``tag`` and ``start`` are where its tag and its content begin, ``stop`` is behind it."""

    number: int
    wire: int
    tag: int
    start: int
    stop: int


class Part(NamedTuple):
    """A message that was looked for: a tensor (``parts`` is None), or what holds some."""

    number: int
    tag: int
    start: int
    stop: int
    parts: list[Part] | None


def varint(data: memoryview, position: int) -> tuple[int, int]:
    """Decode the varint at ``position``; also returns the position behind it."""
    value = shift = 0
    while True:
        try:
            byte = data[position]
        except IndexError:
            raise DamagedError(f"it ends at byte {position}, in the middle of a field") from None
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
        if shift > 63:
            raise DamagedError(f"at byte {position} a number is longer than 64 bits")


def encoded(value: int) -> bytes:
    """Encode a varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def length_delimited(number: int, size: int) -> bytes:
    """Tag and length of a field whose content of ``size`` bytes follows."""
    return encoded(number << 3 | LENGTH) + encoded(size)


def field_at(data: memoryview, tag: int, end: int, depth: int = 0) -> Field:
    """Read the field whose tag is at ``tag``, in a message that ends at ``end``."""
    key, start = varint(data, tag)
    wire, number = key & 7, key >> 3
    if wire == VARINT:
        stop = varint(data, start)[1]
    elif wire == LENGTH:
        size, start = varint(data, start)
        stop = start + size
    elif wire == FIXED64:
        stop = start + 8
    elif wire == FIXED32:
        stop = start + 4
    elif wire == GROUP and depth < MAX_DEPTH:
        inner = field_at(data, start, end, depth + 1)
        while inner.wire != END_GROUP:
            inner = field_at(data, inner.stop, end, depth + 1)
        stop = inner.stop
    elif wire == END_GROUP and depth:
        stop = start
    else:
        raise DamagedError(f"at byte {tag} there is no field")
    if stop > end:
        raise DamagedError(
            f"the field at byte {tag} should end at byte {stop}, but its message ends at byte {end}"
        )
    return Field(number, wire, tag, start, stop)


def fields(data: memoryview, start: int, end: int) -> Iterator[Field]:
    """Every field of the message between ``start`` and ``end``."""
    while start < end:
        field = field_at(data, start, end)
        yield field
        start = field.stop


def _skip(data: memoryview, position: int, end: int, least: int, hit: int) -> int:
    """Step over nested fields, up to one that has ``least`` bytes, reaches ``hit`` or is unusually encoded.

    This loop passes over every node and initializer, so it decodes the usual case (one byte of tag, up to
    two of length) by itself.
    """
    try:
        while position < end and data[position] & 0x87 == LENGTH:
            size = data[position + 1]
            if size < 128:
                stop = position + 2 + size
            else:
                high = data[position + 2]
                if high > 127:
                    break
                size += (high << 7) - 128
                stop = position + 3 + size
            if size >= least or stop > hit:
                break
            position = stop
    except IndexError:
        raise DamagedError(f"it ends at byte {len(data)}, in the middle of a field") from None
    if position > end:
        raise DamagedError(
            f"a field before byte {position} is longer than its message, which ends at byte {end}"
        )
    return position


def _candidates(data: memoryview, start: int, end: int, least: int, hits: Sequence[int]) -> Iterator[Field]:
    """The nested fields of at least ``least`` bytes, or with one of the sorted ``hits`` inside."""
    position = start
    while position < end:
        index = bisect_left(hits, position)
        hit = hits[index] if index < len(hits) else NEVER
        if hit >= end and least >= NEVER:
            return
        position = _skip(data, position, end, least, hit)
        run = RUN.match(data, position, end)
        if run:
            position = run.end()
        elif position < end:
            field = field_at(data, position, end)
            position = field.stop
            if field.wire == LENGTH and (field.stop - field.start >= least or field.stop > hit):
                yield field


def find(
    data: memoryview,
    *,
    least: int = NEVER,
    hits: Sequence[int] = (),
    message: str = "ModelProto",
    span: tuple[int, int] | None = None,
    depth: int = 0,
) -> list[Part]:
    """The tensors of at least ``least`` bytes, or around one of the sorted ``hits``, with the messages that
    hold them.

    Raises DamagedError where the bytes are no protobuf message, RepeatedError where only protobuf can tell
    what they mean.
    """
    start, end = span or (0, len(data))
    if depth > MAX_DEPTH:
        raise DamagedError(f"at byte {start} messages are nested more than {MAX_DEPTH} deep")
    inside, singular = SCHEMA[message], SINGULAR.get(message)
    if singular:
        numbers = [field.number for field in _candidates(data, start, end, 0, ()) if field.number in singular]
        if len(set(numbers)) != len(numbers):
            raise RepeatedError
    parts = []
    for field in _candidates(data, start, end, least, hits):
        child = inside.get(field.number)
        if child == "TensorProto":
            parts.append(Part(field.number, field.tag, field.start, field.stop, None))
        elif child is not None:
            span = (field.start, field.stop)
            below = find(data, least=least, hits=hits, message=child, span=span, depth=depth + 1)
            if below:
                parts.append(Part(field.number, field.tag, field.start, field.stop, below))
    return parts


def leaves(parts: Sequence[Part]) -> Iterator[Part]:
    """The tensors among the parts, in the order of the bytes."""
    for part in parts:
        if part.parts is None:
            yield part
        else:
            yield from leaves(part.parts)


def splice(
    data: memoryview,
    parts: Sequence[Part],
    new: Mapping[int, Sequence[memoryview | Payload]],
    span: tuple[int, int] | None = None,
) -> list[memoryview | Payload]:
    """The message with new content for the tensors whose ``start`` is in ``new``, all lengths around them
    recomputed."""
    done, end = span or (0, len(data))
    out: list[memoryview | Payload] = []
    for part in parts:
        if part.parts is not None:
            content: Sequence[memoryview | Payload] = splice(data, part.parts, new, (part.start, part.stop))
        elif part.start in new:
            content = new[part.start]
        else:
            continue
        size = sum(piece.nbytes for piece in content)
        out += [data[done : part.tag], memoryview(length_delimited(part.number, size)), *content]
        done = part.stop
    out.append(data[done:end])
    return out


def occurrences(data: bytes, needle: bytes) -> list[int]:
    """Where ``needle`` occurs, sorted."""
    found = []
    position = data.find(needle)
    while position >= 0:
        found.append(position)
        position = data.find(needle, position + len(needle))
    return found
