"""The walk over serialized models."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, ModelProto, TensorProto

from fuser.storage import wire
from tests.storage.samples import _repeated, everything, models, tensors


def _reaching(descriptor: object, seen: dict[str, dict[int, str]], stack: tuple[str, ...] = ()) -> bool:
    """Fill ``seen`` with the fields through which a message leads to a TensorProto."""
    if descriptor.name == "TensorProto":
        return True
    if descriptor.name in stack:
        return descriptor.name in wire.SCHEMA
    found = {
        field.number: field.message_type.name
        for field in descriptor.fields
        if field.message_type and _reaching(field.message_type, seen, (*stack, descriptor.name))
    }
    if found:
        seen[descriptor.name] = found
    return bool(found)


def test_the_table_of_messages_is_that_of_onnx() -> None:
    seen: dict[str, dict[int, str]] = {}
    _reaching(ModelProto.DESCRIPTOR, seen)
    assert seen == wire.SCHEMA


def test_the_table_of_fields_that_come_once_is_that_of_onnx() -> None:
    pool = ModelProto.DESCRIPTOR.file.message_types_by_name
    singular = {
        name: frozenset(n for n in numbers if not _repeated(pool[name].fields_by_number[n]))
        for name, numbers in wire.SCHEMA.items()
    }
    assert {name: numbers for name, numbers in singular.items() if numbers} == wire.SINGULAR


@given(st.integers(0, (1 << 64) - 1))
def test_varints_survive(number: int) -> None:
    data = wire.encoded(number)
    assert wire.varint(memoryview(data), 0) == (number, len(data))


@given(models())
@settings(max_examples=60)
def test_every_tensor_is_found(model: ModelProto) -> None:
    """With no limit on the length, the walk finds as many tensors as the text form shows."""
    data = model.SerializeToString()
    found = list(wire.leaves(wire.find(memoryview(data), least=0)))
    text = str(model)
    heads = ("initializer {", "t {", "tensors {", "values {", "indices {")
    assert len(found) == sum(line.strip() in heads for line in text.splitlines())


@given(models(), st.data())
@settings(max_examples=60)
def test_lengths_around_a_changed_tensor_are_right(model: ModelProto, data: st.DataObject) -> None:
    """Tensors spliced out for longer and shorter ones leave a message that differs in them alone."""
    raw = memoryview(model.SerializeToString())
    parts = wire.find(raw, least=0)
    leaves = list(wire.leaves(parts))
    changed = {leaf.start: data.draw(tensors()) for leaf in leaves if data.draw(st.booleans())}
    new = {start: [memoryview(tensor.SerializeToString())] for start, tensor in changed.items()}
    result = b"".join(wire.splice(raw, parts, new))
    after = list(wire.leaves(wire.find(memoryview(result), least=0)))
    assert len(after) == len(leaves)
    for old, now in zip(leaves, after, strict=True):
        expected = changed.get(old.start) or TensorProto.FromString(bytes(raw[old.start : old.stop]))
        assert TensorProto.FromString(result[now.start : now.stop]) == expected
    back = {now.start: [raw[old.start : old.stop]] for old, now in zip(leaves, after, strict=True)}
    view = memoryview(result)
    assert b"".join(wire.splice(view, wire.find(view, least=0), back)) == bytes(raw)


@given(models(), st.data())
@settings(max_examples=60)
def test_positions_find_the_tensors_around_them(model: ModelProto, data: st.DataObject) -> None:
    raw = memoryview(model.SerializeToString())
    everywhere = [(leaf.start, leaf.stop) for leaf in wire.leaves(wire.find(raw, least=0))]
    hits = sorted(data.draw(st.sets(st.integers(0, len(raw) - 1), max_size=5)))
    found = [(leaf.start, leaf.stop) for leaf in wire.leaves(wire.find(raw, hits=hits))]
    inside = [(start, stop) for start, stop in everywhere if any(start <= hit < stop for hit in hits)]
    assert [each for each in found if each in inside] == inside
    # A hit on a tag or a length finds the tensor behind it, which does no harm.
    assert set(found) <= {(a, b) for a, b in everywhere if any(a - 12 <= hit < b for hit in hits)}


@pytest.mark.parametrize("seed", range(3))
def test_long_lists_of_numbers_are_passed(seed: int) -> None:
    """A tree ensemble keeps its trees in ints and floats, one field each."""
    random = np.random.default_rng(seed)
    attribute = AttributeProto(name="nodes", floats=random.standard_normal(5000).astype(np.float32).tolist())
    attribute.ints.extend(random.integers(-(1 << 62), 1 << 62, 5000).tolist())
    attribute.tensors.add(name="behind", raw_data=bytes(70))
    model = ModelProto()
    model.graph.node.add().attribute.append(attribute)
    found = list(wire.leaves(wire.find(memoryview(model.SerializeToString()), least=60)))
    assert len(found) == 1


@pytest.mark.parametrize(
    ("data", "least", "sentence"),
    [
        (b"\x3a\x05\x0a", 0, "should end at byte 7"),
        (b"\x3a\x04\x12\x01g\x0a\x00\x00", 4, "longer than its message"),
        (b"\x3a", 0, "in the middle of a field"),
        (b"\x08" + b"\xff" * 10 + b"\x01", 0, "longer than 64 bits"),
        (b"\x3c", 0, "no field"),
        (b"\x3e\x00", 0, "no field"),
        (b"\xc3\x3e\x08\x01", 0, "in the middle of a field"),
        (b"\xc3\x3e" * 200, 0, "no field"),
    ],
)
def test_damage_is_told(data: bytes, least: int, sentence: str) -> None:
    with pytest.raises(wire.DamagedError, match=sentence):
        wire.find(memoryview(data), least=least)


def test_nesting_has_protobufs_limit() -> None:
    """A file can't make the walk recurse without end."""
    graph = b"\x12\x01g"
    for _ in range(60):
        attribute = wire.length_delimited(6, len(graph)) + graph
        node = wire.length_delimited(5, len(attribute)) + attribute
        graph = wire.length_delimited(1, len(node)) + node
    with pytest.raises(wire.DamagedError, match="nested more than 100 deep"):
        wire.find(memoryview(wire.length_delimited(7, len(graph)) + graph), least=1)


def test_only_what_can_be_long_is_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model without long tensors is passed at the top level of its graph."""
    looked: list[str] = []
    find = wire.find

    def counting(data: memoryview, **options: object) -> object:
        looked.append(str(options.get("message", "ModelProto")))
        return find(data, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(wire, "find", counting)
    data = memoryview(everything().SerializeToString())
    counting(data, least=1 << 19)
    assert looked == ["ModelProto"]
