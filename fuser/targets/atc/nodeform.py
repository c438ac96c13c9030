"""Fused operators as single nodes of the default domain, the form that needs a plugin, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import AttributeProto, FunctionProto, ModelProto, helper

from fuser.errors import TargetError
from fuser.targets.atc.functions import move
from fuser.targets.atc.names import all_graphs
from fuser.targets.atc.plugin import SWITCH, is_switched, plugin_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx import GraphProto

_DOMAIN = "fuser"
CONVOLUTIONS = {"Conv": "Conv", "ConvTranspose": "ConvTranspose"}


def fused_functions(model: ModelProto) -> tuple[FunctionProto, ...]:
    """The definitions of fused operators that the model holds."""
    return tuple(function for function in model.functions if function.domain == _DOMAIN)


def single_nodes(functions: Sequence[FunctionProto]) -> tuple[FunctionProto, ...]:
    """Those that can stay one node: a plugin can be written for them. The others are written out."""
    return tuple(function for function in functions if not why_written_out(function))


def why_written_out(function: FunctionProto) -> str:
    """Why no plugin can be written for a fused operator; empty where one can."""
    try:
        plugin_files([function], 0)  # the opset is only written down
    except TargetError as error:
        return str(error).partition("; ")[0]
    return ""


def convolutions(functions: Sequence[FunctionProto]) -> dict[str, str]:
    """Fused operators that have a convolution's inputs and attributes, and which it is."""
    found = {}
    for function in functions:
        for node in function.node:
            own = all(a.ref_attr_name == a.name for a in node.attribute)
            if node.op_type in CONVOLUTIONS and own and list(node.input[:2]) == list(function.input[:2]):
                found[function.name] = node.op_type
    return found


def to_nodes(model: ModelProto, graphs: Sequence[GraphProto], functions: Sequence[FunctionProto]) -> None:
    """Put calls of these functions in the default domain and drop the definitions, in place."""
    defined = {function.name: function for function in functions}
    for graph in graphs:
        for node in graph.node:
            function = defined.get(node.op_type) if node.domain == _DOMAIN else None
            if function is not None:
                node.domain = ""
                if is_switched(function):
                    node.attribute.append(helper.make_attribute(SWITCH, 1))
    kept = [f for f in model.functions if f.domain != _DOMAIN or f.name not in defined]
    if len(kept) < len(model.functions):
        copies = [FunctionProto.FromString(function.SerializeToString()) for function in kept]
        del model.functions[:]
        model.functions.extend(copies)


def with_definitions(model: ModelProto, functions: Sequence[FunctionProto]) -> ModelProto:
    """A copy of a model in node form that has the definitions again, so that any runtime can run it."""
    result = ModelProto()
    result.CopyFrom(model)
    version = next(entry.version for entry in result.opset_import if entry.domain in {"", "ai.onnx"})
    names = {function.name for function in functions}
    for graph in all_graphs(result.graph):
        for node in graph.node:
            if not node.domain and node.op_type in names:
                node.domain = _DOMAIN
                kept = [a for a in node.attribute if a.name != SWITCH]
                copies = [AttributeProto.FromString(a.SerializeToString()) for a in kept]
                del node.attribute[:]
                node.attribute.extend(copies)
    for function in functions:
        copy = result.functions.add()
        copy.CopyFrom(function)
        move(copy, version)
    result.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    result.ir_version = max(result.ir_version, 8)  # functions came with IR 8
    return result
