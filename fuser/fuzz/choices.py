"""Where a drawn model's decisions come from: one sequence of whole numbers, so that every model can be drawn again and shrunk.

Number 0 is always the simplest decision.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")


class Choices:
    """Decisions, and the record of what was decided."""

    def __init__(self, below: Callable[[int], int]) -> None:
        """``below(n)`` gives a whole number from 0 to n - 1."""
        self._below = below
        self.made: list[int] = []

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""
        chosen = self._below(n)
        self.made.append(chosen)
        return chosen

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, the first being the simplest; listed twice it is drawn twice as often."""
        return options[self.below(len(options))]

    def once_in(self, n: int) -> bool:
        """Yes in one of n draws."""
        return self.below(n) == n - 1

    def array(self, shape: Sequence[int], low: float = -2.0, high: float = 2.0) -> NDArray[Any]:
        """Numbers from ``low`` to ``high``; which, is one decision."""
        return np.random.default_rng(self.below(1 << 16)).uniform(low, high, shape)


def seeded(seed: int) -> Choices:
    """Decisions from a seed."""
    return Choices(random.Random(seed).randrange)  # noqa: S311  (nobody guards a secret with it)


def replayed(made: Sequence[int]) -> Choices:
    """The recorded decisions, as far as they are possible, and the simplest ones after them."""
    left = list(reversed(made))
    return Choices(lambda n: min(left.pop(), n - 1) if left else 0)
