"""A program as plain numpy calls: what it becomes when it has run once and its shapes are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fuser.engine.constant import Const
from fuser.engine.evaluate import ARITHMETIC, RESHAPES, evaluate

if TYPE_CHECKING:
    from fuser.engine.program import Program

Array = NDArray[Any]
Call = tuple[Callable[..., Any], tuple[str, ...], str]
"""A function of arrays, the names of what it takes, and that of what it gives."""


@dataclass(frozen=True)
class Calls:
    """A program whose instructions became plain numpy calls, by what its first run showed of the shapes."""

    calls: tuple[Call, ...]
    arrays: Mapping[str, Array]  # what is known beforehand
    known: Mapping[str, Const]
    results: tuple[
        tuple[str, str, int, str | None], ...
    ]  # name, that of its array, element type, the input it comes from

    def run(self, constants: Mapping[str, Const]) -> Mapping[str, Const]:
        """The constants that are needed beyond the program, for inputs in memory."""
        arrays: dict[str, Any] = {**self.arrays}
        for name, c in constants.items():
            arrays[name] = c.data
        for function, inputs, output in self.calls:
            arrays[output] = function(*[arrays[v] for v in inputs])
        out = {**self.known, **constants}
        for name, array, dtype, source in self.results:
            out[name] = Const(
                np.asarray(arrays[array]), dtype, constants[source].source if source else source
            )
        return out


UNARY: Mapping[str, Callable[[Any], Any]] = {"Abs": np.abs, "Neg": np.negative, "Sqrt": np.sqrt}


def link(program: Program, constants: Mapping[str, Const], env: Mapping[str, Const]) -> Calls:
    """The program as plain calls; ``env`` is what it gave for ``constants``.

    Shapes follow from the inputs' shapes, for which the program was made, as long as nothing is shaped by weights' values:
    ``fixed`` has the floats of which that is so. What else there is goes through ``evaluate`` each time.
    """
    fixed = {name for name, c in (*constants.items(), *program.known.items()) if c.is_float}
    calls: list[Call] = []
    same: dict[str, str] = {}  # values that are another's array
    for step, attributes in program.instructions:
        op, output, inputs = step.op_type, step.outputs[0], step.inputs
        shape = env[output].shape
        names = tuple(same.get(v, v) for v in inputs)
        arranges = op in RESHAPES or op == "Expand"
        if arranges and inputs[0] in fixed and all(not v or v in program.known for v in inputs[1:]):
            fixed.add(output)
            if shape == env[inputs[0]].shape:
                same[output] = names[0]
            else:
                calls.append((_expanded(shape) if op == "Expand" else _reshaped(shape), names[:1], output))
        elif op in ARITHMETIC and fixed.issuperset(inputs):
            fixed.add(output)
            calls.append((ARITHMETIC[op], names, output))
        elif op in UNARY and fixed.issuperset(inputs):
            fixed.add(output)
            calls.append((UNARY[op], names, output))
        else:
            types = [env[v].dtype if v else None for v in inputs]
            calls.append((_evaluated(op, types, attributes), names, output))
    read = {v for s in program.steps for v in s.inputs} | set(program.conditions) | set(program.outputs)
    made = [s.outputs[0] for s, _ in program.instructions if s.outputs[0] in read]
    origins = {v: program.types[v][1] for v in made}
    return Calls(
        tuple(calls),
        {"": None, **{name: c.array() for name, c in program.known.items()}},  # type: ignore[dict-item]
        {name: c for name, c in program.known.items() if name in read},
        tuple(
            (v, same.get(v, v), program.types[v][0], origins[v] if origins[v] in {*constants, None} else "")
            for v in made
        ),
    )


def _reshaped(shape: tuple[int, ...]) -> Callable[[Array], Array]:
    return lambda x: x.reshape(shape)


def _expanded(shape: tuple[int, ...]) -> Callable[[Array], Array]:
    return lambda x: np.broadcast_to(x, shape)


def _evaluated(op: str, types: Sequence[int | None], attributes: Mapping[str, Any]) -> Callable[..., Array]:
    return lambda *arrays: evaluate(
        op,
        [None if t is None else Const(np.asarray(a), t) for a, t in zip(arrays, types, strict=True)],
        attributes,
    ).array()
