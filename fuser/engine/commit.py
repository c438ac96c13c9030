"""Writes what was rewritten into the model: once per graph, and only what changed.

Nodes, initializers and value_info that no rewrite touched stay the messages they were, in their order. Deleting from the
middle of a repeated field is quadratic, so fields are sorted in place and cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto

from fuser.engine.context import FUSED
from fuser.engine.deferred import Deferred, Rounded
from fuser.engine.node import domain_of, str_name
from fuser.engine.unread import stranded_in, unread
from fuser.errors import ModelError
from fuser.storage import Block

if TYPE_CHECKING:
    from fuser.engine.constant import Const
    from fuser.engine.context import Context
    from fuser.engine.graph import Graph
    from fuser.engine.node import Node

FUNCTIONS_SINCE = 8
"""The IR version from which a model may hold functions."""
INITIALIZERS_ARE_INPUTS_BEFORE = 4


def commit(context: Context, definitions: Iterable[FunctionProto]) -> None:
    """Write every graph's rewrites into ``context.stored.proto``, which is what the caller saves.

    Raises:
        ModelError: the model defines an operator of domain ``fuser`` otherwise.
    """
    graphs = list(context.graphs())
    changed = [g for g in graphs if g.added or g.removed]
    gone = unread(changed)
    lost = {o for g in changed for n in g.removed for o in n.outputs if o}
    for graph in graphs:
        stranded = stranded_in(graph, lost)
        if graph.added or graph.removed or id(graph) in gone or stranded:
            _commit_graph(graph, gone.get(id(graph), set()), stranded)
    _definitions(context, changed, {(f.name, f.overload): f for f in definitions})
    _initializer_inputs(context)


# ---- one graph


def _commit_graph(graph: Graph, gone: set[str], stranded: set[int]) -> None:
    protos = [n.proto for n in graph.nodes]
    order: dict[int, tuple[int, ...]] = {id(p): n.order for p, n in zip(protos, graph.nodes, strict=True)}
    kept_names, as_nodes = _constants(graph, gone)
    dropped = {id(n.proto) for n in graph.removed if n.proto is not None}
    dropped |= stranded
    for node in graph.nodes:
        if node.proto is not None and node not in graph.removed and list(node.proto.input) != node.inputs:
            del node.proto.input[:]
            node.proto.input.extend(node.inputs)
    field = graph.proto.node
    for node in sorted(graph.added, key=lambda n: n.order):
        field.append(_proto(node, graph, kept_names))
        protos.append(field[-1])
        order[id(protos[-1])] = node.order
    for k, (name, const) in enumerate(as_nodes.items()):
        field.append(_constant_node(name, const, graph))
        protos.append(field[-1])
        order[id(protos[-1])] = (-1, k)
    _put(field, sorted([p for p in field if id(p) not in dropped], key=lambda p: order[id(p)]))
    if isinstance(graph.proto, FunctionProto) or not (
        graph.proto.value_info or graph.proto.quantization_annotation
    ):
        return
    values = {o for n in graph.live_nodes() for o in n.outputs} | {
        o for n in graph.nodes if not n.live for o in n.outputs
    }
    values |= graph.inputs | graph.outputs | {t.name for t in graph.proto.initializer} | graph.sparse
    _put(graph.proto.value_info, [v for v in graph.proto.value_info if v.name in values])
    annotations = graph.proto.quantization_annotation
    _put(annotations, [a for a in annotations if a.tensor_name in values])


def _put(field: Any, kept: list[Any]) -> None:
    """Let a repeated field have these of its messages and no other, in this order; in linear time."""
    rank = {id(m): k for k, m in enumerate(kept)}
    last = len(kept)
    field.sort(key=lambda m: rank.get(id(m), last))
    del field[last:]


# ---- constants


def _constants(graph: Graph, gone: set[str]) -> tuple[dict[str, str], dict[str, Const]]:
    """Write the constants that rewrites made and nodes read; gives the names they got, and those that must be nodes.

    A constant takes the place and the name of the initializer it was computed from where nobody reads that any more. A
    function has no initializers, and before IR 4 each one is an input, of which a rewrite adds none: Constant nodes there.
    """
    names: dict[str, str] = {}
    as_nodes: dict[str, Const] = {}
    taken: set[str] = set()
    weights = graph.context.stored.weights
    for name, const in graph.made_constants.items():
        if not graph.readers_of(name) and name not in graph.outputs:
            continue
        source = const.source or ""
        old = graph.initializers.get(source) if source in gone and source not in taken else None
        if old is not None and tuple(old.dims[:]) == const.shape and old.data_type == const.dtype:
            taken.add(source)
            names[name] = source
            tensor = old
        elif (
            isinstance(graph.proto, FunctionProto)
            or graph.context.ir_version < INITIALIZERS_ARE_INPUTS_BEFORE
        ):
            as_nodes[name] = const
            continue
        else:
            tensor = graph.proto.initializer.add()
            tensor.name = name
            tensor.dims.extend(const.shape)
            tensor.data_type = const.dtype
        if isinstance(const.data, Deferred):
            weights.attach(tensor, Rounded(const.data, const.dtype))
        elif weights.is_elsewhere(tensor):
            weights.attach(tensor, Block(_bytes(const)))
        else:
            if not tensor.HasField("raw_data"):
                for field in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                    tensor.ClearField(field)
            tensor.raw_data = _bytes(const)
    gone -= taken
    if not isinstance(graph.proto, FunctionProto):
        _put(graph.proto.initializer, [t for t in graph.proto.initializer if t.name not in gone])
    return names, as_nodes


def _bytes(const: Const) -> bytes:
    return const.native().tobytes()


def _constant_node(name: str, const: Const, graph: Graph) -> NodeProto:
    tensor = TensorProto(name=name, data_type=const.dtype, dims=const.shape, raw_data=_bytes(const))
    value = AttributeProto(name="value", type=AttributeProto.TENSOR, t=tensor)
    node = graph.context.fresh_node(name)
    return NodeProto(
        op_type="Constant", domain=_default_domain(graph), name=node, output=[name], attribute=[value]
    )


# ---- nodes


def _proto(node: Node, graph: Graph, names: dict[str, str]) -> NodeProto:
    """The node as a message: its provenance in metadata_props, what its ancestors carried kept."""
    if node.proto is not None:  # of an opened call
        copy = NodeProto()
        copy.CopyFrom(node.proto)
        copy.input[:] = [names.get(v, v) for v in node.inputs]
        return copy
    proto = NodeProto(
        op_type=node.op_type,
        domain=node.kind[0] or _default_domain(graph),
        name=node.name,
        input=[names.get(v, v) for v in node.inputs],
        output=node.outputs,
        attribute=[a for _, a in sorted(node.attributes.items())],
    )
    carried: dict[str, str] = {}
    docs: dict[str, None] = {}
    for ancestor in node.origin.nodes:
        if ancestor.proto is not None:
            for entry in ancestor.proto.metadata_props[:]:
                carried.setdefault(entry.key, entry.value)
            if ancestor.proto.doc_string:
                docs[ancestor.proto.doc_string] = None
    if docs:
        proto.doc_string = "\n".join(docs)
    carried["fuser.rule"] = ", ".join(node.origin.rules)
    carried["fuser.replaces"] = ", ".join(str_name(n) for n in node.origin.nodes)
    for key, value in carried.items():
        proto.metadata_props.add(key=key, value=value)
    return proto


def _default_domain(graph: Graph) -> str:
    """How the model spells the default domain."""
    imports = (
        graph.proto.opset_import
        if isinstance(graph.proto, FunctionProto)
        else graph.context.stored.proto.opset_import
    )
    spellings = [o.domain for o in imports if domain_of(o.domain) == ""]
    return "" if "" in spellings or not spellings else spellings[0]


# ---- the model around the graphs


def _definitions(context: Context, changed: list[Graph], known: dict[tuple[str, str], FunctionProto]) -> None:
    """Import domain ``fuser`` where its operators are used, and put their definitions into the model."""
    model = context.stored.proto
    used: dict[tuple[str, str], None] = {}
    for graph in changed:
        here = [n.op_type for n in graph.added if n.kind[0] == FUSED]
        used.update(((op, ""), None) for op in here)
        if here and isinstance(graph.proto, FunctionProto):
            _import(graph.proto.opset_import)
    if not used:
        return
    _import(model.opset_import)
    present = {(f.name, f.overload): f for f in model.functions if f.domain == FUSED}
    for key in _closure(used, known):
        definition = FunctionProto()
        definition.CopyFrom(known[key])
        for imported in definition.opset_import:
            if imported.domain == "":
                imported.version = context.opsets.get("", imported.version)
        if key not in present:
            model.functions.append(definition)
        elif present[key].node != definition.node:
            raise ModelError(
                f"the model defines fuser::{key[0]} with another body than the rules do; "
                "export it again, or rename that function"
            )
    model.ir_version = max(model.ir_version, FUNCTIONS_SINCE)


def _closure(
    used: Iterable[tuple[str, str]], known: dict[tuple[str, str], FunctionProto]
) -> list[tuple[str, str]]:
    """The definitions that are used, and those that these use, callees first."""
    out: dict[tuple[str, str], None] = {}

    def visit(key: tuple[str, str]) -> None:
        for node in known[key].node:
            if node.domain == FUSED:
                visit((node.op_type, node.overload))
        out[key] = None

    for key in used:
        visit(key)
    return list(out)


def _import(opset_import: Any) -> None:
    if all(o.domain != FUSED for o in opset_import):
        opset_import.add(domain=FUSED, version=1)


def _initializer_inputs(context: Context) -> None:
    """Graph inputs that are initializers: those whose initializer went go too.

    Before IR 4 every initializer had to be an input and was a constant; from IR 4 on such an input can be overridden, so a
    model that rises to IR 8 for its functions loses all of them.
    """
    model, was = context.stored.proto, context.main.initializers
    graph = model.graph
    names = {t.name for t in graph.initializer}
    if context.ir_version < INITIALIZERS_ARE_INPUTS_BEFORE <= model.ir_version:
        _put(graph.input, [v for v in graph.input if v.name not in was and v.name not in names])
    else:
        _put(graph.input, [v for v in graph.input if v.name not in was or v.name in names])
