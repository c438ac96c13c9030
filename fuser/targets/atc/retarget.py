"""The model at an opset ATC registers: kept as it is where no operator changes meaning, else converted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuser.targets.atc.convert import Converted, apply_edits, convert_node
from fuser.targets.atc.facts import UNVERSIONED, Release, release
from fuser.targets.atc.opset import Edits, keeps_meaning, schema, takes
from fuser.targets.atc.values import element_types, has_values, replace_nodes
from fuser.targets.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto

_OLDEST, _DOCUMENTED, _NEWEST = 8, 11, 18
FUSED = "fuser"


@dataclass
class _Plan:
    """What moves every node to one opset; ``stuck``: per type the first node that can't go, and why."""

    opset: int
    edits: list[tuple[NodeProto, Edits]] = field(default_factory=list)
    # index of a graph → index of a node → what takes its place
    converted: dict[int, dict[int, Converted]] = field(default_factory=dict)
    stuck: dict[str, tuple[str, str]] = field(default_factory=dict)


def retarget(
    model: ModelProto,
    graphs: Sequence[GraphProto],
    opset: int | None,
    cann: str,
    types: Callable[[], dict[str, TypeProto]],
) -> Iterator[Finding]:
    """Move the model, in place, to ``opset`` or the nearest ATC registers; say what happened, or why not."""
    current = next((entry.version for entry in model.opset_import if entry.domain in {"", "ai.onnx"}), None)
    if current is None:
        return
    fused = {function.name: function for function in model.functions if function.domain == FUSED}
    targets = [opset] if opset is not None else _targets(graphs, current, release(cann))
    if current in targets:
        return
    plans: list[_Plan] = []
    for target in targets:
        plan = _plan(graphs, fused, current, target, None)
        if not plan.stuck:
            plans = [plan]
            break
        plans.append(plan)
    else:
        plans = [_plan(graphs, fused, current, target, types) for target in targets]
    best = min(plans, key=lambda plan: len(plan.stuck), default=None)  # the first of the least stuck
    if best is None:
        return
    if best.stuck:
        yield from _stuck(best, current)
        return
    _apply(model, graphs, best)
    count = sum(map(len, best.converted.values()))
    how = f"{count} nodes converted" if best.converted else "no operator changes meaning"
    yield Finding(
        None,
        "note",
        "",
        f"the model is at opset {best.opset} now, from {current}: {how}",
        "",
        "retarget",
    )


def _stuck(plan: _Plan, current: int) -> Iterator[Finding]:
    for op_type, (name, why) in plan.stuck.items():
        yield Finding(
            "E13010",
            "error",
            name,
            f"{op_type} {why}, so the model can't go from opset {current} to {plan.opset}",
            f"export the model at opset {plan.opset}, or replace {op_type}",
            "opset-conversion",
        )


def _targets(graphs: Sequence[GraphProto], current: int, chosen: Release) -> list[int]:
    """Opsets at which all operators that are registered somewhere are registered.

    The nearest first, but those that ATC documents (11 and up) before those that it merely registers.
    """
    names = {n.op_type for graph in graphs for n in graph.node if not n.domain} - UNVERSIONED
    known = [opsets for opsets in (chosen.opsets("ai.onnx", name) for name in sorted(names)) if opsets]
    common = frozenset(range(_OLDEST, _NEWEST + 1)).intersection(*known)
    return sorted(common, key=lambda version: (version < _DOCUMENTED, abs(version - current), version))


def _plan(
    graphs: Sequence[GraphProto],
    fused: Mapping[str, FunctionProto],
    old: int,
    new: int,
    types: Callable[[], dict[str, TypeProto]] | None,
) -> _Plan:
    """Relabelling only, unless the values' types are given, with which the converter can help.

    ``fused`` are definitions of operators that stay one node: what is in them has to take the types, too.
    """
    plan = _Plan(new)
    elements = element_types(graphs)
    constants = {
        tensor.name: tensor for graph in graphs for tensor in graph.initializer if has_values(tensor)
    }
    for g, graph in enumerate(graphs):
        for i, node in enumerate(graph.node):
            if node.op_type in plan.stuck:
                continue
            if node.domain == FUSED and node.op_type in fused and not _fits(node, fused, new, elements):
                name = node.name or next(iter(node.output), "")
                plan.stuck[node.op_type] = name, f"takes other element types at opset {new}"
            if node.domain:
                continue
            edits = keeps_meaning(node, old, new, elements)
            if edits is not None:
                if edits:
                    plan.edits.append((node, edits))
                continue
            converted = convert_node(node, old, new, types(), constants) if types is not None else None
            if converted is None:
                plan.stuck[node.op_type] = (
                    node.name or next(iter(node.output), ""),
                    _why(node, new, elements),
                )
                if types is None:
                    return plan
            else:
                plan.converted.setdefault(g, {})[i] = converted
    return plan


def _fits(
    node: NodeProto, fused: Mapping[str, FunctionProto], opset: int, elements: Mapping[str, int]
) -> bool:
    """Whether the operators of a definition take the types that this call gives to its inputs."""
    function = fused[node.op_type]
    known = {p: elements.get(v, 0) for p, v in zip(function.input, node.input, strict=False)}
    return all(takes(inner, opset, known) for inner in function.node)


def _why(node: NodeProto, opset: int, elements: dict[str, int]) -> str:
    if schema(node.op_type, opset) is None:
        return f"does not exist at opset {opset}"
    if not takes(node, opset, elements):
        return f"takes other element types at opset {opset}"
    return f"means something else at opset {opset}, with no conversion that is known to be right"


def _apply(model: ModelProto, graphs: Sequence[GraphProto], plan: _Plan) -> None:
    for node, edits in plan.edits:
        apply_edits(node, edits)
    for g, replaced in plan.converted.items():
        replace_nodes(graphs[g], {i: converted.nodes for i, converted in replaced.items()})
        graphs[g].initializer.extend(t for converted in replaced.values() for t in converted.initializers)
    for entry in model.opset_import:
        if entry.domain in {"", "ai.onnx"}:
            entry.version = plan.opset
