"""The matcher: a pattern against a graph, from the root backwards, with a reason where it does not fit.

A mismatch is a value: which node of the pattern, which node of the model, the fact, and how far it got. It is falsy, and
put into words only when somebody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx import AttributeProto

from fuser.engine.compiled import PatternNode
from fuser.engine.evaluate import python_value
from fuser.engine.meaning import MUST_BE, Meaning, meaning_of
from fuser.engine.node import Node, str_name
from fuser.engine.schema import ELEMENTWISE, input_name
from fuser.engine.weightside import FREEZE

if TYPE_CHECKING:
    from fuser.engine.compiled import CompiledRule
    from fuser.engine.constant import Const
    from fuser.engine.graph import Graph

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

INPUTS_WITHOUT_EFFECT = frozenset({("Dropout", 1)})
ONE_OUTPUT = frozenset({"BatchNormalization"})
"""Further outputs, even when nobody reads them, change what these compute."""


@dataclass(frozen=True)
class Mismatch:
    """Why a rule does not apply at a place. Falsy; ``str`` gives the sentence."""

    rule: str
    graph: Graph
    root: Node
    label: str
    node: Node | None
    fact: str
    parts: tuple[Any, ...] = ()
    reached: int = 0
    bound: int = 0  # values and variables bound by then: tells apart what got equally far
    missing: int = 0  # nodes of the pattern that were not matched

    def __bool__(self) -> bool:
        return False

    def nearer_than(self, other: Mismatch) -> bool:
        """Whether it lacks less: fewer nodes of its pattern, or has more of what is between them."""
        return (-self.missing, self.reached, self.bound) > (-other.missing, other.reached, other.bound)

    @property
    def is_near(self) -> bool:
        """Whether people want to hear of it: half of a pattern was there, or all of a short one."""
        return self.missing == 0 or (self.reached > 1 and self.missing <= self.reached)

    @property
    def hint(self) -> str:
        """The option that is the way out, where there is one."""
        return FREEZE if FREEZE in self.reason else ""

    @property
    def reason(self) -> str:
        """The fact in words: what is there, and what the pattern needs."""
        return self.fact.format(*self.parts)

    def __str__(self) -> str:
        where = f"{self.node.op_type} {str_name(self.node)!r}: " if self.node is not None else ""
        return f"[{self.label}] {where}{self.reason}"


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


Goal = tuple[str, str, PatternNode, int]
Goals = tuple[Goal, "Goals"] | None


def match(
    rule: CompiledRule, root: Node, graph: Graph, accept: Callable[[Match], Match | Mismatch] | None = None
) -> Match | Mismatch:
    """The rule's pattern with its root at this node, or why not.

    ``accept`` has the last word on each way in which the pattern fits: where it refuses, another order of the inputs
    of a commutative operator is tried.
    """
    return _node(Match(rule, graph, root, accept=accept), rule.pattern.root, root, None)


def _fail(at: Match, label: str, node: Node | None, fact: str, *parts: Any, further: int = 0) -> Mismatch:
    """``further`` weighs facts that came equally far: another operator says less than another attribute or value."""
    bound = 2 * (len(at.values) + len(at.variables)) + further
    missing = at.rule.pattern.size - len(at.nodes)
    return Mismatch(at.rule.id, at.graph, at.start, label, node, fact, parts, len(at.nodes), bound, missing)


def _node(at: Match, want: PatternNode, node: Node, rest: Goals) -> Match | Mismatch:
    """Bind a pattern node to a node, then its inputs, then the remaining goals."""
    if node.kind != want.kind:
        return _fail(
            at, want.label, node, "is {}, the pattern needs {}", node.op_type, want.kind[1], further=-1
        )
    graph, pattern = at.graph, at.rule.pattern
    op = node.op_type
    meaning = meaning_of(want, pattern.opset, graph.opset(node.kind[0]))
    if meaning.wrong:
        return _fail(at, want.label, node, "{}", meaning.wrong)
    wrong = _attributes(at, want, node, meaning)
    if wrong is not None:
        return wrong
    if len(node.outputs) > len(want.outputs):
        for extra in node.outputs[len(want.outputs) :]:
            if extra and (op in ONE_OUTPUT or graph.readers_of(extra) or extra in graph.outputs):
                return _fail(
                    at, want.label, node, "has {} outputs, which is training; the pattern needs {}"
                    if op in ONE_OUTPUT else "has {} outputs that are used, the pattern needs {}",
                    sum(bool(o) for o in node.outputs), len(want.outputs),
                )  # fmt: skip
    at.nodes[want.label] = node
    if len(node.inputs) > len(want.inputs):
        wrong = _arity(at, want, node)
        if wrong is not None:
            return wrong
    best: Match | Mismatch | None = None
    for order in want.orders:
        goals = rest
        for k in reversed(range(len(want.inputs))):
            source = order[k]
            value = node.inputs[source] if source < len(node.inputs) else ""
            goals = ((want.inputs[k], value, want, k), goals)
        found = _solve(at.copy() if len(want.orders) > 1 else at, goals)
        if found:
            return found
        if best is None or found.nearer_than(best):  # type: ignore[union-attr,arg-type]
            best = found
    assert best is not None
    return best


def _arity(at: Match, want: PatternNode, node: Node) -> Mismatch | None:
    """Inputs the node has and the pattern has not must be absent, without effect, or neutral."""
    for k in range(len(want.inputs), len(node.inputs)):
        value = node.inputs[k]
        if not value or (node.op_type, k) in INPUTS_WITHOUT_EFFECT:
            continue
        neutral = NEUTRAL.get((node.op_type, k))
        const = at.graph.constant(value) if neutral is not None else None
        if const is None or const.uniform() != neutral:
            name = input_name(node.op_type, node.kind[0], at.graph.opset(node.kind[0]), k)
            return _fail(at, want.label, node, "has {} {!r}, the pattern has none", name, value)
    return None


def _attributes(at: Match, want: PatternNode, node: Node, meaning: Meaning) -> Mismatch | None:
    given, defaults = node.attributes, meaning.defaults
    for name, wanted in meaning.literals:
        there = given[name] if name in given else defaults.get(name)
        value = None if there is None or there.ref_attr_name else python_value(there)
        if there is not None and there.ref_attr_name:
            return _fail(at, want.label, node, "{} is the function's attribute {!r}, the pattern needs {}",
                         name, there.ref_attr_name, wanted)  # fmt: skip
        if value != wanted:
            return _fail(at, want.label, node, "{} is {}, the pattern needs {}",
                         name, "absent" if value is None else value, wanted)  # fmt: skip
    variables = at.variables
    for name, variable in meaning.references:
        there = given[name] if name in given else defaults.get(name)
        if variable not in variables:
            variables[variable] = there
            continue
        wrong = _bind_variable(at, want, node, variable, there)
        if wrong is not None:
            return wrong
    settled = meaning.settled
    for name in (*given, *meaning.asked) if meaning.asked else given:
        if name in settled:
            continue
        needed = MUST_BE.get(name)
        there, default = given[name] if name in given else defaults.get(name), defaults.get(name)
        value = None if there is None or there.ref_attr_name else python_value(there)
        wanted = needed if needed is not None else None if default is None else python_value(default)
        if value == [] and wanted is None:
            continue  # no axes is no axes, written or not
        if value != wanted or (there is not None and there.ref_attr_name):
            shown = (
                value
                if there is None or not there.ref_attr_name
                else f"the function's {there.ref_attr_name!r}"
            )
            return _fail(at, want.label, node, "{} is {}, the pattern needs {}",
                         name, shown, "none" if wanted is None else wanted)  # fmt: skip
    return None


def _bind_variable(
    at: Match, want: PatternNode, node: Node | None, variable: str, value: Binding
) -> Mismatch | None:
    if variable not in at.variables:
        at.variables[variable] = value
        return None
    a, b = plain(at.variables[variable]), plain(value)
    if a == b:
        return None
    return _fail(at, want.label, node, "{} is {} here and {} elsewhere in the pattern", variable, b, a)


def plain(binding: Binding) -> Any:
    """The binding as a Python value; an attribute of the function around it stays a name."""
    if isinstance(binding, AttributeProto):
        return f"@{binding.ref_attr_name}" if binding.ref_attr_name else python_value(binding)
    return binding


def _solve(at: Match, goals: Goals) -> Match | Mismatch:
    """Meet the goals one after the other."""
    while goals is not None:
        (name, value, want, index), goals = goals
        pattern = at.rule.pattern
        if name == "":
            if value and NEUTRAL.get((want.kind[1], index)) is None:
                return _fail(
                    at, want.label, at.nodes[want.label], "has an input {!r} that the pattern has not", value
                )
            continue
        if name in at.values:
            if at.values[name] != value:
                return _fail(at, want.label, at.nodes[want.label], "reads {!r} where the pattern needs {!r} again",
                             value, at.values[name])  # fmt: skip
            continue
        if name in pattern.inputs:
            if value and name not in pattern.types:
                at.values[name] = value
                continue
            wrong = _bind_input(at, want, name, value, index)
            if wrong is not None:
                return wrong
            continue
        producer, output = pattern.producer[name]
        if producer.is_constant:
            wrong = _bind_constant(at, producer, want, value, index)
            if wrong is not None:
                return wrong
            continue
        node = at.graph.producer.get(value)
        if node is None:
            reader = at.nodes[want.label]
            return _fail(
                at,
                want.label,
                reader,
                "reads {!r}, which is no output of {} here",
                value or "nothing",
                producer.kind[1],
            )
        if output >= len(node.outputs) or node.outputs[output] != value:
            return _fail(at, producer.label, node, "gives {!r} as another output than the pattern's", value)
        known = at.nodes.get(producer.label)
        if known is not None:
            if known is not node:
                return _fail(
                    at,
                    producer.label,
                    node,
                    "is another node than {!r}, which the pattern needs again",
                    str_name(known),
                )
            continue
        if node in at.nodes.values():
            return _fail(at, producer.label, node, "already stands for another node of the pattern")
        at.values[name] = value
        return _node(at, producer, node, goals)
    settled = _settle(at)
    return settled if settled is not None else at if at.accept is None else at.accept(at)


def _bind_input(at: Match, want: PatternNode, name: str, value: str, index: int) -> Mismatch | None:
    if not value and NEUTRAL.get((want.kind[1], index)) is None:
        needed = input_name(want.kind[1], want.kind[0], at.rule.pattern.opset, index)
        return _fail(at, want.label, at.nodes[want.label], "has no {}, the pattern needs one", needed)
    demanded = at.rule.pattern.types.get(name)
    if demanded is not None and at.graph.dtype(value) != demanded:
        return _fail(at, want.label, at.nodes[want.label], "{!r} has element type {}, the pattern needs {}",
                     value, at.graph.dtype(value) or "unknown", demanded)  # fmt: skip
    at.values[name] = value
    return None


def _bind_constant(
    at: Match, want: PatternNode, reader: PatternNode, value: str, index: int
) -> Mismatch | None:
    graph, node = at.graph, at.nodes[reader.label]
    const = graph.constant(value) if value else None
    if const is None or const.is_partial:
        why = graph.why_not_constant(value) if value else "is absent"
        again = value in at.values.values()  # then another order of the inputs was meant
        return _fail(
            at, reader.label, node, "{!r} {}; the pattern needs a constant", value, why, further=-again
        )
    number = const.uniform()
    if number is None:
        return _fail(at, reader.label, node, "the constant {!r} of shape {} holds different values, the pattern needs one",
                     value, list(const.shape), further=1)  # fmt: skip
    if const.shape and reader.kind[1] in ELEMENTWISE and not _fits(at, const, node, value):
        return _fail(at, reader.label, node, "the constant {!r} of shape {} may widen the result; the pattern needs one value",
                     value, list(const.shape), further=1)  # fmt: skip
    for name, literal in want.literal_values.items():
        if name.startswith("value") and number != literal:
            return _fail(
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
        wrong = _bind_variable(at, reader, node, variable, number)
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


def _settle(found: Match) -> Mismatch | None:
    """What is wrong with a match as a whole: every value inside has all its readers inside and is no output of the graph."""
    graph, pattern, root = found.graph, found.rule.pattern, found.root
    found.values[pattern.outputs[0]] = root.outputs[0]
    if len(found.nodes) == 1:
        return None
    outside = {found.values.get(o) for o in pattern.outputs}
    inside = found.nodes.values()
    for label, node in found.nodes.items():
        for value in node.outputs if node is not root else ():
            if not value or value in outside:
                continue
            if value in graph.outputs:
                return _fail(
                    found,
                    label,
                    node,
                    "its output {!r} is an output of the graph; the pattern needs it inside",
                    value,
                )
            for reader in graph.readers_of(value):
                if reader not in inside:
                    return _fail(found, label, node, "its output {!r} is also read by {} {!r}; the pattern needs no other reader",
                                 value, reader.op_type, str_name(reader))  # fmt: skip
    return None
