"""Works out what a rewrite puts into the graph, without touching it.

A rewrite's nodes whose inputs are constant are evaluated, in float64; the others go into the graph in place of the
match. A rewrite that would leave more nodes to run than it takes out declines: then something that it needs to be
constant is not.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from onnx import AttributeProto, TensorProto, helper

from fuser.engine.bind import Match, plain
from fuser.engine.compiled import INTERNAL
from fuser.engine.constant import FLOATS, UNTYPED, Const
from fuser.engine.legal import wrong_type, wrong_type_in
from fuser.engine.mismatch import Mismatch
from fuser.engine.node import Node, Origin, renamed, str_name
from fuser.engine.operators import Undecided
from fuser.engine.program import NEUTRAL_INPUT, Input, Program, Slot, compile_program, run, sentence
from fuser.engine.schema import input_name, is_default

if TYPE_CHECKING:
    from fuser.engine.compiled import Step
    from fuser.engine.graph import Graph

WHOLE = 1 << 30
"""How much of a pattern is bound when only the rewrite declines: more than any pattern has."""
LARGEST: dict[int, float] = {TensorProto.FLOAT16: 65504.0, TensorProto.FLOAT: float(np.finfo(np.float32).max)}
SAFE: dict[int, float] = {
    UNTYPED: np.inf,
    TensorProto.DOUBLE: np.inf,
    **{t: (0.99 * x) ** 2 for t, x in LARGEST.items()},
}
"""A tensor whose squares add up to less is finite in the type."""


class Declined(Exception):  # noqa: N818  (a fact about the model, not an error)
    """The rewrite can't be made; carries the mismatch."""

    def __init__(self, mismatch: Mismatch) -> None:
        super().__init__(str(mismatch))
        self.mismatch = mismatch


@dataclass
class Plan:
    """What a rewrite will put into the graph."""

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Const] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    readers: list[Node] = field(default_factory=list)


def plan(match: Match, graph: Graph) -> Plan:
    """What the match's rewrite puts into the graph.

    Raises:
        Declined: the rewrite can't be made; carries the reason.
    """
    return _Planner(match, graph).made()


