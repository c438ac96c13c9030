"""The user's own inputs: .npz, .npy, .pb, or a folder of input_N.pb as ONNX's test data has it."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, numpy_helper

from fuser.errors import ConfigError

if TYPE_CHECKING:
    from fuser.parity.source import Array, InputSpec


def read_inputs(
    given: str | Path | Mapping[str, Array], specs: Sequence[InputSpec]
) -> list[dict[str, Array]]:
    """One or more sets of arrays that fit the model's inputs. Raises ConfigError with what does not and the
    fix.

    A folder may be one test_data_set or hold several. Expected outputs in it are not read: A says what is
    right. Arrays are converted to the input's type within floats and within integers, where the values stay.
    """
    if isinstance(given, Mapping):
        return [_fit(dict(given), specs, "the inputs")]
    path = Path(given)
    if not path.exists():
        raise ConfigError(f"{path} does not exist: give a .npz, .npy or .pb file or a test_data_set folder")
    if path.is_dir():
        sets = sorted(folder for folder in path.glob("test_data_set_*") if folder.is_dir()) or [path]
        return [_fit(_folder(folder, specs), specs, str(folder)) for folder in sets]
    match path.suffix.lower():
        case ".npz":
            arrays = _npz(path)
        case ".npy":
            arrays = {_only(specs, path): _npy(path)}
        case ".pb":
            arrays = {_only(specs, path): _tensor(path)[1]}
        case _:
            raise ConfigError(
                f"{path} is none of .npz, .npy, .pb and a test_data_set folder: convert it to one"
            )
    return [_fit(arrays, specs, str(path))]


def _npz(path: Path) -> dict[str, Array]:
    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise ConfigError(f"{path} is a .npy file by another name: rename it")
        with file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ConfigError(
            f"{path} can't be read ({_line(error)}): write it with numpy.savez(file, NAME=array)"
        ) from None


def _npy(path: Path) -> Array:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ConfigError(
            f"{path} can't be read ({_line(error)}): write it with numpy.save(file, array)"
        ) from None
    if not isinstance(array, np.ndarray):
        raise ConfigError(f"{path} is a .npz file by another name: rename it")
    return array


def _tensor(path: Path) -> tuple[str, Array]:
    tensor = TensorProto()
    try:
        tensor.ParseFromString(path.read_bytes())
        return tensor.name, numpy_helper.to_array(tensor)
    except (OSError, ValueError, TypeError, DecodeError, onnx.checker.ValidationError) as error:
        raise ConfigError(
            f"{path} can't be read as a TensorProto ({_line(error)}): write it with onnx.numpy_helper"
        ) from None


def _folder(folder: Path, specs: Sequence[InputSpec]) -> dict[str, Array]:
    """input_N.pb goes to the input of its tensor's name, else to the Nth."""
    numbered = {}
    for path in folder.iterdir():
        found = re.fullmatch(r"input_(\d+)\.pb", path.name)
        if found:
            numbered[int(found[1])] = path
    if not numbered:
        raise ConfigError(f"{folder} holds no input_0.pb: give a test_data_set folder, or a .npz file")
    names = [spec.name for spec in specs]
    arrays = {}
    for number, path in sorted(numbered.items()):
        name, array = _tensor(path)
        if name not in names:
            if number >= len(names):
                raise ConfigError(f"{path} is one input too many: the model takes {_names(specs)}")
            name = names[number]
        arrays[name] = array
    return arrays


def _only(specs: Sequence[InputSpec], path: Path) -> str:
    if len(specs) != 1:
        raise ConfigError(
            f"{path} holds one array but the model takes {_names(specs)}: give a .npz file with all"
        )
    return specs[0].name


def _fit(arrays: dict[str, Array], specs: Sequence[InputSpec], where: str) -> dict[str, Array]:
    wanted = {spec.name: spec for spec in specs}
    missing = [name for name in wanted if name not in arrays]
    unknown = [name for name in arrays if name not in wanted]
    if missing or unknown:
        faults = [f"lacks {', '.join(missing)}"] if missing else []
        faults += [f"has {', '.join(unknown)}, which is no input"] if unknown else []
        raise ConfigError(f"{where} {' and '.join(faults)}: the model takes {_names(specs)}")
    return {name: _convert(np.asarray(arrays[name]), spec, where) for name, spec in wanted.items()}


def _convert(array: Array, spec: InputSpec, where: str) -> Array:
    dims, want = spec.dims, spec.dtype
    if dims is not None and (
        len(dims) != array.ndim
        or any(isinstance(d, int) and d != s for d, s in zip(dims, array.shape, strict=True))
    ):
        text = ", ".join("?" if d is None else str(d) for d in dims)
        raise ConfigError(
            f"{where}: {spec.name} has shape {list(array.shape)} but the model takes [{text}]: reshape it"
        )
    if array.dtype == want:
        return array
    if want.kind == "O" and array.dtype.kind in "SU":
        return array.astype(object)
    kinds = _kind(array.dtype), _kind(want)
    if kinds == ("float", "float"):
        return array.astype(want)
    if kinds == ("int", "int") and np.array_equal(array.astype(want), array):
        return array.astype(want)
    raise ConfigError(
        f"{where}: {spec.name} is {array.dtype.name} but the model takes {want.name}: convert it with "
        f"array.astype({want.name!r})"
    )


def _kind(dtype: np.dtype[Any]) -> str:
    if dtype.kind in "iu":
        return "int"
    return "float" if dtype.kind == "f" or "float" in dtype.name else dtype.name


def _names(specs: Sequence[InputSpec]) -> str:
    return ", ".join(f"{spec.name} ({spec.dtype.name})" for spec in specs) or "no input"


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
