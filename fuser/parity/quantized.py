"""Quantized models without the rounding of their activations.

A fusion moves a value by a rounding error of floating point. Where that value stands between two quantization
steps, it lands a whole step away, and so does all that follows: no tolerance tells such a step from an error.
Hence both models are compared a second time, with each activation's QuantizeLinear and DequantizeLinear
replaced by the limits of the range they saturate to. What is left is continuous, and has to agree as strictly as
any other model; the pairs themselves must be the same in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from fuser.parity.scopes import Scope, constant, scopes, used
from fuser.parity.source import STANDARD, Source, variant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fuser.parity.protocol import Array

ROUNDERS = frozenset({"QuantizeLinear", "DynamicQuantizeLinear"})


@dataclass(frozen=True)
class Pair:
    """A QuantizeLinear and a DequantizeLinear by the same scalars; ``node`` is the second's index."""

    node: int
    value: str
    result: str
    scale: Array
    zero: Array

    @property
    def key(self) -> tuple[str, str, bytes, str, bytes]:
        """Equal in two models that quantize the value alike."""
        scale, zero = self.scale, self.zero
        return self.result, scale.dtype.name, scale.tobytes(), zero.dtype.name, zero.tobytes()

    @property
    def limits(self) -> tuple[Array, Array]:
        """The least and the largest that it gives, of shape [] and of the scale's type."""
        info = ml_dtypes.iinfo(self.zero.dtype)  # type: ignore[no-untyped-call]  # numpy's has no int4
        scale, zero = (array.astype(np.float64).item() for array in (self.scale, self.zero))
        low, high = sorted((float(end) - zero) * scale for end in (info.min, info.max))
        return np.asarray(low, self.scale.dtype), np.asarray(high, self.scale.dtype)


@dataclass(frozen=True)
class Unrounded:
    """A and B without the rounding of ``pairs`` pairs; ``entire``: no other rounding to steps is left."""

    a: Source
    b: Source
    pairs: int
    entire: bool


def unrounded(a: Source, b: Source, folder: Path) -> Unrounded | None:
    """Both models without the rounding of their activations, written to ``folder``; None where they quantize no
    activation, or not the same ones alike."""
    if not any(node.op_type == "QuantizeLinear" for node in a.proto.graph.node):
        return None
    scope_a, scope_b = scopes(a.proto)[""], scopes(b.proto)[""]
    pairs_a, pairs_b = list(_pairs(a, scope_a)), list(_pairs(b, scope_b))
    if not pairs_a or sorted(pair.key for pair in pairs_a) != sorted(pair.key for pair in pairs_b):
        return None
    without = _without(a.proto, pairs_a)
    return Unrounded(
        variant(a, without, folder / "A.onnx"),
        variant(b, _without(b.proto, pairs_b), folder / "B.onnx"),
        len(pairs_a),
        not _rounds(without),
    )


def _pairs(source: Source, scope: Scope) -> Iterator[Pair]:
    varying = _varying(scope)
    for index, node in enumerate(scope.nodes):
        if node.op_type != "DequantizeLinear" or node.domain not in STANDARD:
            continue
        at = scope.producers.get(node.input[0])
        first = None if at is None else scope.nodes[at]
        if first is None or first.op_type != "QuantizeLinear" or first.input[0] not in varying:
            continue
        parameters = _parameters(source, scope, first), _parameters(source, scope, node)
        if parameters[0] is not None and parameters[1] is not None:
            pairs = [Pair(index, first.input[0], node.output[0], *each) for each in parameters if each]
            if pairs[0].key == pairs[1].key:
                yield pairs[0]


def _parameters(source: Source, scope: Scope, node: NodeProto) -> tuple[Array, Array] | None:
    """Scale and zero point, where they are one constant number each of an integer type."""
    found = []
    for name in filter(None, node.input[1:3]):
        tensor = constant(scope, name)
        if tensor is None:
            return None
        found.append(source.stored.weights.read(tensor).reshape(-1))
    scale = found[0]
    zero = found[1] if len(found) > 1 else np.zeros(1, np.uint8)
    is_integer = zero.dtype.kind in "iu" or zero.dtype in (
        np.dtype(ml_dtypes.int4),
        np.dtype(ml_dtypes.uint4),
    )
    return (scale, zero) if scale.size == zero.size == 1 and is_integer else None


def _varying(scope: Scope) -> set[str]:
    """The values that depend on an input of the model, and so are no weights."""
    found = set(scope.inputs)
    for node in scope.nodes:
        if any(name in found for name in used(node)):
            found.update(node.output)
    return found


def _rounds(model: ModelProto) -> bool:
    """Whether a value that is no weight is still rounded to steps."""
    found = scopes(model)
    varying = _varying(found[""])
    return any(
        node.op_type in ROUNDERS and (scope.path != "" or node.input[0] in varying)
        for scope in found.values()
        for node in scope.nodes
    )


def _without(proto: ModelProto, pairs: list[Pair]) -> ModelProto:
    """A copy with limits in place of each pair."""
    copy = ModelProto()
    copy.CopyFrom(proto)
    at = {pair.node: pair for pair in pairs}
    nodes: list[NodeProto] = []
    for index, node in enumerate(proto.graph.node):
        nodes += _limited(at[index], copy) if index in at else [node]
    read = {name for node in nodes for name in used(node)} | {value.name for value in proto.graph.output}
    del copy.graph.node[:]
    copy.graph.node.extend(
        node for node in nodes if node.op_type != "QuantizeLinear" or not read.isdisjoint(node.output)
    )
    return copy


def _limited(pair: Pair, model: ModelProto) -> list[NodeProto]:
    low, high, above = (f"unrounded/{pair.result}/{name}" for name in ("low", "high", "above"))
    for name, limit in zip((low, high), pair.limits, strict=True):
        model.graph.initializer.append(numpy_helper.from_array(limit, name))
    return [
        helper.make_node("Max", [pair.value, low], [above]),
        helper.make_node("Min", [above, high], [pair.result]),
    ]
