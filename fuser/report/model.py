"""What a run found. Knows no output format but JSON's types: ``to_json`` is report format 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuser.advice import Note
    from fuser.memory import Memory
    from fuser.parity import Parity

FORMAT = 1
"""Raised when a field changes its meaning or goes; new fields do not raise it."""


@dataclass(frozen=True)
class ModelFacts:
    """The model before and after; ``initializer_bytes`` counts the initializers of bodies too."""

    path: str
    sha256: str
    opset: int
    ir_version: int
    nodes: tuple[int, int]
    initializer_bytes: tuple[int, int]
    operators: tuple[Mapping[str, int], Mapping[str, int]]
    batch_normalizations: tuple[int, int]
    output: str = ""
    output_sha256: str = ""


@dataclass(frozen=True)
class Rewrite:
    """One application of a rule: the nodes it took out, and the value it put anew."""

    pass_name: str
    rule: str
    graph: str
    nodes: tuple[str, ...]
    output: str


@dataclass(frozen=True)
class Fusion:
    """One fused operator: the model's nodes it stands for, those of them that went into weights, its inputs.

    ``ops`` are the operators of ``nodes``, in the same order; ``edges`` say which of them reads which, as
    pairs of indices.
    """

    op: str
    graph: str
    name: str
    output: str
    inputs: tuple[str, ...]
    nodes: tuple[str, ...]
    folded: tuple[str, ...]
    rules: tuple[str, ...]
    negative_slope: float | None
    ops: tuple[str, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Declined:
    """A near miss: the rule, the pattern's node by label, the model's node, why, how many had matched."""

    rule: str
    label: str
    node: str
    op: str
    graph: str
    reason: str
    reached: int
    hint: str = ""

    def __str__(self) -> str:
        """As people read it."""
        hint = f"; {self.hint} would help" if self.hint else ""
        return f"[{self.label}] {self.op} {self.node!r}: {self.reason}{hint}"


@dataclass(frozen=True)
class RuleCount:
    """How often a rule was tried and how often it applied; ``doc`` is what its pattern says of itself."""

    rule: str
    tries: int
    hits: int
    doc: str = ""


@dataclass(frozen=True)
class Report:
    """One run. ``folded`` counts the affine operators that went into weights; ``timing`` is in seconds."""

    tool: Mapping[str, str]
    model: ModelFacts
    rewrites: tuple[Rewrite, ...]
    fusions: tuple[Fusion, ...]
    declined: tuple[Declined, ...]
    rules: tuple[RuleCount, ...]
    target: Mapping[str, Any]
    parity: Parity | None = None
    memory: Memory | None = None
    advice: tuple[Note, ...] = ()
    timing: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Report format 1: dicts, lists, strings, numbers, booleans and None."""
        facts = asdict(self.model)
        for name in ("nodes", "initializer_bytes", "operators", "batch_normalizations"):
            before, after = facts[name]
            facts[name] = {"before": before, "after": after}
        return {
            "format": FORMAT,
            "tool": dict(self.tool),
            "model": facts,
            "rewrites": [
                {
                    "pass": r.pass_name,
                    "rule": r.rule,
                    "graph": r.graph,
                    "nodes": list(r.nodes),
                    "output": r.output,
                }
                for r in self.rewrites
            ],
            "fusions": [_lists(asdict(f)) for f in self.fusions],
            "declined": [asdict(d) for d in self.declined],
            "rules": [asdict(r) for r in self.rules],
            "parity": None if self.parity is None else self.parity.to_json(),
            "memory": None if self.memory is None else self.memory.to_json(),
            "advice": [note.to_json() for note in self.advice],
            "target": dict(self.target),
            "timing": dict(self.timing),
        }


def _lists(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields as JSON has them: a slope that is no finite number becomes None."""
    finite = {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in fields.items()}
    return {k: _listed(v) for k, v in finite.items()}


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value
