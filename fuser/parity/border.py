"""Types and shapes of the values at a site's border."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onnx import ModelProto, TensorProto, TypeProto, helper, shape_inference

from fuser.parity.scopes import Scope, calls, scopes
from fuser.parity.shapes import dims_from_weights
from fuser.parity.source import Dim, InputSpec, dims_of

if TYPE_CHECKING:
    from fuser.parity.cut import Cutter
    from fuser.parity.runner import Seen

INLINE = 1024  # elements; larger constants steer no shape


@dataclass
class Types:
    """What onnx.shape_inference knows about the values of a model, found once and when it is asked for."""

    cutter: Cutter
    _known: dict[str, dict[str, TypeProto]] = field(default_factory=dict)
    _inferred: dict[str, Scope] | None = None

    def of(self, path: str) -> dict[str, TypeProto]:
        """The types in one graph, those of the enclosing graphs included."""
        if path not in self._known:
            self._known[path] = self._find(path)
        return self._known[path]

    def _find(self, path: str) -> dict[str, TypeProto]:
        if self._inferred is None:
            self._inferred = scopes(_infer(_light(self.cutter.source.proto)))
        scope = self._inferred.get(path)
        known: dict[str, TypeProto] = {}
        if scope is None:
            return known
        if scope.function is not None and scope.graph is None:
            return self._in_function(scope)
        if scope.parent is not None:
            known.update(self.of(scope.parent.path))
        if scope.graph is not None:
            for value in [*scope.graph.input, *scope.graph.value_info, *scope.graph.output]:
                known[value.name] = value.type
            for tensor in scope.graph.initializer:
                known[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        return known

    def _in_function(self, scope: Scope) -> dict[str, TypeProto]:
        function = scope.function
        call = next(calls(self.cutter.scopes, function), None) if function is not None else None
        if function is None or call is None:
            return {}
        outside = self.of(call[0].path)
        inputs = [
            helper.make_value_info(formal, outside[actual])
            for formal, actual in zip(function.input, call[1].input, strict=False)
            if actual in outside
        ]
        graph = helper.make_graph(list(function.node), "function", inputs, [])
        model = helper.make_model(graph, opset_imports=function.opset_import)
        model.functions.extend(self.cutter.source.proto.functions)
        model.ir_version = self.cutter.source.proto.ir_version
        inferred = _infer(model)
        return {value.name: value.type for value in [*inferred.graph.input, *inferred.graph.value_info]}


def _light(proto: ModelProto) -> ModelProto:
    """A copy without large weights, of which only the type is kept, and without what it claims of its values.

    value_info can be stale, and inference believes it.
    """
    light = ModelProto(ir_version=proto.ir_version)
    light.opset_import.extend(proto.opset_import)
    light.functions.extend(proto.functions)
    light.graph.name = proto.graph.name or "graph"
    light.graph.node.extend(proto.graph.node)
    light.graph.input.extend(proto.graph.input)
    light.graph.output.extend(proto.graph.output)
    declared = {value.name for value in proto.graph.input}
    for tensor in proto.graph.initializer:
        size = 1
        for d in tensor.dims:
            size *= d
        if size <= INLINE and tensor.data_location != TensorProto.EXTERNAL:
            light.graph.initializer.add().CopyFrom(tensor)
        elif tensor.name not in declared:
            light.graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    return light


def _infer(model: ModelProto) -> ModelProto:
    """Inference gives up on a model that contradicts itself; then what is declared has to do."""
    try:
        return shape_inference.infer_shapes(model, data_prop=True)
    except (shape_inference.InferenceError, RuntimeError, ValueError):
        return model


def is_certain(names: Iterable[str], types: Mapping[str, TypeProto], seen: Mapping[str, Seen]) -> bool:
    """Whether all that is drawn at a border has the shape that it has in a run of A, but for the batch."""
    open_ones = (dims_of(types.get(name, TypeProto())) for name in names if name not in seen)
    return all(dims is not None and all(isinstance(d, int) for d in dims[1:]) for dims in open_ones)


def guesses(
    names: Sequence[str],
    a: ModelProto,
    b: ModelProto,
    types: Mapping[str, TypeProto],
    seen: Mapping[str, Seen],
) -> Iterator[list[InputSpec]]:
    """Types for the border of a site's two models, likeliest first: inferred, with what is open as seen in a run of A or
    as the weights demand; all as seen; all as demanded."""
    weights = {**dims_from_weights(b.graph), **dims_from_weights(a.graph)}
    fallback = next((t.data_type for t in a.graph.initializer if t.data_type in _FLOATING), TensorProto.FLOAT)
    likely, observed, demanded = [], [], []
    for name in names:
        known, needed = types.get(name, TypeProto()), weights.get(name)
        elem_type, dims = known.tensor_type.elem_type or fallback, dims_of(known)
        shape: tuple[Dim, ...] | None = None
        if name in seen:
            elem_type, shape = helper.np_dtype_to_tensor_dtype(seen[name].dtype), seen[name].shape
        likely.append(InputSpec(name, elem_type, _merge(_merge(dims, needed), shape)))
        observed.append(InputSpec(name, elem_type, shape or needed or dims))
        demanded.append(InputSpec(name, elem_type, needed or dims))
    yield likely
    if observed != likely:
        yield observed
    if demanded not in (likely, observed):
        yield demanded


_FLOATING = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)


def _merge(dims: tuple[Dim, ...] | None, needed: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    """The first with what it leaves open filled by the second, but for a batch."""
    if dims is None or needed is None or len(dims) != len(needed):
        return needed if dims is None else dims
    return tuple(
        n if axis and not isinstance(d, int) and isinstance(n, int) else d
        for axis, (d, n) in enumerate(zip(dims, needed, strict=True))
    )
