"""A site as a model of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_graphsurgeon as gs
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TensorProto, helper
from onnx_graphsurgeon.logger import G_LOGGER

from fuser.parity.scopes import Scope, bound_attributes, calls, constant, region, scopes
from fuser.parity.source import Source, all_nodes, subgraphs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fuser.parity.result import Site


class CutError(Exception):
    """A site can't be cut out; the text says why."""


class MissingError(CutError):
    """Because the model lacks what it is made from."""


@dataclass(frozen=True)
class Cutter:
    """One model, ready to have sites cut out of it."""

    source: Source
    scopes: Mapping[str, Scope]

    @classmethod
    def of(cls, source: Source) -> Cutter:
        """Index the model once."""
        return cls(source, scopes(source.proto))

    def cut(self, site: Site, border: Sequence[str]) -> ModelProto:
        """What computes the site's output from ``border`` and constants; the border's types are left open.

        Graph inputs met on the way become inputs too. Raises CutError.
        """
        scope = self.scopes.get(site.graph)
        if scope is None:
            raise CutError(f"{self.source.label} has no graph {site.graph!r}")
        weights = self._arguments(scope)
        border = [name for name in border if name not in weights]
        found = region(scope, site.output, [*border, *weights])
        if found.missing:
            raise MissingError(f"{self.source.label} has no value {found.missing[0]!r}")
        nodes = [self.source.inline(self.scopes[path].nodes[index]) for path, index in found.nodes]
        if scope.function is not None:
            nodes = [self._bound(node, scope) for node in nodes]
        model = self._model(scope, nodes)
        initializers = [*found.initializers.values()]
        initializers = [tensor for tensor in initializers if tensor.name not in weights] + list(
            weights.values()
        )
        model.graph.initializer.extend(self.source.inline(tensor) for tensor in initializers)
        return _isolate(model, [*border, *(name for name in found.free if name not in weights)], site.output)

    def _model(self, scope: Scope, nodes: Sequence[NodeProto]) -> ModelProto:
        """Without functions: they are put back untouched after onnx-graphsurgeon."""
        proto = self.source.proto
        versions = {o.domain: o.version for o in proto.opset_import}
        if scope.function is not None:
            versions.update({o.domain: o.version for o in scope.function.opset_import})
        imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
        model = helper.make_model(helper.make_graph(nodes, "site", [], []), opset_imports=imports)
        model.ir_version = proto.ir_version
        model.functions.extend(_needed(proto, nodes))
        return model

    def _arguments(self, scope: Scope) -> dict[str, TensorProto]:
        """In a function: the constants its first call passes, under the names they have inside."""
        function = scope.function
        if function is None:
            return {}
        at, call = next(calls(self.scopes, function), (scope, NodeProto()))
        weights = {}
        for formal, actual in zip(function.input, call.input, strict=False):
            tensor = constant(at, actual)
            if tensor is not None:
                copy = self.source.inline(tensor)
                copy.name = formal
                weights[formal] = copy
        return weights

    def _bound(self, node: NodeProto, scope: Scope) -> NodeProto:
        """The node with the function's attributes filled in."""
        if scope.function is None or not any(a.ref_attr_name for n in all_nodes([node]) for a in n.attribute):
            return node
        call = next((call for _, call in calls(self.scopes, scope.function)), None)
        values = bound_attributes(call, scope.function)
        copy = NodeProto()
        copy.CopyFrom(node)
        for inner in all_nodes([copy]):
            _fill(inner, values)
        return copy


def _fill(node: NodeProto, values: Mapping[str, AttributeProto]) -> None:
    kept = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            kept.append(attribute)
        elif attribute.ref_attr_name in values:
            filled = AttributeProto()
            filled.CopyFrom(values[attribute.ref_attr_name])
            filled.name = attribute.name
            kept.append(filled)
        # An attribute that the caller leaves out is left out here: the operator's default holds.
    del node.attribute[:]
    node.attribute.extend(kept)


def _needed(proto: ModelProto, nodes: Sequence[NodeProto]) -> Iterator[FunctionProto]:
    """The model-local functions that the nodes call, directly or not."""
    wanted = {(node.domain, node.op_type) for node in all_nodes(nodes)}
    grew = True
    while grew:
        grew = False
        for function in proto.functions:
            if (function.domain, function.name) in wanted:
                inner = {(node.domain, node.op_type) for node in all_nodes(function.node)}
                grew = grew or not inner <= wanted
                wanted |= inner
    return (function for function in proto.functions if (function.domain, function.name) in wanted)


LISTS = (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS)


def _isolate(model: ModelProto, inputs: Sequence[str], output: str) -> ModelProto:
    """Give the selected nodes their border with onnx-graphsurgeon."""
    bare = ModelProto()
    bare.CopyFrom(model)
    del bare.functions[:]
    for (
        node
    ) in bare.graph.node:  # onnx-graphsurgeon can't hold an empty list, which says what no attribute says
        kept = [
            a
            for a in node.attribute
            if a.type not in LISTS or a.ints or a.floats or a.strings or a.ref_attr_name
        ]
        if len(kept) != len(node.attribute):
            attributes = [AttributeProto.FromString(a.SerializeToString()) for a in kept]
            del node.attribute[:]
            node.attribute.extend(attributes)
    with G_LOGGER.suppress(G_LOGGER.ERROR):  # it warns that it preserves bfloat16
        graph = gs.import_onnx(bare)
    tensors = graph.tensors()
    graph.inputs = [tensors[name] if name in tensors else gs.Variable(name) for name in inputs]
    graph.outputs = [tensors[output]]
    try:
        cut: ModelProto = gs.export_onnx(graph, do_type_check=False, opset_imports=model.opset_import)
    except (TypeError, ValueError) as error:
        raise CutError(f"onnx-graphsurgeon could not hold it: {error}") from None
    cut.functions.extend(model.functions)
    # What an operator leaves out on purpose, such as a reference to an attribute, has to survive.
    _check_same_nodes(model, cut)
    return cut


def _check_same_nodes(before: ModelProto, after: ModelProto) -> None:
    def shape(model: ModelProto) -> list[tuple[str, str, tuple[str, ...], tuple[str, ...], int]]:
        return [
            (n.domain, n.op_type, tuple(n.input), tuple(n.output), len(list(subgraphs(n))))
            for n in model.graph.node
        ]

    if shape(before) != shape(after):
        raise CutError("onnx-graphsurgeon could not hold it")
