"""What a node of a pattern asks of a node's attributes, worked out once per opset of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuser.engine.schema import disagreement, only_in_model, schema_defaults

if TYPE_CHECKING:
    from onnx import AttributeProto

    from fuser.engine.compiled import PatternNode

WITHOUT_EFFECT = frozenset({("BatchNormalization", "momentum"), ("Dropout", "ratio"), ("Dropout", "seed")})
"""Attributes that say nothing in inference."""
MUST_BE = {"is_test": 1}
"""Attributes of opset 6 whose default says training; patterns mean inference."""


@dataclass(frozen=True)
class Meaning:
    """A pattern node at the model's opset.

    ``wrong`` is why the two opsets' operators do not mean the same. ``settled`` are the attributes that the pattern
    names or that have no effect; others that a node gives, and those of ``asked``, must be the ``defaults``.
    """

    wrong: str
    literals: tuple[tuple[str, Any], ...]
    references: tuple[tuple[str, str], ...]  # attribute, variable of the rule
    settled: frozenset[str]
    asked: frozenset[str]
    defaults: Mapping[str, AttributeProto]


def meaning_of(want: PatternNode, pattern_opset: int, model_opset: int) -> Meaning:
    """What the pattern node asks at the model's opset; a node of a pattern has one opset, so the model's is the key."""
    found = want.meanings.get(model_opset)
    if found is None:
        domain, op = want.kind
        later = frozenset() if domain else only_in_model(op, pattern_opset, model_opset)
        found = want.meanings[model_opset] = Meaning(
            disagreement(op, domain, pattern_opset, model_opset),
            tuple(want.literal_values.items()),
            tuple(want.references.items()),
            frozenset({*want.literal_values, *want.references, *(a for o, a in WITHOUT_EFFECT if o == op)}),
            later & MUST_BE.keys(),
            schema_defaults(op, model_opset, domain),
        )
    return found
