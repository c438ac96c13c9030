"""A match while it is made: what its labels, values and variables stand for, and what they may not stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx import AttributeProto

from fuser.engine.evaluate import python_value
from fuser.engine.mismatch import Mismatch
from fuser.engine.schema import ELEMENTWISE, input_name

if TYPE_CHECKING:
    from fuser.engine.compiled import CompiledRule, PatternNode
    from fuser.engine.constant import Const
    from fuser.engine.graph import Graph
    from fuser.engine.node import Node

Binding = AttributeProto | float | int | bool | None
"""What an attribute variable stands for: an attribute, the value of a constant, or an attribute that is not given."""

NEUTRAL: Mapping[tuple[str, int], float] = {
    ("Conv", 2): 0.0,
    ("ConvTranspose", 2): 0.0,
    ("DequantizeLinear", 2): 0.0,
    ("Dropout", 2): 0.0,
    ("Gemm", 2): 0.0,
}
"""What an optional input that is left out stands for: no bias, no zero point, no training."""


@dataclass
class Match:
    """Labels bound to nodes, pattern values to the graph's values, variables to attribute values."""

    rule: CompiledRule
    graph: Graph
    start: Node
    nodes: dict[str, Node] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Binding] = field(default_factory=dict)
    accept: Callable[[Match], Match | Mismatch] | None = None

    def copy(self) -> Match:
        """An independent copy, for trying another order of inputs."""
        nodes, values, variables = self.nodes.copy(), self.values.copy(), self.variables.copy()
        return Match(self.rule, self.graph, self.start, nodes, values, variables, self.accept)

    @property
    def root(self) -> Node:
        """The node that makes the pattern's first output."""
        return self.nodes[self.rule.pattern.root.label]


def fail(at: Match, label: str, node: Node | None, fact: str, *parts: Any, further: int = 0) -> Mismatch:
    """``further`` weighs facts that came equally far: another operator says less than another attribute or value."""
    bound = 2 * (len(at.values) + len(at.variables)) + further
    missing = at.rule.pattern.size - len(at.nodes)
    return Mismatch(at.rule.id, at.graph, at.start, label, node, fact, parts, len(at.nodes), bound, missing)


def bind_variable(
    at: Match, want: PatternNode, node: Node | None, variable: str, value: Binding
) -> Mismatch | None:
    """Let a variable stand for the value, or say that it stands for another one already."""
    if variable not in at.variables:
        at.variables[variable] = value
        return None
    a, b = plain(at.variables[variable]), plain(value)
    if a == b:
        return None
    return fail(at, want.label, node, "{} is {} here and {} elsewhere in the pattern", variable, b, a)


def plain(binding: Binding) -> Any:
    """The binding as a Python value; an attribute of the function around it stays a name."""
    if isinstance(binding, AttributeProto):
        return f"@{binding.ref_attr_name}" if binding.ref_attr_name else python_value(binding)
    return binding


def bind_input(at: Match, want: PatternNode, name: str, value: str, index: int) -> Mismatch | None:
    """Let an input of the pattern stand for a value of the graph, or say what it lacks: presence or element type."""
    if not value and NEUTRAL.get((want.kind[1], index)) is None:
        needed = input_name(want.kind[1], want.kind[0], at.rule.pattern.opset, index)
        return fail(at, want.label, at.nodes[want.label], "has no {}, the pattern needs one", needed)
    demanded = at.rule.pattern.types.get(name)
    if demanded is not None and at.graph.dtype(value) != demanded:
        return fail(at, want.label, at.nodes[want.label], "{!r} has element type {}, the pattern needs {}",
                     value, at.graph.dtype(value) or "unknown", demanded)  # fmt: skip
    at.values[name] = value
    return None


def bind_constant(
    at: Match, want: PatternNode, reader: PatternNode, value: str, index: int
) -> Mismatch | None:
    """Bind a Constant of the pattern to a value that holds one number, or say why that is not so."""
    graph, node = at.graph, at.nodes[reader.label]
    const = graph.constant(value) if value else None
    if const is None or const.is_partial:
        why = graph.why_not_constant(value) if value else "is absent"
        again = value in at.values.values()  # then another order of the inputs was meant
        return fail(
            at, reader.label, node, "{!r} {}; the pattern needs a constant", value, why, further=-again
        )
    number = const.uniform()
    if number is None:
        return fail(at, reader.label, node, "the constant {!r} of shape {} holds different values, the pattern needs one",
                     value, list(const.shape), further=1)  # fmt: skip
    if const.shape and reader.kind[1] in ELEMENTWISE and not _fits(at, const, node, value):
        return fail(at, reader.label, node, "the constant {!r} of shape {} may widen the result; the pattern needs one value",
                     value, list(const.shape), further=1)  # fmt: skip
    for name, literal in want.literal_values.items():
        if name.startswith("value") and number != literal:
            return fail(
                at,
                reader.label,
                node,
                "the constant {!r} is {}, the pattern needs {}",
                value,
                number,
                literal,
                further=1,
            )
    for variable in want.references.values():
        wrong = bind_variable(at, reader, node, variable, number)
        if wrong is not None:
            return wrong
    if want.outputs:
        at.values.setdefault(want.outputs[0], value)
    return None


def _fits(at: Match, const: Const, node: Node, value: str) -> bool:
    """Whether the constant broadcasts into the other operands, so that the result keeps their shape."""
    for v in node.inputs:
        shape = at.graph.shape(v) if v != value else None
        if shape is not None and len(shape) >= len(const.shape):
            tail = shape[len(shape) - len(const.shape) :]
            if all(c in (1, d) for c, d in zip(const.shape, tail, strict=True)):
                return True
    return False
