"""Constants: what a value holds when it is the same on every run."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import AttributeProto, TensorProto, helper

from fuser.engine.deferred import BLOCK, Deferred, FileArray
from fuser.storage import ByteRange

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fuser.engine.graph import Graph
    from fuser.engine.node import Node

UNTYPED = 0
"""Element type of a value that is still in float64, not yet rounded to any type."""

FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE})
INTEGERS = frozenset(
    {TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8, TensorProto.UINT16,
     TensorProto.UINT32, TensorProto.UINT64, TensorProto.BOOL}
)  # fmt: skip
DEFER_FROM = 1 << 16
"""Tensors of more elements are not held as float64 but computed when they are written."""

FLOAT, EXTERNAL = TensorProto.FLOAT, TensorProto.EXTERNAL  # looking these up in their message is slow
FLOAT32 = np.dtype("<f4")


class Const:
    """A constant: float64 for every float type (rounded to ``dtype`` when written), else its own type.

    ``source`` is the initializer that it came from by arithmetic on its elements (its name may be kept), "" where there is
    none, and None for an input that is left out, or a multiple of one: it leaves its name to what is added to it.
    """

    __slots__ = ("_native", "_uniform", "data", "dtype", "shape", "source")

    def __init__(self, data: NDArray[Any] | Deferred, dtype: int, source: str | None = "") -> None:
        self.data = data
        self.dtype = dtype
        self.shape: tuple[int, ...] = data.shape
        self.source = source
        self._uniform: Any = self  # not asked yet
        self._native: NDArray[Any] | None = None

    @property
    def size(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    @property
    def is_float(self) -> bool:
        """Whether it holds floats, of a type or untyped."""
        return self.dtype == UNTYPED or self.dtype in FLOATS

    @property
    def is_deferred(self) -> bool:
        """Whether it is computed when it is written, rather than held in memory."""
        return isinstance(self.data, Deferred)

    @property
    def is_partial(self) -> bool:
        """Whether it is a shape of which some dims are not known, hence no constant."""
        data = self.data
        return self.dtype in INTEGERS and isinstance(data, np.ndarray) and data.dtype.kind == "f"

    def array(self) -> NDArray[Any]:
        """All of it in memory."""
        return self.data.array() if isinstance(self.data, Deferred) else self.data

    def blocks(self) -> Iterator[NDArray[Any]]:
        """All of it in order, flat, in blocks."""
        if isinstance(self.data, Deferred):
            yield from self.data.blocks()
        else:
            flat = self.data.reshape(-1)
            for i in range(0, flat.size, BLOCK):
                yield flat[i : i + BLOCK]

    def uniform(self) -> float | int | bool | None:
        """The one value that every element holds, or None."""
        if self._uniform is self:
            self._uniform = None
            if self.size:
                first: Any = None
                for block in self.blocks():
                    first = block[0] if first is None else first
                    if not (block == first).all():
                        break
                else:
                    self._uniform = first.item()
        value: float | int | bool | None = self._uniform
        return value

    def native(self) -> NDArray[Any]:
        """All of it in memory, rounded once to its own type."""
        if self._native is None:
            self._native = self.array().astype(helper.tensor_dtype_to_np_dtype(self.dtype))
        return self._native

    def rounded(self, dtype: int) -> Iterator[NDArray[Any]]:
        """All of it in order, flat, in blocks, rounded once to an ONNX element type."""
        to = np.dtype(np.float64) if dtype == UNTYPED else helper.tensor_dtype_to_np_dtype(dtype)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for block in self.blocks():
                yield block.astype(to)


def from_tensor(graph: Graph, tensor: TensorProto, source: str = "") -> Const | str:
    """The tensor as a constant, or why it is of no use as one."""
    kind = tensor.data_type
    weights = graph.context.stored.weights
    if kind not in FLOATS:
        if kind in INTEGERS:
            return Const(weights.read(tensor), kind, source)
        return (
            f"holds {TensorProto.DataType.Name(kind).lower()}, which the pattern's arithmetic does not cover"
        )
    shape = tuple(tensor.dims[:])
    if kind == FLOAT and tensor.data_location != EXTERNAL:
        raw = tensor.raw_data
        if raw and len(raw) == 4 * prod(shape):
            plain = np.frombuffer(raw, FLOAT32)  # the usual case, without the detour
            return Const(
                plain.astype(np.float64).reshape(shape)
                if plain.size <= DEFER_FROM
                else Deferred(plain, shape),
                kind,
                source,
            )
    if prod(shape) <= DEFER_FROM:
        return Const(weights.read(tensor).astype(np.float64), kind, source)
    payload = weights.payload(tensor)
    if isinstance(payload, ByteRange):
        return Const(
            Deferred(FileArray(payload, np.dtype(helper.tensor_dtype_to_np_dtype(kind))), shape), kind, source
        )
    return Const(Deferred(weights.read(tensor).reshape(-1), shape), kind, source)


def from_node(graph: Graph, node: Node) -> Const | str:
    """What a Constant node holds."""
    for name, a in node.attributes.items():
        if a.ref_attr_name:
            return f"is the function's attribute {a.ref_attr_name!r}"
        if name == "value" and a.type == AttributeProto.TENSOR:
            return from_tensor(graph, a.t)
        if name in ("value_float", "value_floats"):
            return Const(
                np.asarray(a.f if name == "value_float" else a.floats, np.float64), TensorProto.FLOAT
            )
        if name in ("value_int", "value_ints"):
            return Const(np.asarray(a.i if name == "value_int" else a.ints, np.int64), TensorProto.INT64)
    return "is a Constant of a kind that the pattern's arithmetic does not cover"
