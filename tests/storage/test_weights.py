"""Values of tensors, wherever their bytes are."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from fuser.errors import ModelError
from fuser.storage import Block, ByteRange, from_proto, load
from tests.storage.samples import array, chain, external

TYPES = {
    "float32": array(30, 31),
    "float64": array(30, 31, dtype=np.float64),
    "float16": array(30, 31, dtype=np.float16),
    "bfloat16": array(30, 31).astype(ml_dtypes.bfloat16),
    "float8": array(30, 31).astype(ml_dtypes.float8_e4m3fn),
    "int4": np.arange(-8, 7).astype(ml_dtypes.int4),
    "uint4": np.arange(16).astype(ml_dtypes.uint4).reshape(2, 8),
    "bool": array(30, 31) > 0,
    "int64": np.arange(-9, 9).reshape(3, 6),
    "uint16": np.arange(9, dtype=np.uint16),
    "complex64": (array(5) + 1j).astype(np.complex64),
    "scalar": np.array(3.5, np.float32),
    "empty": np.zeros((0, 3), np.float32),
    "string": np.array([["a", "ü"]], dtype=object),
}


def _holding(tensor: TensorProto) -> ModelProto:
    model = chain([])
    model.graph.output[0].name = "x"
    model.graph.initializer.append(tensor)
    return model


@pytest.mark.parametrize("threshold", [0, 1 << 20], ids=["on disk", "inline"])
@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_read_as_onnx_reads_it(tmp_path: Path, name: str, threshold: int) -> None:
    (tmp_path / "m.onnx").write_bytes(_holding(numpy_helper.from_array(TYPES[name], "w")).SerializeToString())
    stored = load(tmp_path / "m.onnx", threshold)
    tensor = stored.proto.graph.initializer[0]
    values = stored.weights.read(tensor)
    assert (stored.weights.payload(tensor) is None) == (threshold > 0 or name == "string")
    assert values.dtype == TYPES[name].dtype
    assert values.shape == TYPES[name].shape
    assert values.tobytes() == TYPES[name].tobytes() or (values == TYPES[name]).all()


def test_plain_types_are_not_copied(tmp_path: Path) -> None:
    """The array is a read-only view of the mapped file."""
    (tmp_path / "m.onnx").write_bytes(
        _holding(numpy_helper.from_array(array(99, 99), "w")).SerializeToString()
    )
    stored = load(tmp_path / "m.onnx")
    values = stored.weights.read(stored.proto.graph.initializer[0])
    assert not values.flags.writeable
    assert not values.flags.owndata


def test_an_attached_payload_replaces_the_bytes() -> None:
    stored = from_proto(chain([array(1, 5, 4), array(1, 5000, 4)]))
    for tensor in stored.proto.graph.initializer:
        new = array(*tensor.dims, seed=9)
        stored.weights.attach(tensor, Block(new))
        assert np.array_equal(stored.weights.read(tensor), new)
        assert not stored.weights.is_external(tensor)
        assert not tensor.HasField("raw_data")
        stored.weights.attach(tensor, Block(array(*tensor.dims)))
        assert len(tensor.external_data) == 1


def test_a_payload_of_another_size_is_refused() -> None:
    stored = from_proto(chain([array(1, 5, 4)]))
    with pytest.raises(ValueError, match="'w0' needs 80 bytes, the payload has 79"):
        stored.weights.attach(stored.proto.graph.initializer[0], Block(bytes(79)))


def test_an_external_tensor_can_be_put_inline(tmp_path: Path) -> None:
    model = external(tmp_path)
    stored = load(tmp_path / "model.onnx")
    tensor = stored.proto.graph.initializer[1]
    assert stored.weights.is_external(tensor)
    stored.weights.detach(tensor)
    tensor.raw_data = model.graph.initializer[1].raw_data
    assert not stored.weights.is_external(tensor)
    assert tensor == model.graph.initializer[1]


@pytest.mark.parametrize(
    ("tensor", "sentence"),
    [
        (TensorProto(name="w", data_type=1, dims=[3], raw_data=bytes(8)), "has 8 bytes of data"),
        (TensorProto(name="w", data_type=1, dims=[3], float_data=[1.0]), "can't be read"),
        (TensorProto(name="w", data_type=1, dims=[3], data_location=1), "without a location"),
        (TensorProto(dims=[3], float_data=[1.0]), "an unnamed tensor of shape .* can't be read"),
        (TensorProto(name="w", data_type=99, dims=[3], raw_data=bytes(12)), "can't be read"),
        (TensorProto(name="w", data_type=99, dims=[3], raw_data=bytes(20_000)), "upgrade onnx"),
        (helper.make_tensor("w", TensorProto.STRING, [2], [b"\xff", b"a"]), "can't be read"),
    ],
)
def test_tensors_that_contradict_themselves(tensor: TensorProto, sentence: str) -> None:
    stored = from_proto(_holding(tensor))
    with pytest.raises(ModelError, match=sentence):
        stored.weights.read(stored.proto.graph.initializer[0])


def test_a_segment_is_left_alone_and_not_read() -> None:
    tensor = TensorProto(name="w", data_type=1, dims=[9000], raw_data=bytes(20000))
    tensor.segment.end = 20000
    model = _holding(tensor)
    stored = from_proto(model)
    assert stored.proto == model
    with pytest.raises(ModelError, match="is a segment"):
        stored.weights.read(stored.proto.graph.initializer[0])


def test_a_range_that_the_file_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(bytes(10))
    with pytest.raises(ModelError, match="ends 5 bytes too early"):
        list(ByteRange(tmp_path / "w", 5, 10).chunks())
