"""What a kind of site was and is, as boxes and arrows: where they stand, not how they are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 138, 34, 14, 26, 8
SIDE = 14
"""How far beside the boxes an arrow runs that passes others."""
MOST_BOXES = 24


@dataclass(frozen=True)
class Box:
    """An operator; ``folded``: it goes into the weights."""

    x: float
    y: float
    text: str
    title: str
    folded: bool = False

    @property
    def top(self) -> tuple[float, float]:
        """Where arrows arrive."""
        return self.x + WIDTH / 2, self.y

    @property
    def bottom(self) -> tuple[float, float]:
        """Where arrows leave."""
        return self.x + WIDTH / 2, self.y + HEIGHT


@dataclass(frozen=True)
class Picture:
    """Boxes and the paths of arrows, in pixels; ``title`` says it in words."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[str, ...]
    title: str


def before(fusion: Json) -> Picture:
    """The model's nodes of a site, each below those it reads."""
    both = list(zip(fusion["ops"], fusion["nodes"], strict=False))[:MOST_BOXES]
    ops, names = [op for op, _ in both], [name for _, name in both]
    edges = [(a, b) for a, b in fusion["edges"] if a != b and max(a, b) < len(ops)]
    if _loose(edges, len(ops)):
        edges = [(i, i + 1) for i in range(len(ops) - 1)]
    depth = _depths(edges, len(ops))
    rows: list[list[int]] = [[] for _ in range(max(depth, default=0) + 1)]
    for i, d in enumerate(depth):
        rows[d].append(i)
    widest = max(map(len, rows))
    skips = any(depth[b] > depth[a] + 1 for a, b in edges)
    width = widest * WIDTH + (widest - 1) * GAP_X + 2 * (MARGIN + SIDE * skips)
    boxes: dict[int, Box] = {}
    for d, row in enumerate(rows):
        left = (width - len(row) * WIDTH - (len(row) - 1) * GAP_X) / 2
        for k, i in enumerate(row):
            x, y = left + k * (WIDTH + GAP_X), MARGIN + GAP_Y + d * (HEIGHT + GAP_Y)
            boxes[i] = Box(x, y, ops[i] or "?", names[i], names[i] in fusion["folded"])
    first, last = [boxes[i] for i in rows[0]], [boxes[i] for i in rows[-1]]
    height = last[0].y + HEIGHT + GAP_Y + MARGIN
    arrows = [
        (_detour if depth[b] > depth[a] + 1 else _arrow)(boxes[a].bottom, boxes[b].top) for a, b in edges
    ]
    arrows += [_arrow((b.top[0], MARGIN), b.top) for b in first]
    arrows += [_arrow(b.bottom, (b.bottom[0], height - MARGIN)) for b in last]
    return Picture(width, height, tuple(boxes[i] for i in range(len(ops))), tuple(arrows), " + ".join(ops))


def after(fusion: Json, height: float) -> Picture:
    """The operator that stands for them, at half the height of what it replaces."""
    y = (height - HEIGHT) / 2
    width = WIDTH + 30 + 2 * MARGIN
    box = Box(MARGIN, y, fusion["op"], fusion["name"])
    middle = width / 2
    arrows = (_arrow((middle, MARGIN), (middle, y)), _arrow((middle, y + HEIGHT), (middle, height - MARGIN)))
    return Picture(width, height, (box,), arrows, fusion["op"])


def _loose(edges: Sequence[tuple[int, int]], count: int) -> bool:
    """Whether the edges leave a node alone, as where names are not unique."""
    touched = {i for edge in edges for i in edge}
    return count > 1 and len(touched) < count


def _depths(edges: Sequence[tuple[int, int]], count: int) -> list[int]:
    """How many nodes lie above each, at most; edges that close a circle do not count."""
    depth = [0] * count
    for _ in range(count):
        moved = False
        for a, b in edges:
            if depth[b] <= depth[a] < count - 1:
                depth[b], moved = depth[a] + 1, True
        if not moved:
            break
    return depth


def _detour(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Past the boxes between, on their right."""
    (x1, y1), (x2, y2) = (start[0] + WIDTH / 4, start[1]), (end[0] + WIDTH / 4, end[1])
    side = max(x1, x2) + WIDTH / 4 + SIDE
    out = f"C{x1:g} {y1 + 14:g} {side:g} {y1 + 2:g} {side:g} {y1 + GAP_Y:g}"
    back = f"V{y2 - GAP_Y:g}C{side:g} {y2 - 4:g} {x2:g} {y2 - 18:g} {x2:g} {y2:g}"
    return f"M{x1:g} {y1:g}{out}{back}{_head(x2, y2)}"


def _head(x: float, y: float) -> str:
    return f"M{x - 4:g} {y - 7:g}L{x:g} {y:g}L{x + 4:g} {y - 7:g}"


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = start, end
    head = _head(x2, y2)
    if x1 == x2:
        return f"M{x1:g} {y1:g}V{y2:g}{head}"
    middle = (y1 + y2) / 2
    return f"M{x1:g} {y1:g}C{x1:g} {middle:g} {x2:g} {middle:g} {x2:g} {y2:g}{head}"
