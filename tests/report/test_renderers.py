"""Renderers: whatever is in a report, the text fits, stays in its place and controls nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console, RenderableType

from fuser.report import Declined, Fusion, ModelFacts, Report
from fuser.report.layout import Sentences, columns
from fuser.report.markdown import ROWS, code
from fuser.report.markdown import report as markdown
from fuser.report.names import clean, counted, one_line
from fuser.report.text import SHOWN, render
from tests.report.reports import REPORTS

LIMIT = 65_536
"""Characters that GitHub takes in a comment."""

PLAIN = Report(
    tool={"name": "onnx-fuser"},
    model=ModelFacts("m.onnx", "", 17, 8, (3, 1), (10, 10), ({"Conv": 3}, {"Conv": 1}), (1, 0)),
    rewrites=(),
    fusions=(),
    declined=(),
    rules=(),
    target={"name": "onnx", "form": "function", "findings": []},
)
MISS = Declined(
    "Affine:batchnorm", "bn", "node", "BatchNormalization", "", "the reason", 1, "--freeze-inputs"
)
FUSED = Fusion(
    "ConvLeakyRelu", "", "c", "y", ("x",), ("c", "b", "a"), ("b",), ("r",), 0.2, ("Conv", "B", "L")
)


def printed(*parts: RenderableType, width: int = 80) -> str:
    console = Console(file=StringIO(), width=width, markup=False, emoji=False, highlight=False)
    for part in parts:
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@given(report=REPORTS, verbose=st.booleans(), width=st.integers(60, 120))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_text_of_any_report_fits_and_is_printable(report: Report, verbose: bool, width: int) -> None:
    text = printed(*render(report.to_json(), verbose=verbose), width=width)
    for line in text.split("\n"):
        assert cell_len(line.rstrip()) <= width
        assert line.isprintable()


@given(report=REPORTS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_markdown_of_any_report_has_names_in_code_only(report: Report) -> None:
    text = markdown(report.to_json())
    assert all(line.isprintable() for line in text.split("\n"))
    for line in text.split("\n"):
        outside = re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", line)
        if not line.startswith(("<details>", "</details>", "<summary>")):
            assert not re.search(r"[<>@\[\]]|https?:", outside), line


def test_markdown_of_a_huge_report_stays_below_github_s_limit() -> None:
    long = "x" * 5000
    miss = replace(MISS, node=long, reason=long)
    site = replace(FUSED, name=long, output=long, nodes=(long,) * 9, rules=(long,) * 9, ops=(long,) * 3)
    report = replace(PLAIN, declined=(miss,) * 5000, fusions=(site,) * 5000)
    text = markdown(report.to_json())
    assert len(text) < LIMIT
    assert text.count(f"… and {5000 - ROWS:,} more") == 2


@pytest.mark.parametrize(
    ("name", "span"),
    [
        ("conv", "`conv`"), ("a`b", "``a`b``"), ("`a", "`` `a ``"), ("", "` `"), ("``", "``` `` ```"),
        ("<img src=x>", "`<img src=x>`"), ("@someone", "`@someone`"), ("a\nb", "`a b`"),
        ("a\x1bb", "`a\\x1bb`"),
    ],
)  # fmt: skip
def test_code_spans_hold_any_name(name: str, span: str) -> None:
    assert code(name) == span


def test_bars_in_names_do_not_end_a_cell() -> None:
    text = markdown(replace(PLAIN, fusions=(replace(FUSED, output="a|b"),)).to_json())
    assert "`a\\|b`" in text


def test_details_are_folded() -> None:
    text = markdown(replace(PLAIN, declined=(MISS,), fusions=(FUSED,)).to_json())
    shown = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    assert "the reason" in text
    assert "the reason" not in shown
    assert "1 fused" in shown


def test_near_misses_are_cut_at_ten_and_counted() -> None:
    many = replace(PLAIN, declined=tuple(replace(MISS, reason=f"reason {i}") for i in range(SHOWN + 3)))
    brief, full = (printed(*render(many.to_json(), verbose=v)) for v in (False, True))
    assert brief.count("[bn] ") == SHOWN
    assert "… and 3 more" in brief
    assert full.count("[bn] ") == SHOWN + 3
    assert "and 3 more" not in full


def test_near_misses_that_differ_in_names_only_are_one_line() -> None:
    a, b = (
        replace(MISS, reason="'a' is no constant"),
        replace(MISS, node="other", reason="'b' is no constant"),
    )
    other = replace(MISS, reason="'a' is read twice")
    said = " ".join(printed(*render(replace(PLAIN, declined=(a, b, other, b)).to_json())).split())
    assert "4 near misses" in said
    assert "'a' is no constant (and 2 more like it)" in said
    assert "'b' is no constant" not in said
    assert "'a' is read twice Hint" in said


def test_hints_are_counted() -> None:
    text = printed(*render(replace(PLAIN, declined=(MISS, MISS, replace(MISS, hint=""))).to_json()))
    assert "Hint: --freeze-inputs would help 2 of them" in text


def test_kinds_of_fused_operators_are_counted() -> None:
    other = replace(FUSED, ops=("Conv", "L"))
    text = printed(*render(replace(PLAIN, fusions=(other, FUSED, FUSED)).to_json()))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[2:5] == ["Fused 3", "2 Conv + B + L -> ConvLeakyRelu", "1 Conv + L -> ConvLeakyRelu"]


def test_sentences_hang() -> None:
    assert printed(Sentences("one two three four"), width=12).split("\n") == [
        "  one two",
        "    three",
        "    four",
        "",
    ]


def test_columns_fold_what_is_too_long_and_lose_nothing() -> None:
    text = printed(columns([("x" * 100, "y" * 30)]), width=60)
    assert (text.count("x"), text.count("y")) == (100, 30)


@given(text=st.text())
def test_clean_text_is_printable_and_keeps_what_is(text: str) -> None:
    assert clean(text).isprintable()
    assert one_line(text).isprintable()
    if text.isprintable():
        assert clean(text) == text


@pytest.mark.parametrize(
    ("n", "words"), [(0, "0 outputs"), (1, "1 output"), (2, "2 outputs"), (12345, "12,345 outputs")]
)
def test_counted(n: int, words: str) -> None:
    assert counted(n, "output") == words
