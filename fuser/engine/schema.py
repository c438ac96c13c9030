"""What an operator means at an opset: defaults, and whether two versions of it agree."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from onnx import AttributeProto, TensorProto, defs

OPTIONAL, VARIADIC = (
    defs.OpSchema.FormalParameterOption.Optional,
    defs.OpSchema.FormalParameterOption.Variadic,
)

COMMUTATIVE = frozenset({"Add", "And", "Equal", "Max", "Mean", "Min", "Mul", "Or", "Sum", "Xor"})
"""Operators whose two inputs may change places."""

ELEMENTWISE = frozenset(
    {"Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul",
     "Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor"}
)  # fmt: skip
"""Operators that broadcast their inputs against each other."""


@cache
def schema(op_type: str, opset: int, domain: str = "") -> defs.OpSchema | None:
    """The operator's schema at an opset; None for an operator that onnx does not define there."""
    try:
        return defs.get_schema(op_type, opset, domain) if opset else None
    except defs.SchemaError:
        return None


@cache
def schema_defaults(op_type: str, opset: int, domain: str = "") -> Mapping[str, AttributeProto]:
    """The operator's default attributes at an opset, by name."""
    found = schema(op_type, opset, domain)
    if found is None:
        return {}
    defaults = {n: a.default_value for n, a in found.attributes.items() if a.default_value.type}
    _DEFAULTS.update((id(a), n) for n, a in defaults.items())
    return defaults


_DEFAULTS: dict[int, str] = {}  # names by identity; the cache above keeps the attributes alive


def is_default(attribute: AttributeProto, name: str) -> bool:
    """Whether the attribute came, under this name, from an operator's schema rather than from a node."""
    return _DEFAULTS.get(id(attribute)) == name


@cache
def disagreement(op_type: str, domain: str, pattern_opset: int, model_opset: int) -> str:
    """Why a pattern's operator does not mean the model's; empty where both mean the same.

    They mean the same when they are one version, or take the same inputs (up to further optional ones) and give the
    attributes they share the same defaults. Attributes that only the model's version has are the matcher's to compare
    with their defaults.
    """
    if domain:
        return ""
    ours, theirs = schema(op_type, pattern_opset), schema(op_type, model_opset)
    if ours is None:
        return f"onnx has no {op_type} at the pattern's opset {pattern_opset}"
    if theirs is None:
        return f"onnx has no {op_type} at opset {model_opset}"
    if ours.since_version == theirs.since_version:
        return ""
    shorter, longer = sorted((list(ours.inputs), list(theirs.inputs)), key=len)
    if any(p.option not in (OPTIONAL, VARIADIC) for p in longer[len(shorter) :]) or (
        bool(shorter) and shorter[-1].option == VARIADIC
    ) != (bool(longer) and longer[-1].option == VARIADIC):
        return f"takes other inputs at opset {model_opset} than at the pattern's {pattern_opset}"
    a, b = (schema_defaults(op_type, o) for o in (pattern_opset, model_opset))
    for name in a.keys() & b.keys():
        if a[name].SerializeToString(deterministic=True) != b[name].SerializeToString(deterministic=True):
            return (
                f"has another default for {name} at opset {model_opset} than at the pattern's {pattern_opset}"
            )
    return ""


@cache
def only_in_model(op_type: str, pattern_opset: int, model_opset: int) -> frozenset[str]:
    """Attributes that the model's version of an operator has and the pattern's has not."""
    ours, theirs = schema(op_type, pattern_opset), schema(op_type, model_opset)
    if ours is None or theirs is None or ours.since_version == theirs.since_version:
        return frozenset()
    return frozenset(theirs.attributes) - frozenset(ours.attributes)


@cache
def input_name(op_type: str, domain: str, opset: int, index: int) -> str:
    """What the operator calls its input, for sentences."""
    found = schema(op_type, opset, domain)
    if found is None or not found.inputs:
        return f"input {index}"
    return found.inputs[min(index, len(found.inputs) - 1)].name


@cache
def same_type_as(op_type: str, domain: str, opset: int, index: int) -> tuple[int, ...]:
    """The inputs that must have the same element type as input ``index``, itself left out."""
    found = schema(op_type, opset, domain)
    if found is None or index >= len(found.inputs):
        return ()
    mine = found.inputs[index].type_str
    return tuple(i for i, p in enumerate(found.inputs) if p.type_str == mine and i != index)


@cache
def a_type(op_type: str, opset: int, index: int) -> int:
    """An element type that the standard operator takes for an input: float where it may be that."""
    found = schema(op_type, opset)
    formal = found.inputs[min(index, len(found.inputs) - 1)] if found is not None and found.inputs else None
    names = [] if formal is None else sorted(t[7:-1].upper() for t in formal.types if t.startswith("tensor("))
    return TensorProto.DataType.Value(names[0]) if names and "FLOAT" not in names else TensorProto.FLOAT
