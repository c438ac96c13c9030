"""Attributes and element types of single nodes, with what is known of the values they read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuser.targets.atc.attributes import LACKING, check_node, checked
from fuser.targets.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import ModelProto

    from fuser.targets.atc.names import Scope


def check_nodes(scope: Scope, model: ModelProto) -> Iterator[Finding]:
    """Findings about single nodes of one graph."""
    opset = next((entry.version for entry in model.opset_import if entry.domain in {"", "ai.onnx"}), 0)
    shapes = _shapes(scope)
    types = {name: kind for name, kind in _types(scope).items() if kind in LACKING.values()}
    for node, name in zip(scope.graph.node, scope.names, strict=True):
        if node.domain not in {"", "ai.onnx"}:
            continue
        if checked(node.op_type, types=bool(types)):
            yield from check_node(node, name, opset, types, shapes)
        elif node.op_type == "If" and len(node.attribute) != 2:
            yield Finding(
                "E19999",
                "error",
                name,
                f"If has {len(node.attribute)} attributes; ATC takes then_branch and else_branch",
                "write exactly these two",
                "attribute",
            )


def _types(scope: Scope) -> dict[str, int]:
    graph = scope.graph
    types = {} if scope.outer is None else _types(scope.outer)
    for values in (graph.value_info, graph.input, graph.output):
        types.update((v.name, v.type.tensor_type.elem_type) for v in values if v.type.HasField("tensor_type"))
    types.update((tensor.name, tensor.data_type) for tensor in graph.initializer)
    for node in graph.node:
        if node.op_type == "Constant":
            types.update((node.output[0], a.t.data_type) for a in node.attribute if a.name == "value")
    return types


def _shapes(scope: Scope) -> dict[str, tuple[int, ...]]:
    shapes = {} if scope.outer is None else _shapes(scope.outer)
    shapes.update((tensor.name, tuple(tensor.dims)) for tensor in scope.graph.initializer)
    for node in scope.graph.node:
        if node.op_type == "Constant":
            shapes.update((node.output[0], tuple(a.t.dims)) for a in node.attribute if a.name == "value")
    return shapes
