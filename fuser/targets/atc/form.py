"""A model in the form ATC takes: one opset, stock operators, everything written out, no names that collide.

What people's atc command lines address (graph inputs, outputs and the names of nodes) stays. Applied twice,
the second time changes nothing; the same model gives the same bytes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TensorProto, helper, numpy_helper

from fuser.targets.atc.functions import inline
from fuser.targets.atc.geometry import needs_sizes, write_out
from fuser.targets.atc.names import all_graphs, name_uniquely
from fuser.targets.atc.nodeform import CONVOLUTIONS, convolutions, fused_functions, single_nodes, to_nodes
from fuser.targets.atc.retarget import retarget
from fuser.targets.atc.values import inferred, replace_nodes, weight_shapes
from fuser.targets.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from onnx import AttributeProto, GraphProto, TypeProto

    from fuser.targets.atc.geometry import Shape

_DEFAULT = {"", "ai.onnx"}


def to_atc_form(
    model: ModelProto,
    *,
    opset: int | None = None,
    cann: str = "master",
    fused_as: Literal["standard", "node"] = "standard",
) -> tuple[ModelProto, tuple[Finding, ...]]:
    """The model in ATC's form, and what could not be brought there or is worth knowing.

    ``model`` is not touched and may be a skeleton: tensors with external_data entries keep them, their
    values are not needed. ``opset`` is the one to emit; None stays where the model is if ATC knows that
    opset, else takes the nearest that needs no conversion. Whether ATC takes the result is what ``lint``
    says.
    """
    result = ModelProto()
    result.CopyFrom(model)
    fused = single_nodes(fused_functions(result)) if fused_as == "node" else ()
    result = inline(result, [(function.domain, function.name) for function in fused])
    graphs = tuple(all_graphs(result.graph))
    for graph in graphs:
        for node in graph.node:
            if node.domain == "ai.onnx":
                node.domain = ""
        _constants_to_initializers(graph)
        _drop_trailing(graph)
        unnamed = [tensor for tensor in graph.initializer if not tensor.name]
        for tensor in unnamed:  # nothing can read them
            graph.initializer.remove(tensor)
    findings = list(_close_inputs(result))
    types = cache(lambda: inferred(result))
    findings += retarget(result, graphs, opset, cann, types)
    to_nodes(result, graphs, fused)
    findings += _write_out(graphs, CONVOLUTIONS | convolutions(fused), types)
    name_uniquely(result)
    _clean_imports(result, graphs)
    result.ir_version = max(result.ir_version, 4)  # before IR 4, initializers had to be inputs too
    return result, tuple(findings)


def _constants_to_initializers(graph: GraphProto) -> None:
    moved = set()
    for i, node in enumerate(graph.node):
        if node.op_type == "Constant" and node.domain == "" and len(node.attribute) == 1:
            tensor = _constant(node.attribute[0])
            if tensor is not None:
                tensor.name = node.output[0]
                graph.initializer.append(tensor)
                moved.add(i)
    replace_nodes(graph, dict.fromkeys(moved, ()))


def _constant(attribute: AttributeProto) -> TensorProto | None:
    """The tensor a Constant stands for; None for a sparse one, which only its expansion could replace."""
    tensor = TensorProto()
    if attribute.name == "value":
        tensor.CopyFrom(attribute.t)
        return tensor
    dtypes = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
        "value_string": np.object_,
        "value_strings": np.object_,
    }
    if attribute.name not in dtypes:
        return None
    value: npt.NDArray[np.generic] = np.asarray(
        helper.get_attribute_value(attribute), dtype=dtypes[attribute.name]
    )
    tensor.CopyFrom(numpy_helper.from_array(value))
    return tensor


def _drop_trailing(graph: GraphProto) -> None:
    for node in graph.node:
        for names in (node.input, node.output):
            while len(names) > 1 and not names[-1]:
                del names[-1]


def _close_inputs(model: ModelProto) -> Iterator[Finding]:
    """Inputs with a default become constants, which is what ATC takes them for."""
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    closed = [value for value in graph.input if value.name in constants]
    if closed and model.ir_version >= 4:
        names = ", ".join(value.name for value in closed)
        yield Finding(
            None,
            "note",
            "",
            f"inputs with a default value became constants, as ATC takes them for: {names}",
            "remove the initializer where the caller shall give the value",
            "constant-input",
        )
    for value in closed:
        graph.input.remove(value)


def _write_out(
    graphs: Sequence[GraphProto], kinds: Mapping[str, str], types: Callable[[], dict[str, TypeProto]]
) -> Iterator[Finding]:
    """Write out what LeakyRelu, Conv and what is made of it (``kinds``) leave to defaults."""
    weights = weight_shapes(graphs)
    everything = cache(lambda: {name: _dims(kind) for name, kind in types().items()} | weights)
    for graph in graphs:
        for node in graph.node:
            if node.op_type == "LeakyRelu" and not node.domain and not node.attribute:
                node.attribute.append(helper.make_attribute("alpha", 0.01))
            kind = kinds.get(node.op_type) if not node.domain else None
            if kind is None:
                continue
            shapes = everything() if needs_sizes(node, weights) else weights
            if not write_out(node, shapes, transposed=kind == "ConvTranspose"):
                yield Finding(
                    None,
                    "warning",
                    node.name,
                    f"{node.op_type}'s auto_pad stays, for open sizes or because it would be negative",
                    "give the model fixed sizes, or export it with explicit pads",
                    "auto-pad",
                )


def _dims(known: TypeProto) -> Shape:
    dims = known.tensor_type.shape.dim
    return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in dims)


def _clean_imports(model: ModelProto, graphs: Sequence[GraphProto]) -> None:
    """One import for the default domain, others only where a node or a function that stayed is of them."""
    used = {node.domain for graph in graphs for node in graph.node}
    used.update(entry.domain for function in model.functions for entry in function.opset_import)
    used = {"" if domain in _DEFAULT else domain for domain in used}
    versions: dict[str, int] = {}
    for entry in model.opset_import:
        versions.setdefault("" if entry.domain in _DEFAULT else entry.domain, entry.version)
    kept = {domain: version for domain, version in versions.items() if domain in used or not domain}
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(domain, kept[domain]) for domain in sorted(kept))
