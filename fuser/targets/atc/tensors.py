"""Constants: element types ATC has, data that is there, Constant nodes it can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from fuser.targets.atc.facts import FILE_DTYPES, INLINE_DTYPES
from fuser.targets.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fuser.targets.atc.names import Scope

_TYPED_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


def check_tensors(scope: Scope, path: Path | None) -> Iterator[Finding]:
    """Findings about the initializers and Constant nodes of one graph."""
    seen: set[str] = set()
    for tensor in scope.graph.initializer:
        if not tensor.name:
            yield Finding(
                None,
                "warning",
                "",
                "an initializer has no name; ATC drops it",
                "name it, or remove it",
                "unnamed-initializer",
            )
            continue
        if tensor.name in seen:
            yield Finding(
                None,
                "warning",
                tensor.name,
                f"two initializers are called {tensor.name!r}; ATC takes the last",
                "remove one",
                "duplicate-initializer",
            )
        seen.add(tensor.name)
        yield from _check_tensor(tensor, f"initializer {tensor.name!r}", tensor.name, path)
        if scope.outer is not None and is_external(tensor):
            yield Finding(
                None,
                "warning",
                tensor.name,
                f"initializer {tensor.name!r} of a branch lies in a file; ATC reads files for the main graph",
                "save the model with this tensor inside",
                "external-data",
            )
    for node, name in zip(scope.graph.node, scope.names, strict=True):
        if node.op_type == "Constant":
            value = next((a.t for a in node.attribute if a.name == "value"), None)
            if value is None:
                kind = next((a.name for a in node.attribute), "no attribute")
                yield Finding(
                    None,
                    "warning",
                    name,
                    f"Constant has {kind}; ATC reads `value` only and goes on with an empty tensor",
                    "write it as an initializer; `onnx-fuser optimize --target atc` does",
                    "constant-without-value",
                )
            else:
                yield from _check_tensor(value, f"Constant {name!r}", name, path)
    for sparse in scope.graph.sparse_initializer:
        yield Finding(
            "E19999",
            "error",
            sparse.values.name,
            f"sparse initializer {sparse.values.name!r} is never read by ATC",
            "store it as a dense initializer",
            "sparse-initializer",
        )


def is_external(tensor: TensorProto) -> bool:
    """Whether the tensor's data lie in a file beside the model, as the model file itself says."""
    return tensor.data_location == TensorProto.EXTERNAL and _location(tensor) is not None


def _location(tensor: TensorProto) -> str | None:
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), None)


def _check_tensor(tensor: TensorProto, what: str, node: str, path: Path | None) -> Iterator[Finding]:
    external = is_external(tensor)
    empty = 0 in tensor.dims
    # The reader, which knows fewer types than the parser, looks at no tensor without elements and at no file.
    if tensor.data_type not in (FILE_DTYPES if external or empty else INLINE_DTYPES):
        known = tensor.data_type in TensorProto.DataType.values()
        dtype = TensorProto.DataType.Name(tensor.data_type) if known else str(tensor.data_type)
        yield Finding(
            "E19999",
            "error",
            node,
            f"{what} is {dtype}, which ATC has no constants of",
            "store it as float16 or float32, or quantize with AMCT",
            "tensor-dtype",
        )
    if any(dim < 0 for dim in tensor.dims):
        yield Finding(
            "E19999",
            "error",
            node,
            f"{what} has the shape {list(tensor.dims)}",
            "store its sizes",
            "tensor-shape",
        )
    if not empty and not tensor.external_data and not _has_data(tensor):
        yield Finding(
            "E19999",
            "error",
            node,
            f"{what} has shape {list(tensor.dims)} and no data",
            "check how the model was saved",
            "tensor-data",
        )
    location = _location(tensor) if external else None
    if location is not None and path is not None and not (path.parent / location).is_file():
        yield Finding(
            None,
            "error",
            node,
            f"{what} lies in {location!r}, which is not beside the model",
            "put the file beside the model; ATC looks for it there",
            "external-data",
        )


def _has_data(tensor: TensorProto) -> bool:
    if tensor.HasField("raw_data"):
        return tensor.ByteSize() > 4096 or len(tensor.raw_data) > 0
    return any(getattr(tensor, field) for field in _TYPED_FIELDS)
