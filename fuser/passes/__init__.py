"""The passes, in order. Each runs over one graph to a fixed point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fuser.passes.emit import emit
from fuser.passes.fold import fold
from fuser.passes.fuse import fuse
from fuser.passes.inline import inline, restore
from fuser.passes.leftover import leftover
from fuser.passes.rules import Rules, sort_rules
from fuser.passes.site import Work
from fuser.passes.spell import spell

__all__ = ["PASSES", "Pass", "Rules", "Work", "fuse", "sort_rules"]


@dataclass(frozen=True)
class Pass:
    """A named function over the work on one graph."""

    name: str
    run: Callable[[Work], None]


PASSES = (
    Pass(
        "inline", inline
    ),  # first: what stands inside a function and what stands outside may belong together
    Pass("spell", spell),  # before the rest: fold and fuse know LeakyRelu by one spelling
    Pass("fold", fold),  # before fuse: an activation reaches its anchor only once nothing stands between
    Pass("fuse", fuse),  # after fold: a fused operator's weights can't be folded into any more
    Pass("restore", restore),  # calls of which nothing was rewritten
    Pass(
        "leftover", leftover
    ),  # changes nothing: after all that could fuse did, before the form hides what is what
    Pass("emit", emit),  # last: the form that was asked for
)
