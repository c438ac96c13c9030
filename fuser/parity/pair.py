"""Two models side by side, and from where a site is cut out of both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from fuser.parity.cut import Cutter
from fuser.parity.scopes import region, used

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuser.parity.result import Site
    from fuser.parity.scopes import Scope
    from fuser.parity.source import Source


@dataclass(frozen=True)
class Pair:
    """A, and B that was made of it."""

    a: Cutter
    b: Cutter

    @classmethod
    def of(cls, a: Source, b: Source) -> Pair:
        """Index both once."""
        return cls(Cutter.of(a), Cutter.of(b))

    def border(self, site: Site) -> tuple[str, ...]:
        """The values from which both compute the site's output.

        These are the site's inputs, which B has. Where B opened a call, A may lack one of them, or have it from the very
        call that gives the output: then they are the call's inputs instead.
        """
        scope, other = self.a.scopes.get(site.graph), self.b.scopes.get(site.graph)
        if scope is None or other is None:
            return site.inputs
        kept = _outside(scope, site.output, [v for v in site.inputs if scope.owner(v) is not None])
        if len(kept) == len(site.inputs):
            return site.inputs
        here = [
            scope.nodes[index] for path, index in region(scope, site.output, kept).nodes if path == scope.path
        ]
        inputs = [
            value
            for node in here
            if (node.domain, node.op_type, node.overload) in self._functions
            for value in used(node)
            if self._varies(scope, value) and other.owner(value) is not None
        ]
        names = _outside(scope, site.output, list(dict.fromkeys([*kept, *inputs])))
        passed_by = set(region(other, site.output, names).free) - set(names)
        return tuple(
            kept if passed_by else names
        )  # where B reads what comes before them, from as far as A has values

    @cached_property
    def _functions(self) -> set[tuple[str, str, str]]:
        return {(f.domain, f.name, f.overload) for f in self.a.source.proto.functions}

    @cached_property
    def _varying(self) -> dict[str, set[str]]:
        return {}

    def _varies(self, scope: Scope, value: str) -> bool:
        """Whether A's value depends on an input of its graph, or of one around that."""
        owner = scope.owner(value)
        if owner is None:
            return False
        if owner.path not in self._varying:
            found = self._varying[owner.path] = set(owner.inputs)
            for node in owner.nodes:
                own = {v for v in used(node) if owner.owner(v) is owner}
                outer = {*used(node)} - own
                if not found.isdisjoint(own) or any(
                    owner.parent and self._varies(owner.parent, v) for v in outer
                ):
                    found.update(node.output)
        return value in self._varying[owner.path]


def _outside(scope: Scope, output: str, names: Sequence[str]) -> list[str]:
    """Those of the names that no node gives which is needed to get from them to the output."""
    known = list(names)
    while True:
        inside = set(region(scope, output, known).nodes)
        kept = [name for name in known if scope.place(name) not in inside]
        if kept == known:
            return known
        known = kept
