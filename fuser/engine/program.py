"""A rule's arithmetic for inputs of given shapes, compiled once and run per match: a list of numpy calls.

What follows from shapes and attributes alone (most conditions, most reshaping) is worked out when the program is made.
What is left is arithmetic on the weights' values, which runs for every match.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from onnx import TensorProto

from fuser.engine.calls import Calls, link
from fuser.engine.compiled import INTERNAL, WHERE, Step, is_evaluated
from fuser.engine.constant import FLOATS, UNTYPED, Const
from fuser.engine.evaluate import evaluate, result_type
from fuser.engine.legal import lacking_input
from fuser.engine.operators import OPERATORS, Undecided
from fuser.engine.schema import input_name, same_type_as
from fuser.engine.weightside import dims_array

if TYPE_CHECKING:
    from fuser.engine.compiled import CompiledRule


class Input(NamedTuple):
    """What a program is compiled for: a rule's input, by its element type where it is a constant, else None.

    A shape is None where it is not known, and -1 in it is a free dim. ``absent`` says that the model leaves the input out,
    or that it is a multiple of one that was left out.
    """

    dtype: int | None
    shape: tuple[int, ...] | None
    deferred: bool = False
    absent: bool = False


@dataclass(frozen=True)
class Slot:
    """An input of a new node that takes a constant.

    The constant is rounded to the element type of the first of ``like`` whose type is known (values of the graph that the
    operator wants to agree), else to ``dtype``.
    """

    name: str
    dtype: int
    like: tuple[str, ...]
    formal: str  # the operator and what it calls the input


@dataclass
class Program:
    """The arithmetic of one rule for inputs of given types and shapes, in memory or deferred.

    ``refused`` is why it can't be; then the rest is of no use. ``known`` holds what needs no weights' values,
    ``instructions`` what does, ``steps`` the nodes that go into the graph.
    """

    outputs: tuple[str, ...] = ()
    refused: str = ""
    parts: tuple[Any, ...] = ()
    known: dict[str, Const] = field(default_factory=dict)
    instructions: list[tuple[Step, Mapping[str, Any]]] = field(default_factory=list)
    types: dict[str, tuple[int, str | None]] = field(
        default_factory=dict
    )  # value -> element type, the input it comes from
    conditions: list[str] = field(default_factory=list)  # those that depend on values
    steps: list[Step] = field(default_factory=list)
    needs: str = ""  # the input that would have to be constant
    slots: tuple[
        tuple[Slot | None, ...], ...
    ] = ()  # per step and input: the constant that goes there, if one does
    calls: Calls | None = None

    def is_constant(self, name: str) -> bool:
        """Whether a value of the rewrite is computed rather than left to the graph."""
        return name in self.known or name in self.types

    def dtype(self, name: str) -> int:
        """The element type of a constant."""
        return self.known[name].dtype if name in self.known else self.types[name][0]


def compile_program(
    rule: CompiledRule, inputs: Mapping[str, Input], variables: Mapping[str, Any], opset: int
) -> Program:
    """Work out everything that shapes and attributes decide. ``variables`` are plain values; "@name" is not known.

    ``opset`` is that of the graph that the rewrite goes into.
    """
    program = Program(rule.outputs)
    for name, given in inputs.items():
        if given.dtype is not None:
            program.types[name] = (given.dtype, None if given.absent else name)
    try:
        for step in rule.where:
            if not _take(step, program, inputs, variables):
                program.needs = _missing(step, program, inputs)
                program.refused = "is not constant"
                return program
        for name in rule.conditions:
            if name not in program.known:
                program.conditions.append(name)
            elif not np.all(program.known[name].array()):
                program.refused, program.parts = "it does not hold that {}", (sentence(name),)
                return program
        program.steps = [s for s in rule.rewrite if not _take(s, program, inputs, variables)]
    except Undecided as e:
        program.refused, program.parts = "{}", (str(e),)
        return program
    for step in program.steps:
        lacking = lacking_input(step.domain, step.op_type, step.inputs, rule.definitions, opset)
        if lacking:
            program.refused, program.parts = "{}", (lacking,)
            return program
    uncomputed = rule.folds and any(is_evaluated(s) and s.kind not in rule.finds for s in program.steps)
    if uncomputed or len(program.steps) > rule.pattern.size:
        for step in program.steps:
            if not step.domain and step.op_type in OPERATORS:
                program.needs = program.needs or _missing(step, program, inputs)
        program.refused = "is not constant"
        if not program.needs:
            program.refused = "it would leave {} nodes to run in place of {}"
            program.parts = (len(program.steps), rule.pattern.size)
    program.slots = tuple(
        tuple(_slot(program, s, i, opset, inputs) for i in range(len(s.inputs))) for s in program.steps
    )
    return program


def _slot(program: Program, step: Step, i: int, opset: int, given: Collection[str]) -> Slot | None:
    """The constant for a new node's input, with the element type that the inputs it must agree with give it."""
    name = step.inputs[i]
    if not program.is_constant(name) or name in given:
        return None  # what the match binds goes into the new node by the name it has
    formal = f"{step.op_type} {name if step.domain else input_name(step.op_type, '', opset, i)}"
    own = program.dtype(name)
    if step.kind == INTERNAL:
        return Slot(name, UNTYPED, (), formal)
    if own != UNTYPED and own not in FLOATS:
        return Slot(name, own, (), formal)
    others = range(len(step.inputs)) if step.domain else same_type_as(step.op_type, "", opset, i)
    siblings = [step.inputs[j] for j in others if j != i and j < len(step.inputs) and step.inputs[j]]
    types = [own, *(program.dtype(v) for v in siblings if program.is_constant(v))]
    dtype = next((d for d in types if d != UNTYPED), TensorProto.FLOAT)
    return Slot(name, dtype, tuple(v for v in siblings if not program.is_constant(v)), formal)


