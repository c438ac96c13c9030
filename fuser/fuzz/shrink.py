"""Make a failing model small: fewer and simpler decisions, as long as it still fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Decisions = list[int]


def shrink(made: Sequence[int], fails: Callable[[Sequence[int]], bool], tries: int = 600) -> Decisions:
    """The simplest decisions found that still fail, after at most so many tries."""
    search = _Search(list(made), fails, tries)
    before: Decisions = []
    while search.best != before and search.tries > 0:
        before = search.best
        search.cut_out()
        search.lower()
    return search.best


class _Search:
    """The best decisions so far, and how many tries are left."""

    def __init__(self, best: Decisions, fails: Callable[[Sequence[int]], bool], tries: int) -> None:
        self.best, self.tries = best, tries
        self._fails = fails
        self._seen: set[tuple[int, ...]] = set()

    def cut_out(self) -> None:
        """Leave out pieces, large ones first."""
        size = len(self.best)
        while size:
            start = len(self.best) - size
            while start >= 0:
                self._attempt(self.best[:start] + self.best[start + size :])
                start -= size
            size //= 2

    def lower(self) -> None:
        """Make each decision the simplest one, or half."""
        for i in range(len(self.best)):
            for simpler in (0, self.best[i] // 2 if i < len(self.best) else 0):
                if i < len(self.best) and simpler < self.best[i]:
                    self._attempt([*self.best[:i], simpler, *self.best[i + 1 :]])

    def _attempt(self, candidate: Decisions) -> None:
        key = tuple(candidate)
        if self.tries > 0 and key not in self._seen:
            self._seen.add(key)
            self.tries -= 1
            if self._fails(candidate):
                self.best = candidate
