"""A rule made ready for the engine: pattern nodes by label and by value, the root, and the arithmetic to run."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from fuser.engine.evaluate import python_value
from fuser.engine.node import Kind, Origin
from fuser.engine.operators import OPERATORS
from fuser.engine.schema import COMMUTATIVE
from fuser.language import Ref

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto

    from fuser.engine.meaning import Meaning
    from fuser.engine.program import Program
    from fuser.language import Body, RewriteRule, RuleNode

WHERE = "where "
INTERNAL = ("fuser", "Affine")
"""x · scale + shift: what BatchNormalization, Mul, Add, Sub and Div become on the way into a weight. Never written."""


@dataclass(frozen=True, eq=False)
class PatternNode:
    """One node of a pattern, as the matcher reads it."""

    label: str
    kind: Kind
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    literals: Mapping[str, AttributeProto]
    literal_values: Mapping[str, Any]
    references: Mapping[str, str]  # attribute of the operator -> variable of the rule
    is_constant: bool
    orders: tuple[tuple[int, ...], ...]  # the orders of inputs to try
    meanings: dict[int, Meaning] = field(default_factory=dict)  # at the opsets of models met so far


@dataclass(frozen=True, eq=False)
class Pattern:
    """What to find: nodes by label, the producer of each value, the root that makes the first output."""

    opset: int
    inputs: frozenset[str]
    outputs: tuple[str, ...]
    nodes: Mapping[str, PatternNode]
    producer: Mapping[str, tuple[PatternNode, int]]
    root: PatternNode
    types: Mapping[str, int]  # element types that the pattern demands of its inputs
    size: int  # nodes that are not constants


@dataclass(frozen=True, eq=False)
class Step:
    """One node of a rewrite or a condition: evaluated where its inputs are constant, else put into the graph."""

    label: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    literals: Mapping[str, AttributeProto]
    literal_values: Mapping[str, Any]
    references: Mapping[str, str]

    @cached_property
    def kind(self) -> Kind:
        """Domain and operator."""
        return (self.domain, self.op_type)


@dataclass(frozen=True, eq=False)
class CompiledRule:
    """A rewrite rule as the engine runs it."""

    id: str
    name: str
    pattern: Pattern
    rewrite: tuple[Step, ...]
    outputs: tuple[str, ...]
    where: tuple[Step, ...]
    conditions: tuple[str, ...]
    definitions: tuple[FunctionProto, ...]
    rule: RewriteRule
    programs: dict[Hashable, Program] = field(default_factory=dict)  # compiled for the shapes met so far

    @cached_property
    def as_origin(self) -> Origin:
        """What the rule adds to the origin of a node it makes."""
        return Origin((), (self.id,))

    @cached_property
    def handed_on(self) -> Mapping[Step, tuple[tuple[str, ...], tuple[tuple[str, str], ...]]]:
        """For each node of the rewrite the attributes it has from the matched node of its label, and its other references."""
        found = {}
        for step in self.rewrite:
            same = self.pattern.nodes.get(step.label)
            mine = step.references.items()
            kept = mine & same.references.items() if same is not None else set()
            found[step] = (tuple(sorted(a for a, _ in kept)), tuple(sorted(mine - kept)))
        return found

    @cached_property
    def output_of(self) -> Mapping[str, str]:
        """The pattern's output that each output of the rewrite stands for."""
        return dict(zip(self.outputs, self.pattern.outputs, strict=True))

    @cached_property
    def arithmetic_inputs(self) -> tuple[str, ...]:
        """The pattern's inputs that the rewrite or a condition computes with, not those that it merely passes on."""
        read = {v for s in (*self.where, *self.rewrite) if is_evaluated(s) for v in s.inputs}
        return tuple(v for v in self.rule.pattern.inputs if v in read)

    @cached_property
    def shapes_asked(self) -> frozenset[str]:
        """The inputs whose shape the rule asks for."""
        return frozenset(s.inputs[0] for s in (*self.where, *self.rewrite) if s.op_type in ("Shape", "Size"))

    @cached_property
    def arithmetic_variables(self) -> tuple[str, ...]:
        """The attribute variables that the rewrite or a condition computes with."""
        return tuple(sorted(variables_used((*self.where, *self.rewrite))))

    @cached_property
    def where_variables(self) -> frozenset[str]:
        """The attribute variables that conditions are about."""
        return variables_used(self.where)

    @cached_property
    def makes(self) -> frozenset[Kind]:
        """The operators of domain ``fuser`` that the rewrite puts into the graph."""
        return frozenset(s.kind for s in self.rewrite if s.domain == "fuser")

    @cached_property
    def folds(self) -> bool:
        """Whether an affine operator disappears in it: what it computes has to become weights."""
        return (self.name == "Fold" or INTERNAL in self.finds) and INTERNAL not in self.makes

    @cached_property
    def finds(self) -> frozenset[Kind]:
        """The operators that the pattern is made of."""
        return frozenset(n.kind for n in self.pattern.nodes.values() if not n.is_constant)


