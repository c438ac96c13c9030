"""What was found in a run, for the bundle's README: what ATC may object to, what float16 does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fuser.report.markdown import ROWS, code, table, way_out

Json = Mapping[str, Any]


def remarks(target: Json) -> str:
    """Sections for the end of the README, or nothing. ``target`` is the report's."""
    return "".join(f"{line}\n" for line in (*_objections(target["findings"]), *_float16(target["float16"])))


def _objections(findings: list[Json]) -> Iterator[str]:
    worth = [f for f in findings if f["severity"] != "note"]
    if not worth:
        return
    yield from ("", "## What ATC may object to", "")
    for f in worth[:ROWS]:
        what = " ".join(filter(None, (f["severity"], f["code"], f["rule"])))
        where = f" at {code(f['node'])}" if f["node"] else ""
        yield f"- {what}{where}: {code(f['message'])}{way_out(f)}"
    if len(worth) > ROWS:
        yield f"- … and {len(worth) - ROWS:,} more in `report.json`"


def _float16(parity: Json | None) -> Iterator[str]:
    if parity is None:
        return
    yield from ("", "## Compared in float16", "")
    yield f"A copy with every value rounded to float16, beside the original: {parity['verdict']}."
    yield f"{code(parity['reason'])}"
    yield ""
    rows = [
        (code(o["name"]), *(_number(o[key]) for key in ("smallest_tolerance", "tolerance")), o["verdict"])
        for o in parity["outputs"][:ROWS]
    ]
    yield from table(("output", "needs", "allowed", "verdict"), rows)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"
