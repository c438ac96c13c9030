"""Which memory is in use while each operator of a graph runs: liveness over its topological order.

What counts is what a run allocates: not the inputs, which are the caller's, and not the weights nor what
follows from them alone. Outputs of the graph stay to the end. Operators that only look at the same bytes in
another shape allocate nothing. An operator that holds bodies needs what its hungriest body needs, on top.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuser.memory.order import Operator, Order


@dataclass
class Plan:
    """One way to run a graph: the bytes in use at each operator, and what was written over what."""

    used: list[int] = field(default_factory=list)
    reuses: list[tuple[Operator, str, int]] = field(default_factory=list)

    @property
    def peak(self) -> int:
        """The most that is in use at once."""
        return max(self.used, default=0)


def plan(graph: Order, *, in_place: bool) -> Plan:
    """Run through the graph once. Time grows linearly with its operators."""
    run = _Run(graph, in_place=in_place)
    for value in graph.owned:
        run.allocate(value)
    for operator in graph.operators:
        run.step(operator)
    return run.plan


@dataclass
class _Buffer:
    size: int
    values: int = 1  # how many live values are in it


class _Run:
    """The state of one walk: buffers by value, reads that are left by value."""

    def __init__(self, graph: Order, *, in_place: bool) -> None:
        self.graph, self.in_place = graph, in_place
        self.left = Counter(v for o in graph.operators for v in o.reads)
        self.buffers: dict[str, _Buffer] = {}
        self.total = 0
        self.plan = Plan()

    def step(self, operator: Operator) -> None:
        """Allocate what the operator makes, note what is in use, let go of what nothing needs any longer."""
        before, outputs, over = self.total, operator.outputs, None
        if operator.view and outputs:
            self._view(operator.inputs[0], outputs[0])
            outputs = outputs[1:]
        elif self.in_place and (over := self._write_over(operator)):
            outputs = outputs[1:]
        for value in outputs:
            self.allocate(value)
        used = self.total
        if operator.bodies:
            hungriest = max(plan(body, in_place=self.in_place).peak for body in operator.bodies)
            # The outputs of If are those of the branch that ran.
            used = max(used, before + hungriest) if operator.op == "If" else used + hungriest
        self.plan.used.append(used)
        if over is not None:  # what the output does not fill is free for others
            need = self.graph.sizes[operator.outputs[0]] or 0
            self.total -= over.size - need
            over.size = need
        for value in operator.reads:
            self.left[value] -= 1
            if not self.left[value]:
                self._release(value)
        for value in operator.outputs:
            if not self.left[value]:
                self._release(value)

    def allocate(self, value: str) -> None:
        """New memory for a value; none where its size is not known."""
        size = self.graph.sizes.get(value) or 0
        self.buffers[value] = _Buffer(size)
        self.total += size

    def _view(self, value: str, output: str) -> None:
        buffer = self.buffers.get(value)
        if buffer is not None:
            buffer.values += 1
            self.buffers[output] = buffer
        elif output in self.graph.kept:  # an output that shows an input or a weight is a copy
            self.allocate(output)

    def _write_over(self, operator: Operator) -> _Buffer | None:
        """The memory of an input that the first output goes over: nothing reads it later, the output fits.

        A fused operator may write over the value it convolves, where the output is no larger.
        """
        if not (operator.fused or operator.elementwise) or not operator.outputs:
            return None
        need = self.graph.sizes.get(operator.outputs[0]) or 0
        for value in operator.inputs[:1] if operator.fused else operator.inputs:
            buffer = self.buffers.get(value)
            if not need or buffer is None or buffer.values > 1 or self.left[value] != 1:
                continue
            fits = need <= buffer.size if operator.fused else need == self.graph.sizes.get(value)
            if fits and value not in self.graph.kept:
                buffer.values += 1
                self.buffers[operator.outputs[0]] = buffer
                self.plan.reuses.append((operator, value, need))
                return buffer
        return None

    def _release(self, value: str) -> None:
        if value in self.graph.kept:
            return
        buffer = self.buffers.pop(value, None)
        if buffer is not None:
            buffer.values -= 1
            if not buffer.values:
                self.total -= buffer.size
