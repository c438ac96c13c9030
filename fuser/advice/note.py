"""One note."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Note:
    """What was seen at a node, what it means, and the numbers that say so.

    ``code`` is one of slope-outside, slope-zero, slope-unlike, bn-untrained, channels-dead, channels-faint,
    never-negative, always-negative. ``numbers`` are finite.
    """

    code: str
    node: str
    message: str
    fix: str
    numbers: tuple[tuple[str, float], ...]

    def to_json(self) -> dict[str, Any]:
        """Dicts, lists, strings and numbers."""
        numbers = [{"name": name, "value": value} for name, value in self.numbers]
        return {**vars(self), "numbers": numbers}
