"""The user's own inputs, and what is wrong with them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, numpy_helper, parser

from fuser.errors import ConfigError
from fuser.parity import check_parity
from fuser.parity.inputs import read_inputs
from fuser.parity.source import InputSpec

X = InputSpec("x", TensorProto.FLOAT, ("N", 3))
I = InputSpec("i", TensorProto.INT64, (2,))  # noqa: E741
VALUES = np.float32([[1, 2, 3], [4, 5, 6]])
INDICES = np.int64([0, 1])


def pb(path, array, name="") -> None:
    path.write_bytes(numpy_helper.from_array(array, name).SerializeToString())


def test_an_npz_gives_each_input_its_array(tmp_path):
    """By name, in the model's order."""
    np.savez(tmp_path / "in.npz", i=INDICES, x=VALUES)
    (found,) = read_inputs(tmp_path / "in.npz", [X, I])
    assert list(found) == ["x", "i"]
    np.testing.assert_array_equal(found["x"], VALUES)


def test_one_array_is_enough_for_one_input(tmp_path):
    """As .npy or as .pb."""
    np.save(tmp_path / "in.npy", VALUES)
    pb(tmp_path / "in.pb", VALUES)
    for name in ("in.npy", "in.pb"):
        (found,) = read_inputs(tmp_path / name, [X])
        np.testing.assert_array_equal(found["x"], VALUES)


def test_a_test_data_set_goes_by_name_then_by_number(tmp_path):
    """Expected outputs are left alone: A says what is right."""
    pb(tmp_path / "input_0.pb", VALUES)
    pb(tmp_path / "input_1.pb", INDICES)
    pb(tmp_path / "output_0.pb", VALUES)
    (found,) = read_inputs(tmp_path, [X, I])
    assert found["i"].tolist() == [0, 1]
    pb(tmp_path / "input_0.pb", INDICES, "i")
    pb(tmp_path / "input_1.pb", VALUES, "x")
    (found,) = read_inputs(str(tmp_path), [X, I])
    assert found["i"].tolist() == [0, 1]


def test_a_folder_of_test_data_sets_gives_several(tmp_path):
    """In their order."""
    for number in (1, 0):
        (tmp_path / f"test_data_set_{number}").mkdir()
        pb(tmp_path / f"test_data_set_{number}" / "input_0.pb", VALUES + np.float32(number))
    assert [found["x"][0, 0] for found in read_inputs(tmp_path, [X])] == [1, 2]


@pytest.mark.parametrize(
    ("array", "spec", "word"),
    [
        (VALUES.astype(np.float64), X, None),
        (VALUES.astype(np.float16), X, None),
        (INDICES.astype(np.int32), I, None),
        (np.array(["a", "b"]), InputSpec("i", TensorProto.STRING, (2,)), None),
        (VALUES, InputSpec("x", TensorProto.BFLOAT16, None), None),
        (INDICES.astype(np.float32), I, r"i is float32 but the model takes int64: .*astype\('int64'\)"),
        (np.int64([[300, 1, 2]]), InputSpec("x", TensorProto.UINT8, ("N", 3)), "x is int64"),
        (VALUES.astype(np.int32), X, "x is int32 but the model takes float32"),
        (VALUES[:, :2], X, r"shape \[2, 2\] but the model takes \[N, 3\]"),
        (VALUES[0], X, r"shape \[3\]"),
    ],
)
def test_arrays_are_converted_where_values_stay(array, spec, word):
    """Between floats, and between integers that hold them; else the fix is told."""
    if word:
        with pytest.raises(ConfigError, match=word):
            read_inputs({spec.name: array}, [spec])
    else:
        (found,) = read_inputs({spec.name: array}, [spec])
        assert found[spec.name].dtype == spec.dtype
        assert found[spec.name].tolist() == array.tolist()


def write_text(folder):
    (folder / "in.npz").write_text("hello")
    return folder / "in.npz"


def write_pickle(folder):
    np.save(folder / "in.npy", np.array([{}], dtype=object), allow_pickle=True)
    return folder / "in.npy"


def write_bad_pb(folder):
    (folder / "in.pb").write_bytes(b"\xff\xff\xff")
    return folder / "in.pb"


def write_short_pb(folder):
    short = TensorProto(data_type=1, dims=[4], raw_data=b"abcd")
    (folder / "in.pb").write_bytes(short.SerializeToString())
    return folder / "in.pb"


def write_renamed(folder):
    np.save(folder / "in.npy", VALUES)
    return (folder / "in.npy").rename(folder / "in.npz")


def write_other_renamed(folder):
    np.savez(folder / "in.npz", x=VALUES)
    return (folder / "in.npz").rename(folder / "in.npy")


def write_too_many(folder):
    pb(folder / "input_0.pb", VALUES)
    pb(folder / "input_1.pb", VALUES)
    return folder


def write_missing(folder):
    np.savez(folder / "in.npz", z=VALUES)
    return folder / "in.npz"


BAD = {
    write_text: "can't be read .*numpy.savez",
    write_pickle: "can't be read .*numpy.save",
    write_bad_pb: "can't be read as a TensorProto",
    write_short_pb: "can't be read as a TensorProto",
    write_renamed: "is a .npy file by another name",
    write_other_renamed: "is a .npz file by another name",
    write_too_many: r"input_1.pb is one input too many: the model takes x \(float32\)",
    write_missing: "lacks x and has z, which is no input: the model takes x",
    (lambda folder: folder): "holds no input_0.pb",
    (lambda folder: folder / "none.npz"): "does not exist",
    (lambda folder: (folder / "in.txt").touch() or folder / "in.txt"): "none of .npz, .npy, .pb",
}


@pytest.mark.parametrize("write", BAD)
def test_a_bad_file_is_refused_with_the_fix(tmp_path, write):
    """No traceback, and no pickle is ever loaded."""
    with pytest.raises(ConfigError, match=BAD[write]):
        read_inputs(write(tmp_path), [X])


def test_one_array_is_not_enough_for_two_inputs(tmp_path):
    """The fix is a .npz."""
    np.save(tmp_path / "in.npy", VALUES)
    with pytest.raises(ConfigError, match=r"takes x \(float32\), i \(int64\): give a .npz"):
        read_inputs(tmp_path / "in.npy", [X, I])


def relu(operator: str) -> ModelProto:
    return parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[N, 3] x) => (float[N, 3] y) {{ y = {operator}(x) }}"""
    )


def test_the_check_runs_on_the_given_inputs_only(tmp_path):
    """Relu and Abs agree on positive values, which is all it was given."""
    np.savez(tmp_path / "in.npz", x=VALUES)
    found = check_parity(relu("Relu"), relu("Abs"), inputs=tmp_path / "in.npz")
    assert (found.verdict, [draw.kind for draw in found.draws]) == ("passed", ["given"])
    assert check_parity(relu("Relu"), relu("Abs"), inputs={"x": -VALUES}).verdict == "failed"
    assert check_parity(relu("Relu"), relu("Abs")).verdict == "failed"
