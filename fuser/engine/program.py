"""A rule's arithmetic for inputs of given shapes, compiled once and run per match: a list of numpy calls.

What follows from shapes and attributes alone (most conditions, most reshaping) is worked out when the program is made.
What is left is arithmetic on the weights' values, which runs for every match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from fuser.engine.compiled import Step, is_evaluated
from fuser.engine.constant import UNTYPED, Const
from fuser.engine.deferred import Deferred
from fuser.engine.evaluate import evaluate, result_type
from fuser.engine.operators import OPERATORS, Operator, Undecided
from fuser.engine.weightside import dims_array

if TYPE_CHECKING:
    from fuser.engine.compiled import CompiledRule

Array = NDArray[Any]
@dataclass(frozen=True)
class Input:
    """What a program is compiled for: a rule's input as a constant or not, its shape (None unknown, -1 for a free dim)."""

    constant: bool
    dtype: int
    shape: tuple[int, ...] | None


@dataclass
class Program:
    """The arithmetic of one rule for inputs of given shapes.

    ``refused`` is why it can't be; then the rest is of no use. ``known`` holds what needs no weights' values,
    ``instructions`` what does, ``steps`` the nodes that go into the graph.
    """

    outputs: tuple[str, ...] = ()
    refused: str = ""
    parts: tuple[Any, ...] = ()
    known: dict[str, Const] = field(default_factory=dict)
    instructions: list[tuple[Step, Mapping[str, Any]]] = field(default_factory=list)
    types: dict[str, tuple[int, str]] = field(default_factory=dict)  # value -> element type, the input it comes from
    conditions: list[str] = field(default_factory=list)  # those that depend on values
    steps: list[Step] = field(default_factory=list)
    needs: str = ""  # the input that would have to be constant
    calls: list[tuple[Operator, tuple[str, ...], str, Mapping[str, Any]]] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    wanted: list[tuple[str, int, str]] = field(default_factory=list)

    def link(self) -> None:
        """Turn the instructions into plain calls, and note which results are needed beyond them."""
        self.calls = [(OPERATORS.get(s.op_type, _cast), s.inputs, s.outputs[0], a) for s, a in self.instructions]
        self.arrays = {name: c.array() for name, c in self.known.items()}
        read = {v for s in self.steps for v in s.inputs} | set(self.conditions) | set(self.outputs)
        made = {s.outputs[0] for s, _ in self.instructions}
        self.wanted = [(v, *self.types[v]) for v in sorted(read & made)]


def compile_program(rule: CompiledRule, inputs: Mapping[str, Input], variables: Mapping[str, Any]) -> Program:
    """Work out everything that shapes and attributes decide. ``variables`` are plain values; "@name" is not known."""
    program = Program(rule.outputs)
    for name, given in inputs.items():
        if given.constant:
            program.types[name] = (given.dtype, name)
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
                program.refused, program.parts = "it does not hold that {}", (name.replace("_", " "),)
                return program
        program.steps = [s for s in rule.rewrite if not _take(s, program, inputs, variables)]
    except Undecided as e:
        program.refused, program.parts = "{}", (str(e),)
        return program
    if len(program.steps) > rule.pattern.size:
        for step in program.steps:
            if not step.domain and step.op_type in OPERATORS:
                program.needs = program.needs or _missing(step, program, inputs)
        program.refused = "is not constant"
        if not program.needs:
            program.refused = "it would leave {} nodes to run in place of {}"
            program.parts = (len(program.steps), rule.pattern.size)
    return program


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
            program.known[step.outputs[0]] = Const(np.asarray(int(np.prod(shape)), np.int64), TensorProto.INT64)
            return True
        return False
    if any(v and v not in program.known and v not in program.types for v in step.inputs):
        return False
    attributes = dict(step.literal_values)
    for attribute, variable in step.references.items():
        value = variables.get(variable)
        if isinstance(value, str) and value.startswith("@"):
            raise Undecided(f"{variable} is the function's attribute {value[1:]!r}, whose value is not known here")
        if value is not None or step.op_type == "Constant":
            attributes[attribute] = value
    if all(not v or v in program.known for v in step.inputs):
        consts = [program.known[v] if v else None for v in step.inputs]
        program.known[step.outputs[0]] = evaluate(step.op_type, consts, attributes)
        return True
    kinds = [(program.known[v].dtype, "") if v in program.known else program.types[v] if v else None for v in step.inputs]
    program.types[step.outputs[0]] = result_type(step.op_type, kinds, attributes)
    program.instructions.append((step, attributes))
    return True


def _shape(shape: tuple[int, ...], attributes: Mapping[str, Any]) -> Const:
    return Const(dims_array(shape[slice(attributes.get("start", 0), attributes.get("end"))]), TensorProto.INT64)


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
    if any(isinstance(c.data, Deferred) for c in constants.values()):
        env = {**program.known, **constants}
        for step, attributes in program.instructions:
            env[step.outputs[0]] = evaluate(step.op_type, [env[v] if v else None for v in step.inputs], attributes)
        return env
    if not program.calls:
        program.link()
    arrays: dict[str, Array] = {**program.arrays, **{name: c.data for name, c in constants.items()}}  # type: ignore[dict-item]
    try:
        for function, inputs, output, attributes in program.calls:
            arrays[output] = function([arrays[v] if v else None for v in inputs], attributes)
    except (ValueError, IndexError, TypeError) as e:
        raise Undecided(f"the rewrite can't be computed: {e}") from None
    out = {**program.known, **constants}
    for name, dtype, source in program.wanted:
        out[name] = Const(arrays[name], dtype, constants[source].source if source in constants else "")
    return out


def _cast(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Array:
    """Cast among calls: what it is cast from does not matter to the values."""
    return evaluate("Cast", [Const(inputs[0], UNTYPED)], attributes).array()


NEUTRAL_INPUT = Const(np.zeros(()), UNTYPED)
"""An optional input that the model leaves out: no bias is a bias of zero."""
