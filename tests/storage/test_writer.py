"""Writing models: nothing is lost, changed weights arrive, refused outputs stay untouched."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import ModelProto, numpy_helper

from fuser.errors import ModelError, OutputError
from fuser.storage import from_proto, load, save, tensors, writer
from tests.storage.samples import array, chain, everything, external, listing, loaded, models, run

IN_TMP_PATH = settings(
    max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@dataclass(frozen=True)
class Deferred:
    """A payload that is computed while it is written."""

    values: np.ndarray

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def chunks(self) -> Iterator[bytes]:
        for part in np.array_split(self.values.ravel(), 7):
            yield part.tobytes()


@given(models(), st.integers(0, 40))
@IN_TMP_PATH
def test_random_models_survive(tmp_path: Path, model: ModelProto, threshold: int) -> None:
    """Field for field, whatever stayed on disk, and whether it came from a file or from memory."""
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    save(load(tmp_path / "in.onnx", threshold), tmp_path / "out.onnx")
    assert ModelProto.FromString((tmp_path / "out.onnx").read_bytes()) == model
    save(from_proto(model), tmp_path / "copy.onnx")
    assert ModelProto.FromString((tmp_path / "copy.onnx").read_bytes()) == model


def test_every_kind_of_field_survives(tmp_path: Path) -> None:
    model = everything()
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    save(load(tmp_path / "in.onnx"), tmp_path / "out.onnx")
    assert ModelProto.FromString((tmp_path / "out.onnx").read_bytes()) == model
    assert sorted(listing(tmp_path)) == ["in.onnx", "out.onnx"]


@given(models(), st.data())
@IN_TMP_PATH
def test_changed_weights_arrive(tmp_path: Path, model: ModelProto, data: st.DataObject) -> None:
    """Any tensors get payloads, others are copied about: the file holds what ``materialize`` says."""
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    stored = load(tmp_path / "in.onnx", data.draw(st.integers(0, 40)))
    for tensor in list(tensors(stored.proto)):
        if tensor.data_type not in (0, 8) and data.draw(st.booleans()):
            tensor.dims[:], tensor.data_type = [3], 3
            stored.weights.attach(tensor, Deferred(np.arange(3, dtype=np.int8)))
        elif data.draw(st.booleans()):
            stored.proto.graph.initializer.add().CopyFrom(tensor)
    save(stored, tmp_path / "out.onnx")
    assert ModelProto.FromString((tmp_path / "out.onnx").read_bytes()) == stored.materialize()


def test_a_deferred_weight_runs(tmp_path: Path) -> None:
    """onnxruntime computes with the new weight."""
    stored = from_proto(chain([array(1, 5000, 4), array(1, 5, 4)]))
    new = np.full((1, 5000, 4), 0.5, np.float32)
    stored.weights.attach(stored.proto.graph.initializer[0], Deferred(new))
    save(stored, tmp_path / "out.onnx")
    expected = np.array([1.0, 2.0]) + new.sum() + array(1, 5, 4).sum()
    assert np.allclose(run(tmp_path / "out.onnx"), expected)


def test_the_result_says_what_was_written(tmp_path: Path) -> None:
    external(tmp_path)
    (tmp_path / "out").mkdir()
    stored = load(tmp_path / "model.onnx")
    result = save(stored, str(tmp_path / "out" / "model.onnx"))
    model, data = tmp_path / "out" / "model.onnx", tmp_path / "out" / "model.data"
    assert (result.path, result.data_paths) == (model, (data,))
    assert result.nbytes == model.stat().st_size + data.stat().st_size
    assert (
        result.sha256 == hashlib.sha256(model.read_bytes()).hexdigest() == load(model).sha256 == stored.sha256
    )
    assert stored.data_sha256 == {"model.data": hashlib.sha256(data.read_bytes()).hexdigest()}


def test_a_model_can_be_saved_twice(tmp_path: Path) -> None:
    stored = from_proto(everything())
    assert save(stored, tmp_path / "a.onnx").sha256 == save(stored, tmp_path / "b.onnx").sha256


def test_an_output_is_overwritten_and_keeps_its_permissions(tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    out.write_bytes(b"old")
    out.chmod(0o640)
    save(from_proto(chain([])), out)
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
    assert load(out).materialize() == chain([])


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    save(from_proto(chain([])), tmp_path / "out.onnx")
    (tmp_path / "other").write_bytes(b"")
    assert (tmp_path / "out.onnx").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "m.onnx").write_bytes(b"old")
    (tmp_path / "out.onnx").symlink_to(tmp_path / "real" / "m.onnx")
    save(from_proto(chain([])), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").is_symlink()
    assert load(tmp_path / "real" / "m.onnx").materialize() == chain([])


@pytest.mark.parametrize("kind", ["itself", "link", "hard link", "relative"])
def test_the_input_is_replaced_only_by_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """However the output names the input; its weights survive until the new file is whole."""
    model = everything()
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    out = tmp_path / "out.onnx"
    if kind == "link":
        out.symlink_to(path)
    elif kind == "hard link":
        out.hardlink_to(path)
    elif kind == "relative":
        monkeypatch.chdir(tmp_path)
        out = Path("m.onnx")
    else:
        out = path
    stored = load(path)
    before = listing(tmp_path)
    with pytest.raises(OutputError, match="is the input; choose another output path, or force"):
        save(stored, out)
    assert listing(tmp_path) == before
    stored.proto.doc_string = "new"
    save(stored, out, force=True)
    model.doc_string = "new"
    assert ModelProto.FromString(out.read_bytes()) == model
    if kind == "itself":
        with pytest.raises(ModelError, match="load the model again"):
            stored.materialize()


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("folder", "is a folder; add a file name"),
        ("absent/out.onnx", "the folder .*absent does not exist; create it"),
        ("file/out.onnx", "the folder .*file does not exist"),
        ("pipe", "is no regular file"),
        ("n" * 300, "choose a shorter name"),
        ("a\0b", "is no file name"),
        ("model.data", "holds weights of the input"),
    ],
)
def test_refused_outputs(tmp_path: Path, out: str, sentence: str) -> None:
    external(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    stored = load(tmp_path / "model.onnx")
    before = listing(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match=sentence):
        save(stored, tmp_path / out, force=True)
    assert listing(tmp_path) == before


def test_a_folder_that_can_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(OutputError, match=r"Permission denied.*; choose a folder that can be written"):
        save(from_proto(chain([])), tmp_path / "out.onnx")


def test_weights_that_do_not_fit_go_to_a_data_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Near protobuf's limit the large tensors become external, and the model still computes the same."""
    model = chain([array(1, 70_000, 4, seed=1), array(1, 5000, 4, seed=2), array(1, 5, 4, seed=3)])
    model.graph.node.add(op_type="Constant", output=["c"]).attribute.add(name="value", type=4)
    model.graph.node[-1].attribute[0].t.CopyFrom(numpy_helper.from_array(array(1, 300_000, seed=4)))
    model.graph.node.add(op_type="ReduceSum", input=["c"], output=["r"]).attribute.add(
        name="keepdims", type=2
    )
    model.graph.node.add(op_type="Add", input=["y2", "r"], output=["z"])
    model.graph.output[0].name = "z"
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    monkeypatch.setattr(writer, "LIMIT", model.ByteSize() - 1)
    result = save(load(tmp_path / "in.onnx"), tmp_path / "out.onnx")
    assert result.data_paths == (tmp_path / "out.onnx.data",)
    assert result.path.stat().st_size < 3000
    assert loaded(tmp_path / "out.onnx") == loaded(tmp_path / "in.onnx")
    assert np.allclose(run(tmp_path / "in.onnx"), run(tmp_path / "out.onnx"))
    stored = load(tmp_path / "out.onnx")
    offsets = [
        stored.weights.payload(each).offset for each in tensors(stored.proto) if stored.weights.payload(each)
    ]
    assert [offset % alignment for offset, alignment in zip(offsets, (65536, 64, 65536), strict=True)] == [
        0,
        0,
        0,
    ]
    monkeypatch.setattr(writer, "LIMIT", model.ByteSize() + 1000)
    assert not save(load(tmp_path / "in.onnx"), tmp_path / "whole.onnx").data_paths


def test_onnx_reads_what_was_written(tmp_path: Path) -> None:
    model = everything()
    save(from_proto(model), tmp_path / "out.onnx")
    assert onnx.load(tmp_path / "out.onnx") == model
