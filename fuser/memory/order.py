"""The operators of a graph in the order they run, as plain data: what each reads, makes and moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from fuser.bodies import bodies
from fuser.engine.context import FUSED
from fuser.engine.graph import free_names
from fuser.memory.sizes import sizes_of
from fuser.report.facts import name_of

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

VIEWS = frozenset({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout"})
"""Operators whose first output is their first input's bytes (Dropout as it is in inference)."""
SHAPE_ONLY = frozenset({"Shape", "Size"})
ELEMENTWISE = frozenset(
    {
        *(
            "Abs",
            "Add",
            "And",
            "BatchNormalization",
            "BitShift",
            "Cast",
            "Ceil",
            "Celu",
            "Clip",
            "Cos",
            "Div",
        ),
        *("Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Max", "Min"),
        *("Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu"),
        *("Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Tanh", "ThresholdedRelu"),
        *("Where", "Xor"),
    }
)
"""Operators that compute each element from those at its place: they may write over an input of their size."""


class Operator(NamedTuple):
    """One node that runs. ``reads`` has every value once, those that its bodies capture included."""

    name: str
    op: str
    inputs: list[str]
    outputs: list[str]
    reads: list[str]
    bodies: list[Order]
    fused: bool
    view: bool
    elementwise: bool


class Order(NamedTuple):
    """A graph: the operators that an output depends on and that do not follow from weights alone.

    ``owned`` are the values that are there before the first operator: none in the main graph, whose inputs
    are the caller's; in a body what it is handed in each round. ``moved`` is what its operators read and
    write, bodies once; ``unknown`` how many values they make whose size is not known.
    """

    operators: list[Operator]
    sizes: Mapping[str, int | None]
    kept: frozenset[str]
    owned: list[str]
    moved: int
    unknown: int


def order(graph: GraphProto, outer: Mapping[str, int | None] | None = None) -> Order:
    """The graph as it runs. ``outer`` are the sizes of the values around a body."""
    constants = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    kept = [step for step in live(graph) if not _is_constant(*step, constants)]
    sizes = sizes_of(graph)
    if outer:
        sizes.update((v, outer[v]) for _, reads in kept for v in reads if v not in sizes and v in outer)
    operators = [_operator(node, reads, sizes) for node, reads in kept]
    return Order(
        operators,
        sizes,
        frozenset(o.name for o in graph.output),
        [] if outer is None else [v.name for v in graph.input],
        sum(_moved(o, sizes) for o in operators),
        sum(sizes.get(v) is None for o in operators for v in o.outputs)
        + sum(b.unknown for o in operators for b in o.bodies),
    )


def _operator(node: NodeProto, reads: list[str], sizes: Mapping[str, int | None]) -> Operator:
    op, standard, inputs = node.op_type, node.domain in ("", "ai.onnx"), list(node.input)
    return Operator(
        name_of(node),
        op,
        inputs,
        [o for o in node.output if o],
        reads,
        [order(g, sizes) for g in bodies(node)],
        fused=node.domain == FUSED,
        view=standard and op in VIEWS and bool(inputs),
        elementwise=standard and op in ELEMENTWISE,
    )


def _moved(o: Operator, sizes: Mapping[str, int | None]) -> int:
    if o.view:
        return 0
    reads = [] if o.op in SHAPE_ONLY else o.reads
    return sum(sizes.get(v) or 0 for v in (*reads, *o.outputs)) + max((b.moved for b in o.bodies), default=0)


def live(graph: GraphProto) -> list[tuple[NodeProto, list[str]]]:
    """The nodes that an output depends on, in order, each with what it reads."""
    needed = {o.name for o in graph.output}
    kept = []
    for node in reversed(graph.node):
        if not needed.isdisjoint(node.output):
            reads = _reads(node)
            kept.append((node, reads))
            needed.update(reads)
    return kept[::-1]


def _reads(node: NodeProto) -> list[str]:
    found = dict.fromkeys(v for v in node.input if v)
    for g in bodies(node):
        found.update(dict.fromkeys(free_names(g)))
    return list(found)


def _is_constant(node: NodeProto, reads: Iterable[str], constants: set[str]) -> bool:
    """Whether the node's values follow from weights alone; they are then constants themselves."""
    if node.op_type.startswith("Random") or not constants.issuperset(reads):
        return False
    constants.update(node.output)
    return True