@lru_cache(maxsize=1024)
def compile_rule(rule: RewriteRule) -> CompiledRule:
    """The rule made ready; nothing of a model is looked at."""
    where = rule.where
    return CompiledRule(
        id=rule.id,
        name=rule.name,
        pattern=_pattern(rule.pattern),
        rewrite=_steps(rule.rewrite),
        outputs=rule.rewrite.outputs,
        where=() if where is None else _steps(where, WHERE),
        conditions=() if where is None else tuple(WHERE + o for o in where.outputs),
        definitions=rule.definitions,
        rule=rule,
    )


def _attributes(node: RuleNode) -> tuple[dict[str, AttributeProto], dict[str, Any], dict[str, str]]:
    literals = {n: a for n, a in node.attributes.items() if not isinstance(a, Ref)}
    references = {n: a.name for n, a in node.attributes.items() if isinstance(a, Ref)}
    return literals, {n: python_value(a) for n, a in literals.items()}, references


def _pattern(body: Body) -> Pattern:
    nodes: dict[str, PatternNode] = {}
    producer: dict[str, tuple[PatternNode, int]] = {}
    for n in body.nodes:
        literals, values, references = _attributes(n)
        swaps = (
            not n.domain and n.op_type in COMMUTATIVE and len(n.inputs) == 2 and n.inputs[0] != n.inputs[1]
        )
        node = PatternNode(
            n.label,
            (n.domain, n.op_type),
            n.inputs,
            n.outputs,
            literals,
            values,
            references,
            is_constant=not n.domain and n.op_type == "Constant",
            orders=((0, 1), (1, 0)) if swaps else (tuple(range(len(n.inputs))),),
        )
        nodes[n.label] = node
        producer.update((o, (node, k)) for k, o in enumerate(n.outputs) if o)
    return Pattern(
        opset=body.opset,
        inputs=frozenset(body.inputs),
        outputs=body.outputs,
        nodes=nodes,
        producer=producer,
        root=producer[body.outputs[0]][0],
        types={
            v.name: v.type.tensor_type.elem_type
            for v in body.proto.value_info
            if v.name in body.inputs and v.type.tensor_type.elem_type
        },
        size=sum(not n.is_constant for n in nodes.values()),
    )


def _steps(body: Body, apart: str = "") -> tuple[Step, ...]:
    """The body's nodes; values that they make get names ``apart`` from those of the rule's other bodies."""
    own = {o: apart + o for n in body.nodes for o in n.outputs if o}
    return tuple(
        Step(
            n.label, n.op_type, n.domain,
            tuple(own.get(v, v) for v in n.inputs), tuple(own.get(o, o) for o in n.outputs), *_attributes(n),
        )
        for n in body.nodes
    )  # fmt: skip


def is_evaluated(step: Step) -> bool:
    """Whether constants are computed through the step's operator."""
    return not step.domain and (
        step.op_type in OPERATORS or step.op_type in ("Cast", "CastLike", "Constant", "Shape")
    )


def variables_used(steps: Iterable[Step]) -> frozenset[str]:
    """The attribute variables that arithmetic depends on; those that nodes of the graph merely pass on are left out."""
    return frozenset(v for s in steps if is_evaluated(s) for v in s.references.values())
