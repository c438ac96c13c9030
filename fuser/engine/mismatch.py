"""Why a rule does not apply at a place, as a value.

Which node of the pattern, which node of the model, the fact, and how far the match got. It is falsy, and put into words
only when somebody reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuser.engine.node import Node, str_name
from fuser.engine.weightside import OVERRIDABLE

if TYPE_CHECKING:
    from fuser.engine.graph import Graph

FREEZE = "--freeze-inputs"


@dataclass(frozen=True)
class Mismatch:
    """Why a rule does not apply at a place. Falsy; ``str`` gives the sentence."""

    rule: str
    graph: Graph
    root: Node
    label: str
    node: Node | None
    fact: str
    parts: tuple[Any, ...] = ()
    reached: int = 0
    bound: int = 0  # values and variables bound by then: tells apart what got equally far
    missing: int = 0  # nodes of the pattern that were not matched

    def __bool__(self) -> bool:
        return False

    def nearer_than(self, other: Mismatch) -> bool:
        """Whether it lacks less: fewer nodes of its pattern, or has more of what is between them."""
        return (-self.missing, self.reached, self.bound) > (-other.missing, other.reached, other.bound)

    @property
    def is_near(self) -> bool:
        """Whether people want to hear of it: half of a pattern was there, or all of a short one."""
        return self.missing == 0 or (self.reached > 1 and self.missing <= self.reached)

    @property
    def hint(self) -> str:
        """The option that is the way out, where there is one."""
        return FREEZE if OVERRIDABLE in self.reason else ""

    @property
    def reason(self) -> str:
        """The fact in words: what is there, and what the pattern needs."""
        return self.fact.format(*self.parts)

    def __str__(self) -> str:
        where = f"{self.node.op_type} {str_name(self.node)!r}: " if self.node is not None else ""
        return f"[{self.label}] {where}{self.reason}"
