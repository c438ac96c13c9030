"""Free negatives: every built-in pattern matches itself, and no copy of it in which one thing is different."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, defs, helper

from fuser.engine.bind import Match
from fuser.engine.compiled import CompiledRule, compile_rule
from fuser.engine.context import Context
from fuser.engine.match import match
from fuser.engine.meaning import WITHOUT_EFFECT
from fuser.engine.mismatch import Mismatch
from fuser.engine.schema import COMMUTATIVE
from fuser.language import RewriteRule, builtin_folder, load_rules
from fuser.language.body import Ref
from fuser.storage import from_proto

RULES = {rule.id: rule for rule in load_rules(builtin_folder())}
VALUES = {  # for attributes that the pattern binds
    AttributeProto.INT: 1, AttributeProto.FLOAT: 0.25, AttributeProto.INTS: [1, 1], AttributeProto.STRING: "NOTSET",
    AttributeProto.FLOATS: [0.25], AttributeProto.UNDEFINED: 1,
}  # fmt: skip


@dataclass(frozen=True)
class Negative:
    """One difference: what it is, the model that has it, and the node that must be named."""

    what: str
    model: ModelProto
    label: str


def written_out(rule: RewriteRule) -> tuple[list[NodeProto], dict[str, int]]:
    """The pattern's nodes as a graph has them, each named by its label; element types of the inputs."""
    body = rule.pattern
    types = {v.name: v.type.tensor_type.elem_type for v in body.proto.value_info}
    nodes = []
    for n in body.nodes:
        node = helper.make_node(n.op_type, list(n.inputs), list(n.outputs), n.label, domain=n.domain)
        for name, value in n.attributes.items():
            if isinstance(value, Ref):
                reference = next(
                    a for p in body.proto.node for a in p.attribute if a.name == name and a.ref_attr_name
                )
                node.attribute.append(
                    helper.make_attribute(name, VALUES[reference.type], attr_type=reference.type)
                )
            else:
                node.attribute.append(value)
        nodes.append(node)
    return nodes, {i: types.get(i) or TensorProto.FLOAT for i in body.inputs}


def model_of(
    rule: RewriteRule, nodes: list[NodeProto], types: dict[str, int], more: tuple[str, ...] = ()
) -> ModelProto:
    """A model of the nodes; ``more`` are further outputs."""
    inputs = [helper.make_tensor_value_info(i, t, None) for i, t in types.items()]
    outputs = [
        helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in (*rule.pattern.outputs, *more)
    ]
    graph = helper.make_graph(nodes, "pattern", inputs, outputs)
    imports = [
        helper.make_opsetid("", rule.pattern.opset),
        helper.make_opsetid("fuser", 1),
        helper.make_opsetid("test", 1),
    ]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def matched(rule: RewriteRule, model: ModelProto) -> Match | Mismatch:
    """What the matcher says at the node that makes the pattern's first output."""
    graph = Context(from_proto(model)).main
    compiled: CompiledRule = compile_rule(rule)
    return match(compiled, graph.producer[rule.pattern.outputs[0]], graph)


def copies(nodes: list[NodeProto]) -> list[NodeProto]:
    """Independent copies."""
    out = []
    for node in nodes:
        copy = NodeProto()
        copy.CopyFrom(node)
        out.append(copy)
    return out


def negatives(rule: RewriteRule) -> Iterator[Negative]:
    """One difference at a time."""
    nodes, types = written_out(rule)
    outputs = set(rule.pattern.outputs)
    for k, node in enumerate(nodes):
        if node.op_type == "Constant":
            continue
        changed = copies(nodes)
        changed[k].op_type, changed[k].domain = "Other", "test"
        yield Negative(f"{node.name} is another operator", model_of(rule, changed, types), node.name)
        for value in node.output:
            if not value or value in outputs:
                continue
            reader = helper.make_node("Exp", [value], ["extra"], "reader")
            yield Negative(
                f"{value} has another reader",
                model_of(rule, [*copies(nodes), reader], types, ("extra",)),
                node.name,
            )
            yield Negative(f"{value} is an output", model_of(rule, copies(nodes), types, (value,)), node.name)
        yield from pinned(rule, nodes, types, k)


def pinned(rule: RewriteRule, nodes: list[NodeProto], types: dict[str, int], k: int) -> Iterator[Negative]:
    """Attributes that the pattern writes as a literal or leaves at their default, at another value."""
    node, written = nodes[k], rule.pattern.nodes[k].attributes
    if node.domain:
        return
    schema = defs.get_schema(node.op_type, rule.pattern.opset)
    for name, attribute in schema.attributes.items():
        if isinstance(written.get(name), Ref) or (node.op_type, name) in WITHOUT_EFFECT:
            continue
        default = written.get(name) or attribute.default_value
        if default.type not in (AttributeProto.INT, AttributeProto.FLOAT):
            continue
        changed = copies(nodes)
        left = [a for a in changed[k].attribute if a.name != name]
        del changed[k].attribute[:]
        moved = default.i + 1 if default.type == AttributeProto.INT else default.f + 0.5
        changed[k].attribute.extend([*left, helper.make_attribute(name, moved)])
        yield Negative(f"{node.name}'s {name} is moved", model_of(rule, changed, types), node.name)


CASES = [(rule, negative) for rule in RULES.values() for negative in negatives(rule)]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_pattern_matches_itself(rule: RewriteRule) -> None:
    """So that what refuses the copies below is their one difference."""
    nodes, types = written_out(rule)
    found = matched(rule, model_of(rule, nodes, types))
    assert found, str(found)
    assert set(found.nodes) >= {n.name for n in nodes if n.op_type != "Constant"}


@pytest.mark.parametrize(("rule", "negative"), CASES, ids=[f"{r.id}: {n.what}" for r, n in CASES])
def test_one_difference_is_refused_by_name(rule: RewriteRule, negative: Negative) -> None:
    """The mismatch is about the node that differs, or, in a commutative order that got further, about its reader."""
    found = matched(rule, negative.model)
    assert isinstance(found, Mismatch)
    named = {found.node.name} if found.node is not None else set()
    readers = {n.label for n in rule.pattern.nodes if set(_outputs(rule, negative.label)) & set(n.inputs)}
    commutes = any(n.op_type in COMMUTATIVE for n in rule.pattern.nodes)
    assert negative.label in named or (commutes and named & readers), str(found)


def _outputs(rule: RewriteRule, label: str) -> tuple[str, ...]:
    return next(n.outputs for n in rule.pattern.nodes if n.label == label)


def test_there_are_negatives_of_every_kind() -> None:
    """A generator that gives nothing would prove nothing."""
    kinds = ("another operator", "another reader", "an output", "moved")
    counts = {kind: sum(n.what.endswith(kind) or kind in n.what for _, n in CASES) for kind in kinds}
    assert min(counts.values()) > 20, counts
