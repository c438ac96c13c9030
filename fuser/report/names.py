"""Names and sentences out of models, made safe to print."""

from __future__ import annotations


def clean(text: object) -> str:
    """The text with what is not printable (terminal escapes, line ends, right-to-left marks) escaped."""
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)


def one_line(text: object) -> str:
    """The text as one printable line: line ends and runs of spaces become one space."""
    return clean(" ".join(str(text).split()))


def counted(n: int, noun: str, plural: str = "") -> str:
    """``1 output``, ``2 outputs``."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"
