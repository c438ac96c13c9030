"""The matcher: a pattern against a graph, from the root backwards, with a reason where it does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fuser.engine.bind import NEUTRAL, Match, bind_constant, bind_input, bind_variable, fail
from fuser.engine.compiled import PatternNode
from fuser.engine.evaluate import python_value
from fuser.engine.meaning import MUST_BE, Meaning, meaning_of
from fuser.engine.node import Node, str_name
from fuser.engine.schema import input_name

if TYPE_CHECKING:
    from fuser.engine.compiled import CompiledRule
    from fuser.engine.graph import Graph
    from fuser.engine.mismatch import Mismatch

INPUTS_WITHOUT_EFFECT = frozenset({("Dropout", 1)})
ONE_OUTPUT = frozenset({"BatchNormalization"})
"""Further outputs, even when nobody reads them, change what these compute."""

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


def _node(at: Match, want: PatternNode, node: Node, rest: Goals) -> Match | Mismatch:
    """Bind a pattern node to a node, then its inputs, then the remaining goals."""
    if node.kind != want.kind:
        return fail(
            at, want.label, node, "is {}, the pattern needs {}", node.op_type, want.kind[1], further=-1
        )
    graph, pattern = at.graph, at.rule.pattern
    op = node.op_type
    meaning = meaning_of(want, pattern.opset, graph.opset(node.kind[0]))
    if meaning.wrong:
        return fail(at, want.label, node, "{}", meaning.wrong)
    wrong = _attributes(at, want, node, meaning)
    if wrong is not None:
        return wrong
    if len(node.outputs) > len(want.outputs):
        for extra in node.outputs[len(want.outputs) :]:
            if extra and (op in ONE_OUTPUT or graph.readers_of(extra) or extra in graph.outputs):
                return fail(
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
            return fail(at, want.label, node, "has {} {!r}, the pattern has none", name, value)
    return None


def _attributes(at: Match, want: PatternNode, node: Node, meaning: Meaning) -> Mismatch | None:
    given, defaults = node.attributes, meaning.defaults
    for name, wanted in meaning.literals:
        there = given[name] if name in given else defaults.get(name)
        value = None if there is None or there.ref_attr_name else python_value(there)
        if there is not None and there.ref_attr_name:
            return fail(at, want.label, node, "{} is the function's attribute {!r}, the pattern needs {}",
                         name, there.ref_attr_name, wanted)  # fmt: skip
        if value != wanted:
            return fail(at, want.label, node, "{} is {}, the pattern needs {}",
                         name, "absent" if value is None else value, wanted)  # fmt: skip
    variables = at.variables
    for name, variable in meaning.references:
        there = given[name] if name in given else defaults.get(name)
        if variable not in variables:
            variables[variable] = there
            continue
        wrong = bind_variable(at, want, node, variable, there)
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
            return fail(at, want.label, node, "{} is {}, the pattern needs {}",
                         name, shown, "none" if wanted is None else wanted)  # fmt: skip
    return None


def _solve(at: Match, goals: Goals) -> Match | Mismatch:
    """Meet the goals one after the other."""
    while goals is not None:
        (name, value, want, index), goals = goals
        pattern = at.rule.pattern
        if name == "":
            if value and NEUTRAL.get((want.kind[1], index)) is None:
                return fail(
                    at, want.label, at.nodes[want.label], "has an input {!r} that the pattern has not", value
                )
            continue
        if name in at.values:
            if at.values[name] != value:
                return fail(at, want.label, at.nodes[want.label], "reads {!r} where the pattern needs {!r} again",
                             value, at.values[name])  # fmt: skip
            continue
        if name in pattern.inputs:
            if value and name not in pattern.types:
                at.values[name] = value
                continue
            wrong = bind_input(at, want, name, value, index)
            if wrong is not None:
                return wrong
            continue
        producer, output = pattern.producer[name]
        if producer.is_constant:
            wrong = bind_constant(at, producer, want, value, index)
            if wrong is not None:
                return wrong
            continue
        node = at.graph.producer.get(value)
        if node is None:
            reader = at.nodes[want.label]
            return fail(
                at,
                want.label,
                reader,
                "reads {!r}, which is no output of {} here",
                value or "nothing",
                producer.kind[1],
            )
        if output >= len(node.outputs) or node.outputs[output] != value:
            return fail(at, producer.label, node, "gives {!r} as another output than the pattern's", value)
        known = at.nodes.get(producer.label)
        if known is not None:
            if known is not node:
                return fail(
                    at,
                    producer.label,
                    node,
                    "is another node than {!r}, which the pattern needs again",
                    str_name(known),
                )
            continue
        if node in at.nodes.values():
            return fail(at, producer.label, node, "already stands for another node of the pattern")
        at.values[name] = value
        return _node(at, producer, node, goals)
    settled = _settle(at)
    return settled if settled is not None else at if at.accept is None else at.accept(at)


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
                return fail(
                    found,
                    label,
                    node,
                    "its output {!r} is an output of the graph; the pattern needs it inside",
                    value,
                )
            for reader in graph.readers_of(value):
                if reader not in inside and not graph.goes_with(reader, inside):
                    return fail(found, label, node, "its output {!r} is also read by {} {!r}; the pattern needs no other reader",
                                 value, reader.op_type, str_name(reader))  # fmt: skip
    return None
