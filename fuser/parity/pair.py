"""Two models side by side, and from where a site is cut out of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from fuser.parity.border import Types
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

    before: Source
    after: Source
    _varying: dict[str, set[str]] = field(default_factory=dict)

    @cached_property
    def a(self) -> Cutter:
        """A, indexed when it is first asked for."""
        return Cutter.of(self.before)

    @cached_property
    def b(self) -> Cutter:
        """B likewise."""
        return Cutter.of(self.after)

    @cached_property
    def types(self) -> Types:
        """The types of A's values."""
        return Types(self.a)

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
        # Where B reads what comes before them, it is cut from as far back as A has values.
        return tuple(kept if passed_by else names)

    @cached_property
    def _functions(self) -> set[tuple[str, str, str]]:
        return {(f.domain, f.name, f.overload) for f in self.before.proto.functions}

    def _varies(self, scope: Scope, value: str) -> bool:
        """Whether A's value depends on an input of its graph, or of one around that."""
        owner = scope.owner(value)
        if owner is None:
            return False
        if owner.path not in self._varying:
            found = self._varying[owner.path] = set(owner.inputs)
            for node in owner.nodes:
                if any(v in found or (owner.parent and self._varies(owner.parent, v)) for v in used(node)):
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
