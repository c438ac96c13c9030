"""What a node of a rule file may not say, by its operator's schema or definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import AttributeProto

from fuser.language.check import nearest
from fuser.language.operators import (
    DEFINITIONS,
    RULE_DOMAINS,
    TYPE_NAMES,
    Operator,
    Operators,
    is_standard,
    key_of,
    standard_names,
)

if TYPE_CHECKING:
    from fuser.errors import PatternError
    from fuser.language.text import Block


def check_nodes(block: Block, operators: Operators) -> None:
    """Refuse nodes that their operator's schema (or definition) does not allow."""
    for at, node in enumerate(block.nodes):
        line = block.lines.nodes[at]
        domain = key_of(node)[0]
        _check_attributes(block, at)
        if domain in RULE_DOMAINS and block.domain:
            raise block.refuse(f"only `main` calls {domain}.{node.op_type}; write the nodes out here", line)
        if domain not in block.imports:
            raise block.refuse(
                f'{block.title} does not import the domain of {node.op_type}; add "{domain}" : 1 '
                "to the opset_import of its header",
                line,
            )
        operator = operators.find(node, block.imports)
        if operator is not None:
            _check_call(block, at, operator)
        elif node.overload or domain in {DEFINITIONS, *RULE_DOMAINS} or is_standard(domain):
            raise _unknown_operator(block, at, operators)


def check_reference_types(*blocks: Block) -> None:
    """Refuse an attribute that is referred to with two types; the blocks share one signature."""
    seen: dict[str, tuple[int, int]] = {}
    for block in blocks:
        for node, lines in zip(block.nodes, block.lines.attributes, strict=True):
            for attribute, line in zip(node.attribute, lines, strict=True):
                name = attribute.ref_attr_name
                if name and seen.setdefault(name, (attribute.type, line))[0] != attribute.type:
                    here, there = _type_name(attribute.type), _type_name(seen[name][0])
                    sentence = (
                        f"@{name} is {here} here and {there} on line {seen[name][1]}; make it two attributes"
                    )
                    raise block.refuse(sentence, line)


def _type_name(kind: int) -> str:
    return TYPE_NAMES.get(kind, "untyped")


def _unknown_operator(block: Block, at: int, operators: Operators) -> PatternError:
    domain, op_type, overload = key_of(block.nodes[at])
    line = block.lines.nodes[at]
    name = op_type + (f":{overload}" if overload else "")
    if is_standard(domain):
        version = block.imports[domain]
        guess = nearest(op_type, standard_names(domain, version))
        return block.refuse(f"ONNX has no operator {name or '(no name)'} at opset {version}; {guess}", line)
    known = [n + (f":{over}" if over else "") for (where, n, over) in operators.defined if where == domain]
    return block.refuse(f"no function {domain}.{name} is defined; {nearest(name, known)}", line)


def _check_attributes(block: Block, at: int) -> None:
    """Refuse attributes that are wrong whatever the operator."""
    seen = set()
    for attribute, line in zip(block.nodes[at].attribute, block.lines.attributes[at], strict=True):
        name, reference = attribute.name, attribute.ref_attr_name
        if name in seen:
            raise block.refuse(f"attribute {name} is given twice; remove one", line)
        seen.add(name)
        if attribute.type in {AttributeProto.GRAPH, AttributeProto.GRAPHS}:
            raise block.refuse(
                f"attribute {name} is a subgraph, which rules can't hold; write the nodes out", line
            )
        if reference and reference not in block.attributes:
            guess = nearest(reference, block.attributes, mark="@")
            raise block.refuse(f"@{reference} is no attribute of {block.title}; {guess}", line)
        if reference and attribute.type == AttributeProto.UNDEFINED:
            raise block.refuse(
                f"the reference must say the type of {name}, as in `{name}: float = @{reference}`", line
            )


def _check_call(block: Block, at: int, operator: Operator) -> None:
    node, line = block.nodes[at], block.lines.nodes[at]
    for attribute, place in zip(node.attribute, block.lines.attributes[at], strict=True):
        name, expected = attribute.name, operator.attributes.get(attribute.name)
        if expected is None:
            guess = nearest(name, sorted(operator.attributes))
            raise block.refuse(f"{node.op_type} has no attribute {name}; {guess}", place)
        if expected not in {attribute.type, AttributeProto.UNDEFINED}:
            raise block.refuse(_wrong_type(attribute, expected), place)
    if operator.required_attributes:
        given = {attribute.name for attribute in node.attribute}
        for name in sorted(operator.required_attributes - given):
            raise block.refuse(f"{node.op_type} needs attribute {name}; give it a value", line)
    count, least, most = len(node.input), operator.min_inputs, operator.max_inputs
    if most is not None and count > most:
        raise block.refuse(
            f"{node.op_type} takes at most {_counted(most, 'input')}, not {count}; remove some", line
        )
    if count < least:
        raise block.refuse(
            f"{node.op_type} takes at least {_counted(least, 'input')}, not {count}; add some", line
        )
    for position, name in enumerate(node.input):
        if not name and position in operator.required_inputs:
            raise block.refuse(f"input {position + 1} of {node.op_type} is not optional; name a value", line)
    count, most = len(node.output), operator.max_outputs
    if most is not None and count > most:
        raise block.refuse(
            f"{node.op_type} has at most {_counted(most, 'output')}, not {count}; remove some", line
        )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _wrong_type(attribute: AttributeProto, expected: int) -> str:
    name, kind, found = attribute.name, _type_name(expected), _type_name(attribute.type)
    if attribute.ref_attr_name:
        return f"attribute {name} is {kind}, not {found}; write `{name}: {kind} = @{attribute.ref_attr_name}`"
    if (kind, found) == ("float", "int"):
        return f"attribute {name} is float, not int; write {float(attribute.i)}"
    return f"attribute {name} is {kind}, not {found}; write a value of type {kind}"
