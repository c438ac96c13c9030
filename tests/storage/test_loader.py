"""Reading models: what stays on disk, what is refused."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf.message import EncodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, numpy_helper

from fuser.errors import ModelError
from fuser.storage import Block, ByteRange, from_proto, load, loader, tensors, wire
from tests.storage.samples import array, chain, everything, external, models

IN_TMP_PATH = settings(
    max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@given(models(), st.integers(0, 40))
@IN_TMP_PATH
def test_a_loaded_model_is_the_model(tmp_path: Path, model: ModelProto, threshold: int) -> None:
    """Skeleton and weights are field for field what protobuf parses; the skeleton has no long raw data."""
    path = written(tmp_path / "m.onnx", model.SerializeToString())
    stored = load(path, threshold)
    assert stored.materialize() == model
    assert all(len(t.raw_data) < threshold for t in tensors(stored.proto) if t.HasField("raw_data"))


def test_large_tensors_stay_on_disk_wherever_they_are(tmp_path: Path) -> None:
    model = everything()
    path = written(tmp_path / "m.onnx", model.SerializeToString())
    stored = load(path)
    marked = [tensor for tensor in tensors(stored.proto) if stored.weights.payload(tensor)]
    # 2 initializers, 3 in Constant nodes (2 of a sparse one), 2 branches, 2 in a list, 1 in a list of graphs,
    # 2 of the sparse initializer, 2 in a function, 1 in the training information.
    assert len(marked) == 15
    assert all(isinstance(stored.weights.payload(tensor), ByteRange) for tensor in marked)
    assert stored.proto.ByteSize() < 100_000
    assert model.ByteSize() > 300_000
    assert stored.materialize() == model


def test_what_describes_a_tensor_stays_in_the_skeleton(tmp_path: Path) -> None:
    tensor = load(written(tmp_path / "m.onnx", everything().SerializeToString())).proto.graph.initializer[0]
    assert (tensor.name, list(tensor.dims), tensor.data_type) == ("large", [64, 80], TensorProto.FLOAT)
    assert tensor.doc_string == "a weight"
    assert tensor.metadata_props[0].value == "OIHW"
    assert not tensor.HasField("raw_data")


def test_a_marked_tensor_can_be_copied(tmp_path: Path) -> None:
    stored = load(written(tmp_path / "m.onnx", everything().SerializeToString()))
    copied = TensorProto()
    copied.CopyFrom(stored.proto.graph.initializer[0])
    merged = TensorProto()
    merged.MergeFrom(copied)
    assert stored.weights.payload(merged) == stored.weights.payload(stored.proto.graph.initializer[0])


def test_a_tensor_of_another_model_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path / "m.onnx", everything().SerializeToString())
    tensor = load(path).proto.graph.initializer[0]
    with pytest.raises(LookupError, match="'large' was copied from another model"):
        load(path).weights.payload(tensor)


def test_a_model_in_memory_is_copied(tmp_path: Path) -> None:
    model = everything()
    before = model.SerializeToString()
    stored = from_proto(model)
    assert stored.path is None
    assert isinstance(stored.weights.payload(stored.proto.graph.initializer[0]), Block)
    stored.proto.graph.initializer[0].name = "other"
    assert model.SerializeToString() == before
    assert stored.sha256 == load(written(tmp_path / "m.onnx", before)).sha256


@pytest.mark.parametrize("where", ["model", "attribute", "tensor"])
def test_messages_that_come_twice_are_merged_as_protobuf_does(tmp_path: Path, where: str) -> None:
    """Legal on the wire: of a message that may come once, a second one is merged into the first."""
    model = chain([array(1, 5000, 4)])
    attribute = model.graph.node[0].attribute.add(name="value", type=4)
    attribute.t.CopyFrom(numpy_helper.from_array(array(40, 200), "t"))
    data = model.SerializeToString()
    parts = wire.find(memoryview(data), least=1000)
    tensor = next(wire.leaves(parts))
    content = memoryview(data)[tensor.start : tensor.stop]
    if where == "model":
        data += ModelProto(graph=everything().graph).SerializeToString()
    else:
        again = wire.length_delimited(5, 3) + b"\x5a\x01d"  # t with an unknown field
        if where == "tensor":
            twice = [content, memoryview(wire.length_delimited(9, 32000) + bytes(32000))]
            data = b"".join(wire.splice(memoryview(data), parts, {tensor.start: twice}))
        else:
            attribute_part = parts[0].parts[0].parts[0]
            whole = memoryview(data)[attribute_part.start : attribute_part.stop]
            flat = [part._replace(parts=None) for part in parts[0].parts[0].parts]
            node = [parts[0]._replace(parts=[parts[0].parts[0]._replace(parts=flat), *parts[0].parts[1:]])]
            data = b"".join(
                wire.splice(memoryview(data), node, {attribute_part.start: [whole, memoryview(again)]})
            )
    expected = ModelProto.FromString(data)
    stored = load(written(tmp_path / "m.onnx", data))
    assert stored.materialize() == expected
    assert all(isinstance(payload, Block) for payload in stored.weights.payloads())


def test_typed_data_is_read_whatever_its_size(tmp_path: Path) -> None:
    stored = load(written(tmp_path / "m.onnx", everything().SerializeToString()))
    typed = next(each for each in stored.proto.graph.initializer if each.name == "typed")
    assert stored.weights.payload(typed) is None
    assert np.array_equal(stored.weights.read(typed), array(9000))


def test_a_file_of_more_than_2_gib(tmp_path: Path) -> None:
    """Protobuf reads no such file, but the weights need not be read: one of 2.2 GiB and one behind it."""
    hole, behind = 2362232012, numpy_helper.from_array(array(70, 70), "behind")
    head = TensorProto(name="huge", data_type=TensorProto.UINT8, dims=[hole]).SerializeToString()
    head += wire.length_delimited(9, hole)
    rest = chain([array(1, 5, 4)])
    graph = rest.graph.SerializeToString()
    first = wire.length_delimited(5, len(head) + hole) + head
    second = wire.length_delimited(5, behind.ByteSize()) + behind.SerializeToString()
    rest.ClearField("graph")
    path = tmp_path / "m.onnx"
    with path.open("wb") as file:
        file.write(rest.SerializeToString())
        file.write(wire.length_delimited(7, len(graph) + len(first) + hole + len(second)))
        file.write(graph + first)
        file.seek(hole, io.SEEK_CUR)
        file.write(second)
    stored = load(path)
    huge, last = stored.proto.graph.initializer[-2:]
    assert stored.weights.payload(huge).nbytes == hole
    assert np.array_equal(stored.weights.read(last), array(70, 70))
    assert stored.weights.read(huge)[:: hole - 1].tolist() == [0, 0]


@given(st.data())
@IN_TMP_PATH
def test_damaged_files_are_refused_exactly_where_protobuf_refuses_them(
    tmp_path: Path, data: st.DataObject
) -> None:
    """Cut short or with bytes changed, a file is read as protobuf reads it, or refused with a sentence."""
    content = bytearray(data.draw(models()).SerializeToString())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(1, len(content)))]
    path = written(tmp_path / "m.onnx", content)
    try:
        expected = ModelProto.FromString(bytes(content))
    except Exception:
        expected = None
    try:
        model = load(path, 8).materialize()
    except ModelError as error:
        usable = (
            expected is not None
            and expected.HasField("graph")
            and (expected.graph.node or expected.opset_import)
        )
        assert not usable or any(  # noqa: PT017
            text in str(error)
            for text in ("bytes of data", "has the shape", "which raw or external data can't", "reserved")
        )
    else:
        assert model == expected


def _model(**changes: object) -> bytes:
    model = chain([array(1, 5000, 4)])
    for name, value in changes.items():
        if value is None:
            model.graph.initializer[0].ClearField(name)
        else:
            setattr(model.graph.initializer[0], name, value)
    return model.SerializeToString()


def _dims(*dims: int) -> bytes:
    model = chain([array(1, 5000, 4)])
    model.graph.initializer[0].dims[:] = dims
    return model.SerializeToString()


REFUSED = {
    "empty": (b"", "the file is empty; export or copy the model again"),
    "text": (b"ir_version: 8\ngraph { }\n", "is text and no binary ONNX model"),
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
    "zip": (b"PK\x03\x04" + bytes(60), "is a zip archive"),
    "noise": (bytes(range(255, 0, -1)), "damaged, cut short, or no ONNX model"),
    "cut short": (_model()[:-20_000], "should end at byte"),
    "cut short, small": (chain([array(1, 5, 4)]).SerializeToString()[:-30], "damaged, cut short"),
    "no graph": (ModelProto(ir_version=8, producer_name="p").SerializeToString(), "it has no graph"),
    "a tensor": (numpy_helper.from_array(array(3), "input_0").SerializeToString(), "no ONNX model"),
    "an empty graph": (b"\x3a\x00", "neither nodes nor an opset"),
    "too few bytes": (_model(raw_data=bytes(79_996)), "'w0' has 79996 bytes of data, but .* need 80000"),
    "other dims": (_dims(1, 5000, 5), r"shape \[1, 5000, 5\] and type FLOAT need 100000"),
    "negative dims": (_dims(1, -5000, 4), r"has the shape \[1, -5000, 4\]"),
    "other type": (_model(data_type=TensorProto.INT4), "type INT4 need 10000"),
    "raw strings": (_model(data_type=TensorProto.STRING), "holds strings"),
    "no type": (_model(data_type=None), "elements of no type"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_files(tmp_path: Path, name: str) -> None:
    data, sentence = REFUSED[name]
    with pytest.raises(ModelError, match=sentence):
        load(written(tmp_path / "m.onnx", data))


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("absent.onnx", "no such file"),
        ("there/absent.onnx", "no such file"),
        (".", "is a folder"),
        ("a\0b", "can't be read"),
        ("pipe", "is no regular file"),
    ],
)
def test_refused_paths(tmp_path: Path, path: str, sentence: str) -> None:
    (tmp_path / "there").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelError, match=sentence):
        load(tmp_path / path)


def test_a_mark_in_the_input_is_refused(tmp_path: Path) -> None:
    model = chain([array(1, 5000, 4)])
    model.graph.initializer[0].external_data.add(key="onnx-fuser.payload", value="1")
    with pytest.raises(ModelError, match=r"'onnx-fuser\.payload', which is reserved"):
        load(written(tmp_path / "m.onnx", model.SerializeToString()))
    model.graph.initializer[0].ClearField("external_data")
    model.doc_string = "\n\x12onnx-fuser.payload"
    assert load(written(tmp_path / "m.onnx", model.SerializeToString())).materialize() == model


def test_a_model_in_memory_needs_its_external_data(tmp_path: Path) -> None:
    external(tmp_path)
    with pytest.raises(ModelError, match="'w0' is external data that were not loaded"):
        from_proto(onnx.load(tmp_path / "model.onnx", load_external_data=False))
    with pytest.raises(ModelError, match="it has no graph"):
        from_proto(ModelProto(ir_version=8))


def test_a_file_that_changed_is_not_read(tmp_path: Path) -> None:
    """Bytes at the old place in a new file would be somebody else's."""
    path = written(tmp_path / "m.onnx", everything().SerializeToString())
    stored = load(path)
    tensor = stored.proto.graph.initializer[0]
    path.write_bytes(b"other")
    for read in (stored.weights.read, lambda each: list(stored.weights.payload(each).chunks())):
        with pytest.raises(ModelError, match="changed after it was loaded; load the model again"):
            read(tensor)
    path.unlink()
    with pytest.raises(ModelError, match="can't be read any more"):
        stored.weights.read(tensor)


class TooLarge:
    """What protobuf does with a ModelProto of more than 2 GiB (which is not built here)."""

    def SerializeToString(self) -> bytes:  # noqa: N802
        raise EncodeError("Failed to serialize proto")


def test_more_than_2_gib_in_memory() -> None:
    with pytest.raises(ModelError, match=r"larger than 2 GiB; save it with onnx\.save"):
        from_proto(TooLarge())


def test_more_than_2_gib_of_typed_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "LIMIT", 60_000)
    path = written(tmp_path / "m.onnx", everything().SerializeToString())
    with pytest.raises(ModelError, match="typed data make the graph larger than 2 GiB; export them as raw"):
        load(path)
