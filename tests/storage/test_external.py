"""External data: read from every layout, written back in it, never over somebody else's file."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto

from fuser.errors import ModelError
from fuser.storage import Block, ByteRange, Weights, load, save, tensors
from tests.storage.samples import array, chain, external, listing, loaded, run

LAYOUTS = {
    "one file": {},
    "one file per tensor": {"location": "w{}.bin"},
    "in a folder": {"location": "weights/w{}"},
    "pages": {"align": 4096},
    "64 KiB": {"align": 65536},
    "no offset": {"location": "w{}.bin", "keys": ("length",)},
    "no length": {"location": "w{}.bin", "keys": ("offset",)},
    "location only": {"location": "w{}.bin", "keys": ()},
    "unknown keys": {"extra": (("basepath", "old"), ("x-vendor", "kept"))},
    "checksum": {"extra": (("checksum", "0123"),)},
    "small": {"count": 1},
}


def entries(tensor: TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def stored_form(path: Path) -> ModelProto:
    return ModelProto.FromString(path.read_bytes())


def change(path: Path, index: int) -> tuple[object, np.ndarray]:
    """A loaded model with new values for one weight."""
    stored = load(path)
    tensor = stored.proto.graph.initializer[index]
    new = array(*tensor.dims, seed=77)
    stored.weights.attach(tensor, Block(new))
    return stored, new


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_read(tmp_path: Path, layout: str) -> None:
    model = external(tmp_path, **LAYOUTS[layout])
    stored = load(tmp_path / "model.onnx")
    assert stored.materialize() == model
    assert all(stored.weights.is_external(tensor) for tensor in stored.proto.graph.initializer)
    assert all(isinstance(stored.weights.payload(t), ByteRange) for t in stored.proto.graph.initializer)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_untouched_files_come_out_as_they_went_in(tmp_path: Path, layout: str) -> None:
    """Byte for byte, the gaps and the checksum of a data file included."""
    external(tmp_path / "in", **LAYOUTS[layout])
    (tmp_path / "out").mkdir()
    save(load(tmp_path / "in" / "model.onnx"), tmp_path / "out" / "model.onnx")
    assert listing(tmp_path / "out") == listing(tmp_path / "in")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_changed_weight_stays_external(tmp_path: Path, layout: str) -> None:
    external(tmp_path / "in", **LAYOUTS[layout])
    (tmp_path / "out").mkdir()
    stored, _ = change(tmp_path / "in" / "model.onnx", 0)
    expected = stored.materialize()
    save(stored, tmp_path / "out" / "model.onnx")
    assert load(tmp_path / "out" / "model.onnx").materialize() == expected
    assert listing(tmp_path / "out").keys() == listing(tmp_path / "in").keys()
    if layout != "unknown keys":  # onnx warns of them
        assert loaded(tmp_path / "out" / "model.onnx") == expected
    before, after = stored_form(tmp_path / "in" / "model.onnx"), stored_form(tmp_path / "out" / "model.onnx")
    for old, now in zip(before.graph.initializer, after.graph.initializer, strict=True):
        assert now.data_location == TensorProto.EXTERNAL
        assert entries(now).get("x-vendor") == entries(old).get("x-vendor")
    assert "checksum" not in entries(after.graph.initializer[0])
    if layout != "unknown keys":  # onnxruntime refuses them
        assert np.allclose(run(tmp_path / "out" / "model.onnx"), np.array([1, 2]) + sum_of(expected))


def sum_of(model: ModelProto) -> float:
    return float(sum(onnx.numpy_helper.to_array(each).sum() for each in model.graph.initializer))


@pytest.mark.parametrize("align", [1, 16, 4096, 65536])
def test_alignment_is_kept_when_tensors_go(tmp_path: Path, align: int) -> None:
    """Offsets move up, at multiples of what all offsets had in common."""
    external(tmp_path / "in", count=5, align=align)
    (tmp_path / "out").mkdir()
    stored = load(tmp_path / "in" / "model.onnx")
    for name in ("w1", "w3"):
        tensor = next(each for each in stored.proto.graph.initializer if each.name == name)
        small = Block(array(1, 1, 1))
        tensor.dims[:] = [1, 1, 1]
        stored.weights.attach(tensor, small)
    save(stored, tmp_path / "out" / "model.onnx")
    after = load(tmp_path / "out" / "model.onnx")
    assert after.materialize() == stored.materialize()
    ranges = [after.weights.payload(tensor) for tensor in after.proto.graph.initializer]
    assert all(each.offset % align == 0 for each in ranges)
    for one, next_one in pairwise(ranges):
        assert 0 <= next_one.offset - one.offset - one.nbytes < max(align, 16)


def test_large_and_small_tensors_have_alignments_of_their_own(tmp_path: Path) -> None:
    """As exporters write them: large ones on pages, small ones packed."""
    weights = [array(1, 3, 1), array(1, 70_000, 4), array(1, 3, 1), array(1, 70_000, 5)]
    model, data, offsets = chain(weights), bytearray(), []
    for tensor in model.graph.initializer:
        data += bytes(-len(data) % 4096) if len(tensor.raw_data) > 1 << 20 else b""
        offsets.append(len(data))
        data += tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (
            ("location", "d"),
            ("offset", str(offsets[-1])),
            ("length", str(len(data) - offsets[-1])),
        ):
            tensor.external_data.add(key=key, value=value)
    (tmp_path / "d").write_bytes(data)
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    stored, _ = change(tmp_path / "in.onnx", 0)
    save(stored, tmp_path / "out.onnx")
    after = load(tmp_path / "out.onnx")
    assert [after.weights.payload(tensor).offset for tensor in after.proto.graph.initializer] == offsets


def test_tensors_that_share_bytes_go_on_sharing_them(tmp_path: Path) -> None:
    external(tmp_path / "in")
    model = stored_form(tmp_path / "in" / "model.onnx")
    tied = model.graph.initializer.add()
    tied.CopyFrom(model.graph.initializer[1])
    tied.name = "tied"
    (tmp_path / "in" / "model.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "out").mkdir()
    stored, _ = change(tmp_path / "in" / "model.onnx", 0)
    save(stored, tmp_path / "out" / "model.onnx")
    after = load(tmp_path / "out" / "model.onnx")
    assert after.materialize() == stored.materialize()
    assert (tmp_path / "out" / "model.data").stat().st_size == (tmp_path / "in" / "model.data").stat().st_size


def test_a_data_file_shared_with_others_is_not_copied_whole(tmp_path: Path) -> None:
    external(tmp_path / "in")
    with (tmp_path / "in" / "model.data").open("ab") as file:
        file.write(bytes(1 << 20))
    (tmp_path / "out").mkdir()
    save(load(tmp_path / "in" / "model.onnx"), tmp_path / "out" / "model.onnx")
    assert (tmp_path / "out" / "model.data").stat().st_size < 10_000


def test_weights_that_are_gone_take_no_space(tmp_path: Path) -> None:
    external(tmp_path / "in")
    (tmp_path / "out").mkdir()
    stored = load(tmp_path / "in" / "model.onnx")
    del stored.proto.graph.initializer[0]
    save(stored, tmp_path / "out" / "model.onnx")
    sizes = [(tmp_path / name / "model.data").stat().st_size for name in ("in", "out")]
    assert sizes[0] - sizes[1] == 1600
    assert load(tmp_path / "out" / "model.onnx").materialize() == stored.materialize()


def test_new_external_tensors(tmp_path: Path) -> None:
    """A copy of an external tensor with other bytes, in its file and in one of its own."""
    external(tmp_path / "in")
    (tmp_path / "out").mkdir()
    stored = load(tmp_path / "in" / "model.onnx")
    for name, location in (("copy", "model.data"), ("other", "other.data")):
        tensor = stored.proto.graph.initializer.add()
        tensor.CopyFrom(stored.proto.graph.initializer[0])
        tensor.name = name
        tensor.external_data[0].value = location
        stored.weights.attach(tensor, Block(array(*tensor.dims, seed=5)))
    result = save(stored, tmp_path / "out" / "model.onnx")
    assert [path.name for path in result.data_paths] == ["model.data", "other.data"]
    assert load(tmp_path / "out" / "model.onnx").materialize() == stored.materialize()


def test_one_file_by_two_spellings_of_its_name(tmp_path: Path) -> None:
    """Each gets a file of its own in the output: none overwrites the other."""
    external(tmp_path / "in", count=2)
    model = stored_form(tmp_path / "in" / "model.onnx")
    model.graph.initializer[1].external_data[0].value = "./model.data"
    (tmp_path / "in" / "model.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "out").mkdir()
    stored, _ = change(tmp_path / "in" / "model.onnx", 0)
    save(stored, tmp_path / "out" / "model.onnx")
    assert load(tmp_path / "out" / "model.onnx").materialize() == stored.materialize()


def test_raw_data_in_an_external_tensor_do_not_count(tmp_path: Path) -> None:
    """A tensor that has both is read from its file, as onnx reads it."""
    model = external(tmp_path, count=1)
    both = stored_form(tmp_path / "model.onnx")
    both.graph.initializer[0].raw_data = bytes(20_000)
    (tmp_path / "model.onnx").write_bytes(both.SerializeToString())
    assert load(tmp_path / "model.onnx").materialize() == model


def test_external_tensors_are_found_everywhere(tmp_path: Path) -> None:
    """In attributes, subgraphs, functions, sparse tensors and training information too."""
    external(tmp_path, count=1)
    model = stored_form(tmp_path / "model.onnx")
    tensor = model.graph.initializer[0]
    node = model.graph.node.add(op_type="Constant", output=["c"])
    node.attribute.add(name="value", type=4).t.CopyFrom(tensor)
    node.attribute.add(name="list", type=9).tensors.append(tensor)
    node.attribute.add(name="body", type=5).g.initializer.append(tensor)
    node.attribute.add(name="sparse", type=11).sparse_tensor.values.CopyFrom(tensor)
    model.functions.add(name="f").node.append(node)
    model.training_info.add().initialization.initializer.append(tensor)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "out").mkdir()
    stored = load(tmp_path / "model.onnx")
    found = [each for each in tensors(stored.proto) if each.HasField("data_location")]
    assert len(found) == 10
    assert all(stored.weights.payload(each).nbytes == 1600 for each in found)
    save(stored, tmp_path / "out" / "model.onnx")
    assert stored_form(tmp_path / "out" / "model.onnx") == model


def test_an_unused_location_entry_is_left_alone(tmp_path: Path) -> None:
    """Without data_location a tensor is not external, whatever its entries say."""
    model = chain([array(1, 5, 4)])
    model.graph.initializer[0].external_data.add(key="location", value="absent")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    save(load(tmp_path / "m.onnx"), tmp_path / "out.onnx")
    assert stored_form(tmp_path / "out.onnx") == model


# ---- names ----


def locations(path: Path) -> set[str]:
    return {entries(tensor)["location"] for tensor in stored_form(path).graph.initializer}


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("one file", {"out.onnx.data"}),
        ("one file per tensor", {"out.onnx.w0.bin", "out.onnx.w1.bin", "out.onnx.w2.bin"}),
        ("in a folder", {"weights/out.onnx.w0", "weights/out.onnx.w1", "weights/out.onnx.w2"}),
    ],
)
@pytest.mark.parametrize("changed", [False, True])
def test_beside_the_input_data_files_get_names_of_the_output(
    tmp_path: Path, layout: str, expected: set[str], changed: bool
) -> None:
    """The input and its data stay as they are; and writing again gives the same files."""
    external(tmp_path, **LAYOUTS[layout])
    before = listing(tmp_path)
    stored = change(tmp_path / "model.onnx", 1)[0] if changed else load(tmp_path / "model.onnx")
    result = save(stored, tmp_path / "out.onnx")
    assert locations(tmp_path / "out.onnx") == expected
    assert {str(path.relative_to(tmp_path)) for path in result.data_paths} == expected
    after = listing(tmp_path)
    assert {name: after[name] for name in before} == before
    assert load(tmp_path / "out.onnx").materialize() == stored.materialize()
    save(stored, tmp_path / "out.onnx")
    assert listing(tmp_path) == after


def test_a_file_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    external(tmp_path / "in")
    (tmp_path / "out").mkdir()
    for name in ("model.data", "model.onnx.data"):
        (tmp_path / "out" / name).write_bytes(b"somebody else's")
    save(load(tmp_path / "in" / "model.onnx"), tmp_path / "out" / "model.onnx")
    assert locations(tmp_path / "out" / "model.onnx") == {"model.onnx.2.data"}
    assert (tmp_path / "out" / "model.data").read_bytes() == b"somebody else's"


def test_the_data_of_the_output_before_are_overwritten(tmp_path: Path) -> None:
    external(tmp_path / "in")
    external(tmp_path / "out", count=7)
    stored = load(tmp_path / "in" / "model.onnx")
    save(stored, tmp_path / "out" / "model.onnx")
    assert listing(tmp_path / "out") == listing(tmp_path / "in")


def test_data_that_the_input_shares_with_the_output_are_not_overwritten(tmp_path: Path) -> None:
    """Two models in a folder with one data file: writing over the second must not change the first."""
    external(tmp_path)
    (tmp_path / "second.onnx").write_bytes((tmp_path / "model.onnx").read_bytes())
    before = listing(tmp_path)
    stored, _ = change(tmp_path / "model.onnx", 0)
    save(stored, tmp_path / "second.onnx")
    assert locations(tmp_path / "second.onnx") == {"second.onnx.data"}
    after = listing(tmp_path)
    assert (after["model.onnx"], after["model.data"]) == (before["model.onnx"], before["model.data"])


def test_force_replaces_the_data_of_the_input_too(tmp_path: Path) -> None:
    external(tmp_path)
    stored, _ = change(tmp_path / "model.onnx", 2)
    expected = stored.materialize()
    save(stored, tmp_path / "model.onnx", force=True)
    assert sorted(listing(tmp_path)) == ["model.data", "model.onnx"]
    assert loaded(tmp_path / "model.onnx") == expected


# ---- refusals ----


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("location", "absent.data", "is missing; copy it beside model.onnx"),
        ("location", "", "no file name"),
        ("location", "../outside", "outside of the model's folder"),
        ("location", "inside/../../outside", "outside of the model's folder"),
        ("location", "/etc/passwd", "outside of the model's folder"),
        ("location", "C:\\weights", "outside of the model's folder"),
        ("location", "..\\outside", "outside of the model's folder"),
        ("location", "link", "links to .*outside, outside of the model's folder; copy the file itself"),
        ("location", "linked/outside", "links to .*outside, outside of the model's folder"),
        ("location", "inside", "is a folder"),
        ("location", "a\0b", "can't be read"),
        ("offset", "1000000", "needs the bytes 1000000 to 1001600 of model.data, which has only"),
        ("offset", "-4", "offset '-4', which is no number of bytes"),
        ("offset", "4.0", "no number of bytes"),
        ("length", "99999999", "cut short or belongs to another export"),
        ("length", "1596", "has 1596 bytes of data, but its shape"),
        ("length", "²", "no number of bytes"),
    ],
)
def test_refused_external_data(tmp_path: Path, key: str, value: str, sentence: str) -> None:
    folder = tmp_path / "model"
    external(folder)
    (tmp_path / "outside").write_bytes(bytes(99999))
    (folder / "inside").mkdir()
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "linked").symlink_to(tmp_path)
    model = stored_form(folder / "model.onnx")
    for entry in model.graph.initializer[0].external_data:
        if entry.key == key:
            entry.value = value
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=sentence):
        load(folder / "model.onnx")


def test_external_strings_are_refused(tmp_path: Path) -> None:
    external(tmp_path)
    model = stored_form(tmp_path / "model.onnx")
    model.graph.initializer[0].data_type = TensorProto.STRING
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="holds strings, which raw or external data can't"):
        load(tmp_path / "model.onnx")


def test_a_data_file_that_ends_early_is_refused(tmp_path: Path) -> None:
    external(tmp_path, keys=("offset",))
    os.truncate(tmp_path / "model.data", 4000)
    with pytest.raises(
        ModelError, match=r"'w2' needs the bytes 3216 to 4848 of model.data, which has only 4000"
    ):
        load(tmp_path / "model.onnx")


def test_links_within_the_folder_and_of_the_whole_model_are_followed(tmp_path: Path) -> None:
    """Download caches keep models and their data as links to files beside each other."""
    model = external(tmp_path / "blobs", name="a", location="b")
    stored = stored_form(tmp_path / "blobs" / "a")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "model.onnx").symlink_to(tmp_path / "blobs" / "a")
    (tmp_path / "cache" / "b").symlink_to(tmp_path / "blobs" / "b")
    assert load(tmp_path / "cache" / "model.onnx").materialize() == model
    (tmp_path / "blobs" / "inner").symlink_to("b")
    for tensor in stored.graph.initializer:
        tensor.external_data[0].value = "inner"
    (tmp_path / "blobs" / "a").write_bytes(stored.SerializeToString())
    assert load(tmp_path / "blobs" / "a").materialize() == model


def test_a_detached_tensor_is_written_inline(tmp_path: Path) -> None:
    model = external(tmp_path)
    stored = load(tmp_path / "model.onnx")
    for tensor, old in zip(stored.proto.graph.initializer, model.graph.initializer, strict=True):
        Weights.detach(stored.weights, tensor)
        tensor.raw_data = old.raw_data
    assert not save(stored, tmp_path / "out.onnx").data_paths
    assert stored_form(tmp_path / "out.onnx") == model
