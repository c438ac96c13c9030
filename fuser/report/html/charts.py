"""The charts, drawn by Vega-Lite while the report is written: an SVG each, no script in the report.

Colours are the page's CSS variables, so charts follow light and dark. No text out of a model is in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10
from typing import Any

import vl_convert
from markupsafe import Markup

Json = Mapping[str, Any]
WIDE, NARROW = 760, 300
"""Widths in pixels of the two drawings of a chart: for a screen and for a phone."""
UNITS = ("bytes", "kB", "MB", "GB", "TB")
CONFIG = {
    "font": "system-ui, sans-serif",
    "background": None,
    "view": {"stroke": None},
    "axis": {
        **{f"{part}Color": "var(--faint)" for part in ("label", "title")},
        **{f"{part}Color": "var(--line)" for part in ("grid", "domain", "tick")},
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "legend": {
        "labelColor": "var(--ink)",
        "labelFontSize": 13,
        "orient": "top",
        "title": None,
        "symbolOpacity": 1,
        "labelLimit": 0,
    },
}


def memory(before: Json, after: Json, *, label: str) -> list[Markup]:
    """Bytes in use at each operator, before and after, and after when fused operators write in place."""
    power = unit(max(before["peak"], after["peak"]))
    size = 1000**power
    last = max(step[0] for usage in (before, after) for step in usage["steps"]) + 1
    series = [("before", before, 1), ("after", after, 1), ("after, in place", after, 2)]
    rows = [
        {"at": at, "used": value / size, "model": name}
        for name, usage, place in series
        for at, value in _stairs([(s[0], s[place]) for s in usage["steps"]], last)
    ]
    colour = {
        "field": "model",
        "type": "nominal",
        "scale": {
            "domain": [name for name, _, _ in series],
            "range": ["var(--before)", "var(--after)", "var(--in-place)"],
        },
    }
    axis = {"tickCount": 8, "labelOverlap": True, "title": "operator, counted before fusion"}
    x = {"field": "at", "type": "quantitative", "axis": axis}
    y = {"field": "used", "type": "quantitative", "stack": None, "title": UNITS[power]}
    places = {"x": {**x, "scale": {"domain": [0, last], "nice": False}}, "y": y}
    filled = {"filter": {"field": "model", "oneOf": ["before", "after"]}}
    spec = {
        "data": {"values": rows},
        "encoding": {**places, "color": colour},
        "layer": [
            {"transform": [filled], "mark": {"type": "area", "interpolate": "step-after", "opacity": 0.35}},
            {"mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5}},
        ],
    }
    return _drawn(spec, 240, label)


def _stairs(points: Sequence[tuple[int, int]], last: int) -> list[tuple[int, int]]:
    return [*points, (last, points[-1][1])] if points else []


def histogram(counts: Sequence[int], tolerance: float, *, label: str) -> list[Markup]:
    """How many elements need which tolerance, and the line of the one that is allowed.

    ``counts`` as the report has them: exactly equal, below 1e-12, then half decades, 1 and more.
    """
    steps = len(counts) - 3
    low = -steps / 2
    # Log-scaled bars begin at a half, so that a single element still shows.
    rows = [
        {"from": low + (i - 2) / 2, "to": low + (i - 1) / 2, "count": n, "base": 0.5, "kind": _kind(i)}
        for i, n in enumerate(counts)
        if n
    ]
    ticks = [low - 0.75, *range(int(low) + 2, 1, 2)]
    names = f"datum.value < {low} ? 'equal' : datum.value == 0 ? '1' : '1e' + datum.value"
    axis = {"values": ticks, "labelExpr": names, "title": "tolerance that an element needs", "grid": False}
    x = {"field": "from", "type": "quantitative", "axis": axis}
    x["scale"] = {"domain": [low - 1, 0.5], "nice": False}
    most = max([2, *counts])
    powers = {"title": "elements", "values": [10**power for power in range(len(str(most)))]}
    y = {"field": "count", "type": "quantitative", "axis": powers}
    y["scale"] = {"type": "log", "domain": [0.5, most]}
    layers: list[Json] = [
        {
            "data": {"values": rows},
            "mark": {"type": "bar", "binSpacing": 1},
            "encoding": {
                "x": x,
                "x2": {"field": "to"},
                "y": y,
                "y2": {"field": "base"},
                "color": {
                    "field": "kind",
                    "type": "nominal",
                    "legend": None,
                    "scale": {"domain": ["equal", "differs"], "range": ["var(--good)", "var(--after)"]},
                },
            },
        }
    ]
    if tolerance > 0:
        line = {"data": {"values": [{"at": max(low, min(0.5, log10(tolerance)))}]}}
        place = {"x": {"field": "at", "type": "quantitative"}}
        rule = {"type": "rule", "color": "var(--bad)", "strokeWidth": 2, "strokeDash": [5, 3]}
        text = {"type": "text", "text": "allowed", "color": "var(--bad)", "align": "left", "dx": 4}
        layers += [
            {**line, "mark": rule, "encoding": place},
            {**line, "mark": {**text, "fontSize": 12}, "encoding": {**place, "y": {"value": 6}}},
        ]
    return _drawn({"layer": layers}, 150, label)


def _kind(i: int) -> str:
    return "differs" if i else "equal"


def unit(most: int) -> int:
    """The power of 1000 that makes the number readable."""
    return min(len(UNITS) - 1, (len(str(most)) - 1) // 3)


def _drawn(spec: Json, height: int, label: str) -> list[Markup]:
    """The chart for a screen and for a phone."""
    drawn = []
    for width, name in ((WIDE, "wide"), (NARROW, "narrow")):
        whole = {**spec, "width": width, "height": height, "config": CONFIG, "padding": 2}
        svg = vl_convert.vegalite_to_svg(whole)
        start = Markup('<svg role="img" aria-label="{}" class="chart {}" ').format(label, name)
        rest = svg.removeprefix("<svg ").replace('class="marks" ', "", 1)
        drawn.append(start + Markup(rest))  # noqa: S704 - numbers and our own words, drawn by Vega-Lite
    return drawn
