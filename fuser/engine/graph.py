"""A read view of one graph, subgraph or function body.

Nothing here changes the ModelProto. The view keeps producers and readers up to date while the Rewriter swaps nodes;
``commit`` writes the result into the model at the end, once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto

from fuser.engine.node import Node, domain_of
from fuser.engine.schema import schema_defaults
from fuser.engine.weightside import find_constant

if TYPE_CHECKING:
    from fuser.engine.constant import Const
    from fuser.engine.context import Context

GRAPH, GRAPHS = AttributeProto.GRAPH, AttributeProto.GRAPHS


class Graph:
    """One graph of a model.

    ``path`` is empty for the main graph, ``if_node/then_branch`` for a body, ``domain::name`` for a function.
    ``readers`` maps each value to the live nodes that read it, with how often; a node that holds a body counts as a
    reader of what the body captures. Nodes that reach no output are not live and read nothing.
    """

    def __init__(
        self,
        context: Context,
        proto: GraphProto | FunctionProto,
        path: str = "",
        parent: Graph | None = None,
        owner: Node | None = None,
    ) -> None:
        self.context = context
        self.proto = proto
        self.path = path
        self.parent = parent
        self.owner = owner
        self.bodies: list[Graph] = []
        self.is_function = isinstance(proto, FunctionProto)
        self.opsets: dict[str, int] = parent.opsets if parent else context.opsets
        if isinstance(proto, FunctionProto):
            self.opsets = {domain_of(o.domain): o.version for o in proto.opset_import}
            self.inputs: frozenset[str] = frozenset(proto.input)
            self.outputs: frozenset[str] = frozenset(proto.output)
            self.initializers: dict[str, TensorProto] = {}
            self.sparse: frozenset[str] = frozenset()
        else:
            self.inputs = frozenset(i.name for i in proto.input)
            self.outputs = frozenset(o.name for o in proto.output)
            self.initializers = {t.name: t for t in proto.initializer}
            self.sparse = frozenset(t.values.name for t in proto.sparse_initializer)
        self.local: set[str] = {*self.inputs, *self.initializers, *self.sparse}
        self.nodes: list[Node] = []
        self.producer: dict[str, Node] = {}
        self.readers: dict[str, dict[Node, int]] = {}
        self.constants: dict[str, Const | str] = {}
        self.made_constants: dict[str, Const] = {}
        self.added: dict[Node, None] = {}
        self.removed: set[Node] = set()
        self.left: set[str] = set()  # values that some node read which was taken out since
        self._open(proto.node)

    # ---- building the view

    def _open(self, protos: Iterable[NodeProto]) -> None:
        names = self.context.names
        names.update(self.inputs, self.outputs, self.initializers)
        held: dict[Node, list[tuple[str, GraphProto]]] = {}
        for i, p in enumerate(protos):
            outputs, name = p.output[:], p.name  # slices: iterating takes three times as long
            attributes = {a.name: a for a in p.attribute[:]}
            node = Node(
                (domain_of(p.domain), p.op_type),
                p.input[:],
                outputs,
                (i,),
                name=name,
                proto=p,
                attributes=attributes,
            )
            self.nodes.append(node)
            for o in outputs:
                if o:
                    self.producer[o] = node
            if name:
                self.context.node_names.add(name)
            for a in attributes.values():
                kind = a.type
                if kind == GRAPH:
                    held.setdefault(node, []).append((a.name, a.g))
                elif kind == GRAPHS:
                    held.setdefault(node, []).extend((f"{a.name}[{k}]", g) for k, g in enumerate(a.graphs))
        names.update(self.producer)
        self.local.update(self.producer)
        self._free = {node: [n for _, g in gs for n in free_names(g)] for node, gs in held.items()}
        self._mark_live()
        for node in self.nodes:
            if node.live:
                self.reads(node, node.inputs)
        for node, gs in held.items():
            if node.live:
                for attribute, g in gs:
                    here = f"{node.name or next(iter(node.outputs), node.op_type)}/{attribute}"
                    self.bodies.append(
                        Graph(self.context, g, f"{self.path}/{here}" if self.path else here, self, node)
                    )

    def _mark_live(self) -> None:
        for node in self.nodes:
            node.live = False
        stack = [n for n in map(self.producer.get, self.outputs) if n]
        while stack:
            node = stack.pop()
            if not node.live:
                node.live = True
                for v in (*node.inputs, *self._free.get(node, ())):
                    producer = self.producer.get(v)
                    if producer is not None and not producer.live:
                        stack.append(producer)

    def reads(self, node: Node, values: Iterable[str]) -> None:
        """Note that ``node`` reads the values, each once more."""
        local, all_readers = self.local, self.readers
        for v in values:
            if v in local:
                readers = all_readers.get(v)
                if readers is None:
                    all_readers[v] = {node: 1}
                else:
                    readers[node] = readers.get(node, 0) + 1
            elif v and self.parent is not None and self.owner is not None:
                self.parent.reads(self.owner, (v,))

    def reads_no_more(self, node: Node, values: Iterable[str]) -> None:
        """Note that ``node`` reads the values, each once less."""
        local, all_readers = self.local, self.readers
        for v in values:
            if v in local:
                readers = all_readers[v]
                if readers[node] > 1:
                    readers[node] -= 1
                else:
                    del readers[node]
            elif v and self.parent is not None and self.owner is not None:
                self.parent.reads_no_more(self.owner, (v,))

    # ---- asking

    def is_local(self, value: str) -> bool:
        """Whether the value is made, given or held in this very graph rather than captured from outside."""
        return value in self.local

    def home(self, value: str) -> Graph | None:
        """The graph in whose scope the value is defined, this one or one around it."""
        graph: Graph | None = self
        while graph is not None and value not in graph.local:
            graph = graph.parent
        return graph

    def readers_of(self, value: str) -> Mapping[Node, int]:
        """The live readers of a value of this graph."""
        return self.readers.get(value, {})

    def sole_reader(self, value: str) -> Node | None:
        """The one live node that needs the value, unless it has none, several, or is an output of the graph."""
        if value in self.outputs:
            return None
        readers = self.readers.get(value, {})
        if len(readers) == 1:
            return next(iter(readers))
        alone = (r for r in readers if all(self.goes_with(other, (r,)) for other in readers))
        return next(alone, None)

    def goes_with(self, node: Node, inside: Collection[Node]) -> bool:
        """Whether a reader is needed by nodes ``inside`` alone, for a constant, or by none any more.

        CastLike and Shape make constants of what they ask a value's type or shape for.
        """
        if node in inside:
            return True
        if node in self._free or any(o in self.outputs for o in node.outputs):
            return False
        readers = {r for o in node.outputs for r in self.readers_of(o)}
        if readers and self.constant(node.outputs[0]) is None:
            return False
        return all(self.goes_with(r, inside) for r in readers)

    def opset(self, domain: str = "") -> int:
        """The version that the model (or function) imports of a domain; 0 where it imports none."""
        return self.opsets.get(domain, 0)

    def attribute(self, node: Node, name: str) -> AttributeProto | None:
        """The node's effective attribute: what it gives, else its operator's default; None where there is neither."""
        if name in node.attributes:
            return node.attributes[name]
        return schema_defaults(node.op_type, self.opset(node.kind[0]), node.kind[0]).get(name)

    def live_nodes(self) -> Iterator[Node]:
        """The live nodes in topological order, those of rewrites included."""
        kept = [n for n in self.nodes if n.live and n not in self.removed]
        yield from sorted([*kept, *self.added], key=_order) if self.added else kept

    def constant(self, value: str) -> Const | None:
        """The value as a constant, or None."""
        found = self.constants.get(value)
        if found is None:
            found = self.constants[value] = find_constant(self, value)
        return None if isinstance(found, str) else found

    def why_not_constant(self, value: str) -> str:
        """Why the value is no constant, as the end of a sentence."""
        self.constant(value)
        found = self.constants[value]
        return found if isinstance(found, str) else ""

    def shape(self, value: str) -> tuple[int, ...] | None:
        """The value's dims, -1 for one that is not known; None where not even the rank is."""
        return self.context.shapes.shape(self, value)

    def dtype(self, value: str) -> int:
        """The value's element type (TensorProto.DataType), 0 where unknown."""
        return self.context.shapes.dtype(self, value)

    def __iter__(self) -> Iterator[Graph]:
        """This graph and every body in it, outermost first."""
        yield self
        for body in self.bodies:
            yield from body


def _order(node: Node) -> tuple[int, ...]:
    return node.order


def free_names(graph: GraphProto) -> list[str]:
    """The values that a body captures from around it, bodies inside it included; in order, without repeats."""
    own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    own.update(t.values.name for t in graph.sparse_initializer)
    free: dict[str, None] = {}
    for node in graph.node:
        own.update(node.output)
    for node in graph.node:
        for v in node.input:
            if v and v not in own:
                free[v] = None
        for a in node.attribute:
            for g in (a.g,) if a.type == GRAPH else a.graphs if a.type == GRAPHS else ():
                free.update((v, None) for v in free_names(g) if v not in own)
    for o in graph.output:
        if o.name not in own:
            free[o.name] = None
    return list(free)
