"""Concrete shapes for inputs whose dimensions are free."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fuser.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from onnx import GraphProto, NodeProto

    from fuser.parity.source import Dim, InputSpec

# Tried in this order until the model runs; small ones first, then what image models are built for.
SIZES = (8, 16, 32, 64, 224, 1, 2, 4, 3, 128, 256, 299, 416, 512, 640)
RANKS = (4, 2, 3, 1, 0, 5)
BATCHES = (1, 2)
MOST_ELEMENTS = 1 << 24
BATCH = "the batch"

# Operators whose output has the shape of their first input.
_ELEMENTWISE = {
    *(
        "Abs",
        "Cast",
        "Clip",
        "Dropout",
        "Elu",
        "Erf",
        "Exp",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "LeakyRelu",
    ),
    *("Neg", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Tanh"),
}


@dataclass(frozen=True)
class Setting:
    """What the free dimensions become; ``ints`` is how integer inputs are drawn."""

    batch: int
    size: int
    rank: int
    ints: str


def check_given(specs: Sequence[InputSpec], given: Mapping[str, Sequence[int]]) -> None:
    """Raises ConfigError where ``given`` shapes can't be those of the inputs."""
    known = {spec.name: spec for spec in specs}
    for name, shape in given.items():
        if name not in known:
            raise ConfigError(
                f"there is no input {name!r} to give a shape: the inputs are {', '.join(known)}"
            )
        dims = known[name].dims
        if any(d < 0 for d in shape):
            raise ConfigError(f"the shape {list(shape)} of input {name!r} has a negative dimension")
        if dims is not None and (
            len(dims) != len(shape)
            or any(isinstance(d, int) and d != s for d, s in zip(dims, shape, strict=True))
        ):
            text = ", ".join("?" if d is None else str(d) for d in dims)
            raise ConfigError(
                f"input {name!r} is [{text}], which {list(shape)} does not fit: give another shape"
            )


def settings(specs: Sequence[InputSpec], given: Mapping[str, Sequence[int]]) -> Iterator[Setting]:
    """What to try, likeliest first; one entry where nothing is free."""
    symbols = _symbols(specs)
    free = {symbols[key] for key in symbols if key[0] not in given} - set(_bound(specs, given))
    unknown = any(spec.dims is None for spec in specs if spec.name not in given)
    ranks = RANKS if unknown else RANKS[:1]
    sizes = SIZES if unknown or free - {BATCH} else SIZES[:1]
    batches = BATCHES if unknown or BATCH in free else BATCHES[:1]
    ints = ("small", "ones", "zeros") if any(spec.dtype.kind in "iu" for spec in specs) else ("small",)
    for rank in ranks:
        for size in sizes:
            for mode in ints:
                for batch in batches:
                    setting = Setting(batch, size, rank, mode)
                    shapes = resolve(specs, given, setting)
                    if all(math.prod(shape) <= MOST_ELEMENTS for shape in shapes.values()):
                        yield setting


def has_free_batch(specs: Sequence[InputSpec], given: Mapping[str, Sequence[int]]) -> bool:
    """Whether some input's batch is neither fixed nor given."""
    left = [spec for spec in specs if spec.name not in given]
    known = _symbols(left)
    return BATCH not in _bound(specs, given) and (
        any(spec.dims is None for spec in left) or BATCH in known.values()
    )


def resolve(
    specs: Sequence[InputSpec], given: Mapping[str, Sequence[int]], setting: Setting
) -> dict[str, tuple[int, ...]]:
    """A shape for every input; equal symbols get equal sizes."""
    filled = [replace(s, dims=(None,) * setting.rank) if s.dims is None else s for s in specs]
    bound = {BATCH: setting.batch, **_bound(specs, given)}
    symbols = _symbols(filled)
    shapes = {}
    for spec in filled:
        dims = enumerate(spec.dims or ())
        drawn = tuple(
            d if isinstance(d, int) else bound.get(symbols[spec.name, axis], setting.size) for axis, d in dims
        )
        shapes[spec.name] = tuple(given[spec.name]) if spec.name in given else drawn
    return shapes


def _symbols(specs: Sequence[InputSpec]) -> dict[tuple[str, int], str]:
    """What each free dimension is called, by input and axis.

    The batch is what is called so, and a first dimension unless its name is that of an inner one elsewhere.
    Other anonymous dimensions are their own.
    """
    free = {
        (spec.name, axis): d
        for spec in specs
        for axis, d in enumerate(spec.dims or ())
        if not isinstance(d, int)
    }
    inner = {d for (_, axis), d in free.items() if axis and d}
    symbols = {}
    for (name, axis), d in free.items():
        if (axis == 0 and d not in inner) or (d and "batch" in d.lower()):
            symbols[name, axis] = BATCH
        else:
            symbols[name, axis] = f"dimension {d}" if d else f"{name}[{axis}]"
    return symbols


def _bound(specs: Sequence[InputSpec], given: Mapping[str, Sequence[int]]) -> dict[str, int]:
    return {symbol: given[name][axis] for (name, axis), symbol in _symbols(specs).items() if name in given}


def dims_from_weights(graph: GraphProto) -> dict[str, tuple[Dim, ...]]:
    """The dimensions that values must have for the weights they meet; None where any size goes."""
    weights = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            weights[node.output[0]] = tuple(node.attribute[0].t.dims)
    known: dict[str, tuple[Dim, ...]] = {}
    for node in reversed(graph.node):
        if not node.input:
            continue
        dims = _input_dims(node, weights)
        if dims is None and node.op_type in _ELEMENTWISE and node.output:
            dims = known.get(node.output[0])
        if dims is not None:
            known.setdefault(node.input[0], dims)
    return known


def _input_dims(node: NodeProto, weights: Mapping[str, tuple[int, ...]]) -> tuple[Dim, ...] | None:
    weight = weights.get(node.input[1]) if len(node.input) > 1 else None
    if weight is None:
        return None
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    spatial = (None,) * (len(weight) - 2)
    match node.op_type.removesuffix("LeakyRelu"):  # a fused operator takes what its anchor does
        case "Conv":
            return None, weight[1] * attributes.get("group", 1), *spatial
        case "ConvTranspose":
            return None, weight[0], *spatial
        case "MatMul" if len(weight) >= 2:
            return None, weight[-2]
        case "Gemm" if len(weight) == 2:
            inner = weight[1] if attributes.get("transB") else weight[0]
            return (inner, None) if attributes.get("transA") else (None, inner)
        case "BatchNormalization":
            return None, weight[0], None, None
    return None