def _take(step: Step, program: Program, inputs: Mapping[str, Input], variables: Mapping[str, Any]) -> bool:
    """Evaluate the step or note it as an instruction; False where it has to run in the graph."""
    if not is_evaluated(step):
        return False
    if step.op_type in ("Shape", "Size") and step.inputs[0] in inputs:
        shape = inputs[step.inputs[0]].shape
        if shape is None:
            raise Undecided(f"the rank of {step.inputs[0]} is not known")
        if step.op_type == "Shape":
            program.known[step.outputs[0]] = _shape(shape, step.literal_values)
            return True
        if -1 not in shape:
            program.known[step.outputs[0]] = Const(
                np.asarray(int(np.prod(shape)), np.int64), TensorProto.INT64
            )
            return True
        return False
    if any(v and v not in program.known and v not in program.types for v in step.inputs):
        return False
    attributes = dict(step.literal_values)
    for attribute, variable in step.references.items():
        value = variables.get(variable)
        if isinstance(value, str) and value.startswith("@"):
            raise Undecided(
                f"{variable} is the function's attribute {value[1:]!r}, whose value is not known here"
            )
        if value is not None or step.op_type == "Constant":
            attributes[attribute] = value
    if all(not v or v in program.known for v in step.inputs):
        consts = [program.known[v] if v else None for v in step.inputs]
        program.known[step.outputs[0]] = evaluate(step.op_type, consts, attributes)
        return True
    kinds = [
        (program.known[v].dtype, "") if v in program.known else program.types[v] if v else None
        for v in step.inputs
    ]
    program.types[step.outputs[0]] = result_type(step.op_type, kinds, attributes)
    program.instructions.append((step, attributes))
    return True


def _shape(shape: tuple[int, ...], attributes: Mapping[str, Any]) -> Const:
    return Const(
        dims_array(shape[slice(attributes.get("start", 0), attributes.get("end"))]), TensorProto.INT64
    )


def _missing(step: Step, program: Program, inputs: Mapping[str, Input]) -> str:
    """The rule's input that keeps the step from being evaluated."""
    return next((v for v in step.inputs if v in inputs and v not in program.types), "")


def run(program: Program, constants: Mapping[str, Const]) -> Mapping[str, Const]:
    """The constants that nodes of the graph or conditions need, and those of the rule's inputs.

    Raises:
        Undecided: something can't be computed for these values.
    """
    if not program.instructions:
        return {**program.known, **constants}
    if program.calls is not None:
        return program.calls.run(constants)
    env = {**program.known, **constants}
    for step, attributes in program.instructions:
        env[step.outputs[0]] = evaluate(
            step.op_type, [env[v] if v else None for v in step.inputs], attributes
        )
    if any(c.is_deferred for c in constants.values()):
        return env
    program.calls = link(program, constants, env)
    return program.calls.run(constants)


NEUTRAL_INPUT = Const(np.zeros(()), UNTYPED, None)
"""An optional input that the model leaves out: no bias is a bias of zero."""


def sentence(condition: str) -> str:
    """A condition's name as words."""
    return condition.removeprefix(WHERE).replace("_", " ")
