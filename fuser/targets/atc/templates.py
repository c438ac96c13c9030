"""Files that are written with a few words filled in: ``@WORD@`` stands for one."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).with_name("templates")


def render(template: str, words: dict[str, str]) -> str:
    """A template's text with every ``@WORD@`` replaced."""
    text = (_FOLDER / template).read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text
