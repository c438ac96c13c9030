"""What an operator takes: from ONNX's schemas, or from the function that defines it in a rule file."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from onnx import AttributeProto, NodeProto, defs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fuser.language.text import Block

Key = tuple[str, str, str]  # domain, op_type, overload
RULE_DOMAINS = ("pattern", "rewrite", "where")
DEFINITIONS = "fuser"

TYPE_NAMES: dict[int, str] = {
    AttributeProto.FLOAT: "float", AttributeProto.INT: "int", AttributeProto.STRING: "string",
    AttributeProto.TENSOR: "tensor", AttributeProto.FLOATS: "floats", AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
}  # fmt: skip
_UNBOUNDED = 2**31 - 1  # how a schema says variadic


@dataclass(frozen=True)
class Operator:
    """Inputs, outputs and attributes of one operator at one version."""

    min_inputs: int
    max_inputs: int | None  # None: any number
    required_inputs: frozenset[int]  # positions that can't be ""
    max_outputs: int | None
    attributes: Mapping[str, int]  # name -> AttributeProto type, UNDEFINED for any
    required_attributes: frozenset[str]


@cache
def standard_operator(domain: str, op_type: str, version: int) -> Operator | None:
    """Return the operator as its schema at this opset says, None where there is none."""
    try:
        schema = defs.get_schema(op_type, version, domain)
    except defs.SchemaError:
        return None
    if schema.deprecated:
        return None
    optional = defs.OpSchema.FormalParameterOption.Optional
    return Operator(
        schema.min_input,
        None if schema.max_input == _UNBOUNDED else schema.max_input,
        frozenset(at for at, parameter in enumerate(schema.inputs) if parameter.option != optional),
        None if schema.max_output == _UNBOUNDED else schema.max_output,
        {name: _number(attribute.type) for name, attribute in schema.attributes.items()},
        frozenset(name for name, attribute in schema.attributes.items() if attribute.required),
    )


def _number(kind: object) -> int:
    return int(kind)  # type: ignore[call-overload,no-any-return]  # an enum of C++, whose stub has no __int__


def is_standard(domain: str) -> bool:
    """Tell whether onnx knows every operator of a domain."""
    return not domain or (domain not in {*RULE_DOMAINS, DEFINITIONS} and domain in _schema_domains())


@cache
def _schema_domains() -> frozenset[str]:  # slow, so not for rules of ai.onnx alone
    return frozenset(schema.domain for schema in defs.get_all_schemas())


def standard_names(domain: str, version: int) -> list[str]:
    """Return the names of a domain's operators at an opset; slow, for the sentence of an error."""
    names = {schema.name for schema in defs.get_all_schemas() if schema.domain == domain}
    return sorted(name for name in names if standard_operator(domain, name, version))


def key_of(node: NodeProto) -> Key:
    """Return domain ("" for ai.onnx), operator and overload of a node."""
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type, node.overload


@dataclass(frozen=True, eq=False)
class Operators:
    """Looks operators up: those that rule files define, else those of the standard."""

    defined: Mapping[Key, Block]
    _known: dict[Key, Operator] = field(default_factory=dict)

    def find(self, node: NodeProto, imports: Mapping[str, int]) -> Operator | None:
        """Return what the node's operator takes, None if nothing is known of it."""
        key = key_of(node)
        if key in self.defined:
            if key not in self._known:
                self._known[key] = self._of_definition(self.defined[key])
            return self._known[key]
        if node.overload or not is_standard(key[0]):
            return None
        return standard_operator(key[0], key[1], imports.get(key[0], 0))

    def _of_definition(self, block: Block) -> Operator:
        """Read a function's signature: an attribute's type is the one its references have."""
        types: dict[str, int] = dict.fromkeys(block.attributes, AttributeProto.UNDEFINED)
        required = set()
        for node in block.nodes:
            inner = self.find(node, block.imports)
            for attribute in node.attribute:
                if name := attribute.ref_attr_name:
                    types[name] = types.get(name) or attribute.type
                    if node.op_type == "Constant" or (inner and attribute.name in inner.required_attributes):
                        required.add(name)
        return Operator(0, len(block.inputs), frozenset(), len(block.outputs), types, frozenset(required))


def called(block: Block, defined: Mapping[Key, Block]) -> Iterable[Key]:
    """Yield the defined operators that a block calls."""
    return (key for key in map(key_of, block.nodes) if key in defined)
