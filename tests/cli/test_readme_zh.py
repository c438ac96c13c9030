"""README.zh-CN.md says what README.md does: the same blocks, code, tables and links, in the same order."""

from __future__ import annotations

import re

import pytest

from tests.cli.running import ROOT
from tests.cli.test_readme import BLOCKS, README, commands

CHINESE = (ROOT / "README.zh-CN.md").read_text("utf-8")
CODE = r"(?<!`)`([^`\n]+)`(?!`)"


def blocks(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def prose(text: str) -> str:
    return re.sub(r"^```\w+\n.*?^```\n", "", text, flags=re.DOTALL | re.MULTILINE)


def shell(text: str) -> list[str]:
    """What a reader would type, comments aside."""
    typed = []
    for kind, block in blocks(text):
        if kind == "console":
            typed += [line for line, _ in commands(block)]
        elif kind == "sh":
            typed += [line.partition("#")[0].strip() for line in block.splitlines()]
    return typed


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each table's rows, without its head."""
    found = re.findall(r"^\|.*\|\n\|[-| ]+\|\n((?:\|.*\|\n)+)", prose(text), re.MULTILINE)
    return [
        [[cell.strip() for cell in row[1:-1].split("|")] for row in table.splitlines()] for table in found
    ]


def links(text: str) -> list[str]:
    """Where links and pictures lead, but for the one to the other language."""
    return re.findall(r"\]\((?!README)([^)]+)\)", text)


def test_the_commands_are_the_same() -> None:
    assert shell(CHINESE) == shell(README)
    assert len(shell(README)) >= 10


def test_the_output_and_the_python_are_the_same() -> None:
    """Those are tested in README.md, by running them."""
    assert blocks(CHINESE) == BLOCKS


def test_the_tables_have_the_same_rows() -> None:
    """Where a cell is code, a number or a network it is not translated."""
    ours, theirs = tables(CHINESE), tables(README)
    assert [len(table) for table in ours] == [len(table) for table in theirs]
    assert len(theirs) >= 5
    for chinese, english in zip(ours, theirs, strict=True):
        for row, original in zip(chinese, english, strict=True):
            assert len(row) == len(original)
            if re.match(r"`|\d+$", original[0]):
                assert row[0] == original[0]
            assert re.findall(CODE, " ".join(row)) == re.findall(CODE, " ".join(original))
            if len(original) > 2:
                assert row == original


def test_the_sections_are_as_many_and_what_is_code_in_them_is_the_same() -> None:
    ours, theirs = (re.split(r"^## .*\n", prose(text), flags=re.MULTILINE) for text in (CHINESE, README))
    assert len(ours) == len(theirs)
    for chinese, english in zip(ours, theirs, strict=True):
        assert sorted(re.findall(CODE, chinese)) == sorted(re.findall(CODE, english))
        assert sorted(re.findall(r"\d+(?:\.\d+)+", chinese)) == sorted(re.findall(r"\d+(?:\.\d+)+", english))


def test_the_links_are_the_same() -> None:
    assert links(CHINESE) == links(README)
    assert len(links(README)) >= 5
    for link in links(CHINESE):
        assert (ROOT / link.partition("#")[0]).exists(), link


@pytest.mark.parametrize(
    ("text", "other"), [(README, "[简体中文](README.zh-CN.md)"), (CHINESE, "[English](README.md)")]
)
def test_each_links_to_the_other_at_its_top(text: str, other: str) -> None:
    assert text.startswith(f"# onnx-fuser\n\n{other}\n\n")