class _Planner:
    """One match's rewrite while it is worked out."""

    def __init__(self, match: Match, graph: Graph) -> None:
        self.match = match
        self.rule = match.rule
        self.graph = graph
        self.env: Mapping[str, Const] = {}
        self.sources: dict[str, str] = {}  # runtime values of the rewrite -> names in the graph
        # constants of the rewrite by element type -> names in the graph
        self.made_of: dict[tuple[str, int], str] = {}

    def made(self) -> Plan:
        program, constants = self._program()
        if program.refused:
            self._refuse(program)
        try:
            self.env = run(program, constants)
        except Undecided as e:
            self._decline("{}", e)
        for name in program.conditions:
            if not np.all(self.env[name].array()):
                self._decline("it does not hold that {}", sentence(name))
        plan = Plan()
        for k, (step, slots) in enumerate(zip(program.steps, program.slots, strict=True)):
            if step.kind == ("", "Identity") and self._alias(step, plan):
                continue
            self._check_type(step)
            order = self.match.root.order
            plan.nodes.append(
                self._node(step, slots, order if len(program.steps) == 1 else (*order, k), plan)
            )
        for o, value in self.rule.output_of.items():
            if o in self.env:
                plan.constants[self.match.values[value]] = self._typed(self.env[o], self.env[o].dtype, o)
        self._inherit(plan)
        return plan

    def _program(self) -> tuple[Program, dict[str, Const]]:
        """The rule's arithmetic for what this match binds, and the constants among that."""
        constants: dict[str, Const] = {}
        rule, graph, values = self.rule, self.graph, self.match.values
        given: list[Input] = []
        for name in rule.arithmetic_inputs:
            value = values[name]
            const = graph.constant(value) if value else NEUTRAL_INPUT
            if const is not None and not const.is_partial:
                constants[name] = const
                given.append(Input(const.dtype, const.shape, const.is_deferred, const.source is None))
            else:
                given.append(Input(None, graph.shape(value) if name in rule.shapes_asked else None))
        variables = [plain(self.match.variables.get(v)) for v in rule.arithmetic_variables]
        key = (graph.opset(), *given, *map(_hashable, variables))
        found = rule.programs.get(key)
        if found is None:
            found = rule.programs[key] = compile_program(
                rule,
                dict(zip(rule.arithmetic_inputs, given, strict=True)),
                dict(zip(rule.arithmetic_variables, variables, strict=True)),
                graph.opset(),
            )
        return found, constants

    def _refuse(self, program: Program) -> NoReturn:
        """Say why the program can't be run, by the model's names."""
        name = program.needs
        if not name:
            bound = ", ".join(
                f"{v} = {plain(self.match.variables.get(v))}" for v in sorted(self.rule.where_variables)
            )
            told = bound and program.refused.startswith("it does not hold")
            self._decline(program.refused + (f" ({bound})" if told else ""), *program.parts)
        value = self.match.values[name]
        why = self.graph.why_not_constant(value) or "has dims that are not known"
        for label, want in self.rule.pattern.nodes.items():
            if name in want.inputs and label in self.match.nodes:
                node = self.match.nodes[label]
                formal = input_name(
                    node.op_type, node.kind[0], self.graph.opset(node.kind[0]), want.inputs.index(name)
                )
                raise Declined(
                    Mismatch(self.rule.id, self.graph, self.match.root, label, node, "{} {!r} is not constant: it {}",
                             (formal, value, why), len(self.match.nodes), bound=WHOLE)
                )  # fmt: skip
        raise AssertionError(f"{self.rule.id}: {name} is no input of the pattern")

    # ---- nodes

    def _node(self, step: Step, slots: Sequence[Slot | None], order: tuple[int, ...], plan: Plan) -> Node:
        match, root, fresh = self.match, self.match.root, self.graph.context.fresh
        inputs: list[str] = []
        for name, slot in zip(step.inputs, slots, strict=True):
            if slot is not None:
                const = self._typed(self.env[name], self._type_for(slot), slot.formal)
                made = self.made_of.get((name, const.dtype))
                if made is None:
                    made = self.made_of[name, const.dtype] = fresh(
                        const.source or f"{str_name(root) or 'value'}_{name}"
                    )
                    plan.constants[made] = const
                inputs.append(made)
            else:
                inputs.append(self._source(name) if name else "")
        while inputs and not inputs[-1]:
            inputs.pop()
        outputs = []
        for o in step.outputs:
            value = self.rule.output_of.get(o)
            name = match.values[value] if value is not None else fresh(f"{root.outputs[0]}_{o}") if o else ""
            self.sources[o] = name
            outputs.append(name)
        same = match.nodes.get(step.label)
        name = (
            same.name
            if same is not None
            else self.graph.context.fresh_node(f"{root.name}_{step.label}")
            if root.name
            else ""
        )
        node = Node(step.kind, inputs, outputs, order, name=name, attributes=self._attributes(step))
        node.label = step.label
        return node

    def _source(self, name: str) -> str:
        """What the graph calls a value of the rewrite that is no constant."""
        value = self.sources.get(name) or self.match.values.get(name)
        assert value is not None, f"{self.rule.id}: {name} has no value"
        return value

    def _attributes(self, step: Step) -> dict[str, AttributeProto]:
        out = dict(step.literals)
        same, others = self.rule.handed_on[step]
        if same:
            given = self.match.nodes[step.label].attributes
            out.update([(a, given[a]) for a in same if a in given])
        for attribute, variable in others:
            value = self.match.variables.get(variable)
            if value is not None and not (isinstance(value, AttributeProto) and is_default(value, attribute)):
                if isinstance(value, float) and _rounded(value) != value and not np.isnan(value):
                    self._decline(
                        "{} = {} is not exact in float32, which attributes are: {} would compute with {}",
                        variable, value, step.op_type, _rounded(value),
                    )  # fmt: skip
                out[attribute] = _named(attribute, value)
        return out

    def _check_type(self, step: Step) -> None:
        """Refuse an operator that is new here, or was here for another type, where it may not stand or does not run."""
        if step.kind == INTERNAL or not step.inputs:
            return
        before = next((n for n in self.match.nodes.values() if n.kind == step.kind), None)
        dtype, opset = self._data_type(step), self.graph.opset()
        if before is not None and dtype in (TensorProto.FLOAT, self.graph.dtype(before.inputs[0])):
            return
        if not step.domain:
            wrong = wrong_type(step.op_type, opset, dtype)
        elif dtype in (TensorProto.FLOAT, 0):
            return
        else:
            made_of = next((d for d in self.rule.definitions if d.name == step.op_type), None)
            wrong = "" if made_of is None else wrong_type_in(made_of, self.rule.finds, opset, dtype)
        if wrong:
            self._decline("{}", wrong)

    def _data_type(self, step: Step) -> int:
        """The element type of a new node's first input, 0 where it is not known."""
        name = step.inputs[0]
        return self.env[name].dtype if name in self.env else self._dtype(name)

    def _type_for(self, slot: Slot) -> int:
        """The element type for a constant input: that of the inputs it must agree with, those that run first."""
        for name in slot.like:
            known = self._dtype(name)
            if known:
                return known
        return slot.dtype

    def _dtype(self, name: str) -> int:
        """The element type of a value that runs; where no Cast is matched, that of the match's constants tells it.

        But not the parameters of a BatchNormalization, which may be float32 beside float16.
        """
        known = self.graph.dtype(self._source(name))
        if known or any(n.op_type.startswith("Cast") for n in self.match.nodes.values()):
            return known
        others = (n for n in self.match.nodes.values() if n.op_type != "BatchNormalization")
        constants = (self.graph.constant(v) for n in others for v in n.inputs if v)
        return next((c.dtype for c in constants if c is not None and c.dtype in FLOATS), 0)

    def _typed(self, const: Const, dtype: int, what: str) -> Const:
        """The constant in the type it will be written in, if it fits."""
        typed = Const(const.data, dtype, const.source)
        if const.is_float:
            wrong = self._not_finite(typed, dtype)
            if wrong:
                self._decline("{} {}", what, wrong)
        return typed

    def _not_finite(self, const: Const, dtype: int) -> str:
        """What is wrong with a folded constant: not finite where what went in was, or out of the type's range."""
        if isinstance(const.data, np.ndarray):
            if np.vdot(const.data, const.data) < SAFE.get(dtype, 0.0):
                return ""
            rounded = const.data if dtype == UNTYPED else const.native()
            if np.isfinite(rounded).all():
                return ""
        elif const.data.bound() <= 0.99 * LARGEST.get(dtype, 0.0):
            return ""
        blocks = const.blocks() if dtype == UNTYPED else const.rounded(dtype)
        bad = sum(block.size - int(np.isfinite(block).sum()) for block in blocks)
        if not bad:
            return ""
        before = self.graph.constant(const.source) if const.source else None
        if before is not None and before.shape == const.shape and _finite_alike(before, const, dtype):
            return ""
        if all(np.isfinite(block).all() for block in const.blocks()):
            largest = max(float(np.abs(block).max()) for block in const.blocks() if block.size)
            kind = TensorProto.DataType.Name(dtype).lower()
            limit = LARGEST.get(dtype)
            return f"would be {largest:g}, beyond the largest finite {kind}" + (
                f", {limit:g}" if limit else ""
            )
        return f"would not be finite in {bad} of {const.size} values"

    # ---- aliases, provenance, refusals

    def _alias(self, step: Step, plan: Plan) -> bool:
        """``y = Identity(x)`` as a rewrite means that y's readers read x; False where the Identity must stay."""
        source = self.match.values.get(step.inputs[0], "")
        if step.outputs[0] not in self.rule.outputs or not source:
            return False
        target = self.match.values[self.rule.output_of[step.outputs[0]]]
        readers = list(self.graph.readers_of(target))
        if target in self.graph.outputs or any(target not in r.inputs for r in readers):
            return False
        plan.aliases[target] = source
        plan.readers += readers
        self.sources[step.outputs[0]] = source
        return True

    def _inherit(self, plan: Plan) -> None:
        """New nodes inherit the origin of the matched node of the same label; the last one gets what is left."""
        left = dict(self.match.nodes)
        for node in plan.nodes:
            node.parts = self.match.nodes
            same = left.pop(node.label, None)
            before = [] if same is None else [same.origin]
            after = [n.origin for n in left.values()] if node is plan.nodes[-1] else []
            node.origin = Origin.joined(*before, self.rule.as_origin, *after)

    def _decline(self, fact: str, *parts: Any) -> NoReturn:
        label, root = self.rule.pattern.root.label, self.match.root
        reached = len(self.match.nodes)
        raise Declined(
            Mismatch(self.rule.id, self.graph, root, label, root, fact, parts, reached, bound=WHOLE)
        )


def _rounded(value: float) -> float:
    return float(np.float32(value))


def _named(attribute: str, value: Any) -> AttributeProto:
    """The attribute under the name that the new operator gives it."""
    if isinstance(value, AttributeProto):
        return value if value.name == attribute else renamed(value, attribute)
    return helper.make_attribute(attribute, value)


def _hashable(value: Any) -> Hashable:
    return tuple(value) if isinstance(value, list) else value


def _finite_alike(before: Const, after: Const, dtype: int) -> bool:
    """Whether both have NaN and infinity in the same places."""
    return all(
        np.array_equal(np.isfinite(a), np.isfinite(b))
        for a, b in zip(before.blocks(), after.rounded(dtype), strict=False)
    )
