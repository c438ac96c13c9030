"""What the bench puts into a rule: values for the inputs of `main`, and for float attributes of its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import AttributeProto, helper

from fuser.errors import PatternError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from onnx import NodeProto, ValueInfoProto

Array = np.ndarray[Any, np.dtype[Any]]

KINDS = ("normal", "ties", "sparse", "negative", "wide")
_SIZES = (1, 2, 3, 4, 5, 8)  # of a dimension with a name: broadcasting is special at 1


def values(
    file: Path, inputs: Iterable[ValueInfoProto], kind: str, random: np.random.Generator
) -> dict[str, Array]:
    """Draw one array per input; dimensions of one name get one size, drawn anew.

    Floating-point kinds: `normal`; `ties`, halves between -2 and 2, so that values meet each other and
    constants; `sparse`, half of it zeros; `negative`; `wide`, ten times normal, beyond most thresholds.
    """
    sizes: dict[str, int] = {}
    return {value.name: _array(file, value, kind, sizes, random) for value in inputs}


def _array(
    file: Path, value: ValueInfoProto, kind: str, sizes: dict[str, int], random: np.random.Generator
) -> Array:
    tensor = value.type.tensor_type
    if not tensor.elem_type or not tensor.HasField("shape"):
        raise PatternError(
            file,
            1,
            f"input {value.name} of main needs an element type and a shape; write `float[N, 3] {value.name}`",
        )
    shape = []
    for at, dim in enumerate(tensor.shape.dim):
        name = dim.dim_param or f"{value.name}.{at}"
        size = (
            dim.dim_value if dim.HasField("dim_value") else sizes.setdefault(name, int(random.choice(_SIZES)))
        )
        shape.append(size)
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return random.integers(0 if dtype.kind == "u" else -3, 4, shape).astype(dtype)
    normal = random.standard_normal(shape)
    if kind == "ties":
        normal = np.clip(np.round(normal * 2) / 2, -2, 2)
    elif kind == "sparse":
        normal = normal * random.integers(0, 2, shape)
    elif kind == "negative":
        normal = -np.abs(normal)
    elif kind == "wide":
        normal = normal * 10
    return np.asarray(normal).astype(dtype)


def float_attributes(call: NodeProto) -> dict[str, float]:
    """Return the attributes of a call that hold one float."""
    return {a.name: a.f for a in call.attribute if a.type == AttributeProto.FLOAT}


def variants(given: Mapping[str, float], random: np.random.Generator) -> Iterator[dict[str, float]]:
    """Yield values for float attributes, without end: near what is given, on both sides of 0 and of 1.

    Several attributes vary together, each in its own order, so that conditions between them fail too.
    """
    while given:
        columns = {name: random.permutation(_around(value, random)) for name, value in given.items()}
        for row in zip(*columns.values(), strict=True):
            # float32 is what an attribute holds
            yield {name: float(np.float32(value)) for name, value in zip(columns, row, strict=True)}


def _around(value: float, random: np.random.Generator) -> list[float]:
    scaled = value * 10 ** random.uniform(-1, 1)
    inside, beyond, far = random.uniform(0.05, 0.95), random.uniform(1.05, 1.5), random.uniform(2, 4)
    return [scaled, -value or -1.0, 0.0, inside, beyond, far]
