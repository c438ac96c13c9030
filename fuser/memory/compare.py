"""A model and its fused form, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fuser.memory.order import Order, order
from fuser.memory.plan import Plan, plan
from fuser.memory.result import Memory, Reuse, Step, Usage, thinned
from fuser.memory.sizes import input_shapes, prepared

if TYPE_CHECKING:
    from onnx import ModelProto


def memory_of(
    before: ModelProto, after: ModelProto, shapes: Mapping[str, Sequence[int]] | None = None
) -> Memory:
    """Peak of activation memory and bytes moved, in both models.

    Weights may be absent. ``shapes`` are those of inputs with free dims; a free batch is 1 unless given. The
    figures follow from shapes and types alone, so they repeat exactly. Time grows linearly with the nodes.

    Raises:
        ConfigError: a shape is given that an input can't have.
    """
    found, reason = input_shapes(before, shapes or {})
    if reason:
        return Memory({}, reason=reason)
    try:
        graphs = [prepared(model, found).graph for model in (before, after)]
    except Exception as error:  # onnx has no one error for what it can't infer
        why = next(iter(str(error).strip().splitlines()), type(error).__name__)
        return Memory(found, reason=f"onnx can't infer the shapes of values: {why}")
    orders = [order(g) for g in graphs]
    plans = [(plan(o, in_place=False), plan(o, in_place=True)) for o in orders]
    places = {v: i for i, operator in enumerate(orders[0].operators) for v in operator.outputs}
    return Memory(
        found,
        _usage(orders[0], *plans[0], places),
        _usage(orders[1], *plans[1], places),
        tuple(
            Reuse(operator.op, operator.name, operator.outputs[0], value, size)
            for operator, value, size in plans[1][1].reuses
            if operator.fused
        ),
    )


def _usage(graph: Order, fresh: Plan, in_place: Plan, places: Mapping[str, int]) -> Usage:
    steps, at = [], 0
    for operator, used, reused in zip(graph.operators, fresh.used, in_place.used, strict=True):
        at = max([at, *(places[v] for v in operator.outputs if v in places)])
        steps.append(Step(at, used, reused))
    ats = [graph.operators[p.used.index(p.peak)].name if p.used else "" for p in (fresh, in_place)]
    return Usage(fresh.peak, ats[0], in_place.peak, ats[1], graph.moved, graph.unknown, thinned(steps))
