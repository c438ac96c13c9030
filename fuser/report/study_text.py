"""Memory and advice for the terminal: what a report says beyond what the passes did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal

from fuser.report.layout import Sentences, heading
from fuser.report.names import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

Json = Mapping[str, Any]


def memory_rows(memory: Json | None) -> Iterator[tuple[str, int, int]]:
    """What a run of the model needs, in bytes before and after; nothing where there are no figures."""
    if not memory or not memory["before"]:
        return
    before, after = memory["before"], memory["after"]
    yield "activations, peak", before["peak"], after["peak"]
    yield "peak in place", before["in_place_peak"], after["in_place_peak"]
    if memory["measured"]:
        yield "peak in onnxruntime", memory["measured"]["before"], memory["measured"]["after"]
    yield "moved in a run", before["moved"], after["moved"]


def in_place(memory: Json | None) -> str:
    """How many fused operators may write over their input and what that saves, or nothing."""
    if not memory or not memory["in_place"]:
        return ""
    found = memory["in_place"]
    most = max(found, key=lambda reuse: reuse["saves"])
    return (
        f"{counted(len(found), 'fused operator')} may write over the input, which nothing needs later; "
        f"most saves {most['output']!r}: {decimal(most['saves'])}"
    )


def no_figures(memory: Json | None) -> str:
    """Why memory was not counted, or what the figures leave out; nothing where they are whole."""
    if not memory:
        return ""
    if not memory["before"]:
        return f"Memory was not counted: {memory['reason']}"
    unknown = max(memory[when]["unknown"] for when in ("before", "after"))
    return f"The size of {counted(unknown, 'value')} is not known; it counts as nothing" if unknown else ""


def advice(found: Sequence[Json], *, verbose: bool = False) -> Iterator[RenderableType]:
    """Each note with its numbers; of one kind the first, and how many more, unless ``verbose``."""
    if not found:
        return
    yield heading(f"Advice: {counted(len(found), 'note')}")
    if verbose:
        yield Sentences(*map(_advised, found))
        return
    kinds: dict[str, list[Json]] = {}
    for item in found:
        kinds.setdefault(item["code"], []).append(item)
    for alike in kinds.values():
        more = f" (and {len(alike) - 1} more like it: --verbose)" if len(alike) > 1 else ""
        yield Sentences(_advised(alike[0]) + more)


def _advised(item: Json) -> str:
    return f"{note(item)}; {item['fix']}"


def note(item: Json) -> str:
    """What was seen, with the numbers behind it."""
    numbers = ", ".join(f"{n['name']} {n['value']:.4g}" for n in item["numbers"])
    return f"[{item['code']}] {item['node']!r}: {item['message']} ({numbers})"
