"""Many small models as one, side by side: loading and running a model costs more than what one site computes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from onnx import GraphProto, ModelProto, ValueInfoProto, helper

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fuser.parity.source import InputSpec

MOST_MODELS = 32
MOST_ELEMENTS = 1 << 24  # at the borders and in the weights of all of them
FREE = 8  # what a free dimension counts as


def prefix(index: int) -> str:
    """What the names of the model at that place begin with."""
    return f"{index}/"


def side_by_side(models: Sequence[ModelProto], specs: Sequence[Sequence[InputSpec]]) -> ModelProto:
    """One model of all, every name with its prefix; ``specs`` are the types of each one's inputs.

    They are parts of one model, so their opsets are equal and equal functions are the same.
    """
    joined = ModelProto(ir_version=models[0].ir_version)
    joined.opset_import.extend(models[0].opset_import)
    joined.graph.name = "sites"
    functions = {(f.domain, f.name, f.overload): f for model in models for f in model.functions}
    joined.functions.extend(functions.values())
    for index, (model, inputs) in enumerate(zip(models, specs, strict=True)):
        graph = GraphProto()
        graph.CopyFrom(model.graph)
        _rename(graph, prefix(index))
        joined.graph.node.extend(graph.node)
        joined.graph.initializer.extend(graph.initializer)
        joined.graph.output.extend(graph.output)
        joined.graph.input.extend(typed(renamed(inputs, index)))
    return joined


def renamed(specs: Sequence[InputSpec], index: int) -> list[InputSpec]:
    """The inputs of the model at that place."""
    return [replace(spec, name=prefix(index) + spec.name) for spec in specs]


def typed(specs: Iterable[InputSpec]) -> Iterator[ValueInfoProto]:
    """The inputs as a graph declares them."""
    return (helper.make_tensor_value_info(spec.name, spec.elem_type, spec.dims) for spec in specs)


def elements(models: Sequence[ModelProto], specs: Sequence[InputSpec]) -> int:
    """About how many the models hold and take."""
    weights = sum(math.prod(t.dims) for model in models for t in model.graph.initializer)
    inputs = sum(math.prod(d if isinstance(d, int) else FREE for d in spec.dims or ()) for spec in specs)
    return weights + inputs


def _rename(graph: GraphProto, before: str) -> None:
    """Put ``before`` ahead of every name of a graph that takes nothing from outside, and of its bodies."""
    for value in (*graph.input, *graph.output):
        value.name = before + value.name
    for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)):
        tensor.name = before + tensor.name
    del graph.value_info[:], graph.quantization_annotation[:]
    for node in graph.node:
        node.name = before + node.name if node.name else ""
        for names in (node.input, node.output):
            names[:] = [before + name if name else "" for name in names]
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                _rename(body, before)
