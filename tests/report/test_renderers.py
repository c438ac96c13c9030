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

from fuser.advice import Note
from fuser.memory import Memory, Reuse, Step, Usage
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
ATC = {"name": "atc", "form": "standard", "cann": "master", "soc": None, "allowed": False, "float16": None}
FINDING = {
    "code": "E13010", "severity": "error", "node": "lp", "message": "no CANN has it", "fix": "unroll it",
    "rule": "unregistered",
}  # fmt: skip
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


def test_markdown_has_fewer_rows_where_everything_is_long() -> None:
    """Names of backticks need long fences: still below the limit, and every section is there."""
    long = "`|" * 500
    miss = replace(MISS, node=long, reason=long)
    site = replace(FUSED, name=long, output=long, nodes=(long,) * 9, rules=(long,) * 9, ops=(long,) * 3)
    notes = (Note("slope-zero", long, long, long, ((long, 0.0),)),) * 500
    target = {**ATC, "findings": [{**FINDING, "node": long, "message": long, "fix": long}] * 500}
    report = replace(
        PLAIN, declined=(miss,) * 500, fusions=(site,) * 500, advice=notes, target=target
    )  # fmt: skip
    text = markdown(report.to_json())
    assert len(text) < LIMIT
    assert text.count("<details>") == 5
    assert len(re.findall(r"… and 4\d\d more", text)) == 4


def test_what_the_target_says_is_in_text_and_markdown() -> None:
    """Code, rule, node, sentence and fix; in the first line that people read, how many."""
    note = {**FINDING, "severity": "note", "code": None, "rule": "retarget", "message": "moved", "fix": ""}
    report = replace(PLAIN, target={**ATC, "findings": [FINDING, note]}).to_json()
    said = " ".join(printed(*render(report)).split())
    assert (
        "For ATC: 1 error, 1 note error E13010 unregistered 'lp': no CANN has it -> unroll it "
        "note retarget 'lp': moved Size" in said
    )
    text = markdown(report)
    assert "parity not checked, 1 error, 1 note for ATC ❌**" in text
    assert "- error `E13010 unregistered 'lp': no CANN has it` → `unroll it`\n" in text
    assert "- note `retarget 'lp': moved`\n" in text


def test_memory_and_advice_are_in_text_and_markdown() -> None:
    """The figures before and after, onnxruntime's own among them; where writing in place saves; each note."""
    steps = (Step(0, 8192, 4096),)
    memory = Memory(
        {"x": (1, 2)}, Usage(8192, "a", 4096, "b", 70_000, 0, steps),
        Usage(6144, "c", 2048, "d", 50_000, 2, steps), (Reuse("ConvLeakyRelu", "c", "y", "x", 2048),), (8000, 6000),
    )  # fmt: skip
    notes = (Note("slope-zero", "n", "the slope is 0", "export Relu", (("slope", 0.0),)),) * 3
    report = replace(PLAIN, memory=memory, advice=notes).to_json()
    said = " ".join(printed(*render(report)).split())
    for part in (
        "activations, peak 8.2 kB -> 6.1 kB", "peak in place 4.1 kB -> 2.0 kB",
        "peak in onnxruntime 8.0 kB -> 6.0 kB", "moved in a run 70.0 kB -> 50.0 kB",
        "1 fused operator may write over the input", "most saves 'y': 2.0 kB",
        "The size of 2 values is not known", "Advice: 3 notes",
        "[slope-zero] 'n': the slope is 0 (slope 0); export Relu (and 2 more like it: --verbose)",
    ):  # fmt: skip
        assert part in said
    assert printed(*render(report, verbose=True)).count("[slope-zero]") == 3
    text = markdown(report)
    for part in (
        "| bytes: activations, peak | 8,192 | 6,144 |", "| bytes: peak in onnxruntime | 8,000 | 6,000 |",
        "most saves 'y': 2.0 kB", "- `[slope-zero] 'n': the slope is 0 (slope 0)` → `export Relu`",
    ):  # fmt: skip
        assert part in text


def test_memory_that_could_not_be_counted_says_why() -> None:
    report = replace(PLAIN, memory=Memory({}, reason="a size is open")).to_json()
    assert "Memory was not counted: a size is open" in printed(*render(report))
    assert "Memory was not counted: a size is open" in markdown(report)


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
