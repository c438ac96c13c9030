"""Whether an operator that a rewrite brings in may stand there, and runs: by the model's opset and element type."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from onnx import TensorProto

from fuser.engine.schema import OPTIONAL, VARIADIC, schema

if TYPE_CHECKING:
    from onnx import FunctionProto

    from fuser.engine.node import Kind

EXPANDED = range(16, 19)
"""The opsets at which onnxruntime expands LeakyRelu and PRelu, by the standard's definition, into operators that it has."""
LACKING: Mapping[tuple[str, int], range] = {
    ("GlobalAveragePool", TensorProto.DOUBLE): range(0),
    ("LeakyRelu", TensorProto.DOUBLE): EXPANDED,
    ("PRelu", TensorProto.DOUBLE): EXPANDED,
}
"""Operators that onnxruntime runs with an element type at these opsets alone, where it runs what they are spelled with at any."""


@cache
def wrong_type(op_type: str, opset: int, dtype: int) -> str:
    """Why the standard operator may not take data of the type at the opset, or would keep a model from running; or ""."""
    found = schema(op_type, opset)
    kind = TensorProto.DataType.Name(dtype).lower() if dtype else ""
    if found is None:
        return f"onnx has no {op_type} at opset {opset}"
    if dtype and found.inputs and f"tensor({kind})" not in found.inputs[0].types:
        return f"{op_type} takes no {kind} at opset {opset}"
    runs = LACKING.get((op_type, dtype))
    if runs is not None and opset not in runs:
        return f"onnxruntime has no {op_type} for {kind} at opset {opset}, and runs what is written here"
    return ""


def wrong_type_in(definition: FunctionProto, found: Collection[Kind], opset: int, dtype: int) -> str:
    """The same for the operators that a fused operator is made of, those left out that the pattern ``found`` here."""
    new = (n.op_type for n in definition.node if ("", n.op_type) not in found)
    return next(filter(None, (wrong_type(op, opset, dtype) for op in new)), "")


def lacking_input(
    domain: str, op_type: str, inputs: Sequence[str], definitions: Sequence[FunctionProto], opset: int
) -> str:
    """Which input an operator needs at the opset and is not given, as words; "" where it has all it needs.

    What a fused operator needs, the operators of its definition do.
    """
    if not domain:
        return _lacking(op_type, inputs, opset)
    for definition in definitions:
        if (definition.domain, definition.name) == (domain, op_type):
            given = set(definition.input[: len(inputs)]).union(*(n.output for n in definition.node))
            for node in definition.node:
                told = _lacking(node.op_type, [v if v in given else "" for v in node.input], opset)
                if told:
                    return told
    return ""


def _lacking(op_type: str, inputs: Sequence[str], opset: int) -> str:
    found = schema(op_type, opset)
    for k, formal in enumerate(found.inputs if found is not None else ()):
        if formal.option not in (OPTIONAL, VARIADIC) and (k >= len(inputs) or not inputs[k]):
            return f"{op_type} can't do without {formal.name} at opset {opset}"
    return ""
