"""The page as text: what is in it, and that nothing out of a model is markup."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from fuser.errors import ConfigError
from fuser.report import Report
from fuser.report.html import charts, picture, render
from fuser.report.html.page import command, kinds, percent, sites
from tests.report.reports import REPORTS
from tests.report_html.samples import HOSTILE, hostile, long, real

VOID = {"meta", "input"}
KNOWN = {
    *(
        "a",
        "article",
        "body",
        "button",
        "code",
        "dd",
        "div",
        "dl",
        "dt",
        "figcaption",
        "figure",
        "h1",
        "h2",
        "h3",
    ),
    *("head", "header", "html", "input", "label", "li", "main", "meta", "meter", "nav", "output", "p", "pre"),
    *(
        "script",
        "section",
        "span",
        "strong",
        "style",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "title",
        "tr",
        "ul",
    ),
    *("var", "svg", "g", "path", "rect", "text", "line", "tspan"),
}


class Page(HTMLParser):
    """Counts tags, collects text and attributes, and fails where tags do not close in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.links: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        found = dict(attrs)
        assert not [name for name in found if name.startswith("on") or name == "style"], (tag, found)
        if found.get("id"):
            self.ids[str(found["id"])] += 1
        self.links += [str(found[name]) for name in ("href", "src", "xlink:href") if name in found]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def test_the_page_says_what_the_report_says() -> None:
    """The numbers of the summary, the kinds, the reasons, the advice and the way to get it again."""
    report = real()
    page = Page(render(report))
    said = page.text
    for part in (
        "2 fused operators", "Parity passed", "ConvLeakyRelu", "BatchNormalization",
        report["declined"][0]["reason"], report["parity"]["reason"], report["advice"][0]["message"],
        report["model"]["sha256"], "peak in place", "onnx-fuser optimize MODEL -o fused.onnx --seed 0",
        "measured by onnxruntime" if report["memory"]["measured"] else "moved in a run",
    ):  # fmt: skip
        assert " ".join(part.split()) in said
    assert set(page.tags) <= KNOWN
    assert max(page.ids.values()) == 1
    assert all(link.startswith("#") and page.ids[link[1:]] for link in page.links)


def test_no_text_of_a_model_is_markup() -> None:
    """The same tags as with harmless names, and the names as text."""
    page = Page(render(hostile()))
    assert page.tags["script"] == page.tags["style"] == 1
    assert set(page.tags) <= KNOWN
    assert page.text.count("<script>window.owned=1</script>") > 20
    assert "\\u202e" in page.text
    assert "{{7*7}}" in page.text


def test_a_title_in_the_page_head_is_text() -> None:
    """The file's name stands in the title element too."""
    report = real()
    report["model"]["path"] = f"folder/{HOSTILE.replace('/', '')}"
    assert "<title>onnx-fuser: &lt;script&gt;" in render(report)


@given(report=REPORTS)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_report_renders(report: Report) -> None:
    """Whatever the names are, tags close in order and are known ones."""
    page = Page(render(report.to_json()))
    assert set(page.tags) <= KNOWN
    assert page.tags["script"] == 1


def test_the_policy_allows_the_page_s_own_script_and_style_and_nothing_else() -> None:
    """By their hashes; nothing can be requested."""
    text = render(real())
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert found is not None
    policy = found[1].replace("&#39;", "'")
    for tag in ("script", "style"):
        [own] = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy


def test_it_needs_nothing_from_anywhere() -> None:
    """No address in it but the names of SVG's own vocabularies."""
    addresses = set(re.findall(r"(?:https?:)?//[\w.]+/[\w/.-]*", render(real())))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_the_same_report_is_the_same_page() -> None:
    """Byte for byte."""
    assert render(real()) == render(real())


def test_300_sites_are_small() -> None:
    """Under 3 MB, by far."""
    assert len(render(long(300)).encode()) < 1_000_000


def test_parts_that_a_report_lacks_are_left_out() -> None:
    """Without parity, memory, fusions, reasons and advice."""
    report = real()
    report.update(parity=None, memory=None, fusions=[], declined=[], advice=[])
    page = Page(render(report))
    assert "Nothing was fused" in page.text
    assert "Parity was not checked" in page.text
    assert not {"parity", "memory", "sites", "declined", "advice", "kinds"} & set(page.ids)


def test_memory_without_figures_says_why() -> None:
    """The sentence that says which shape to give."""
    report = real()
    report["memory"].update(before=None, after=None, in_place=[], reason="input 'x' is [?]: give its shape")
    assert "There are no figures: input 'x' is [?]: give its shape" in Page(render(report)).text


def test_a_site_shows_what_was_seen_there() -> None:
    """Its share of negative values, what it needs, what it saves in place."""
    report = real()
    [first, second] = sites(report)
    assert first["saves"] is None
    assert second["negatives"] == report["parity"]["sites"][1]["negatives"]
    assert first["needs"] == max(o["smallest_tolerance"] for o in report["parity"]["sites"][0]["outputs"])


def test_each_kind_is_shown_once() -> None:
    """Two sites alike are one kind."""
    report = real()
    report["fusions"] = [report["fusions"][0]] * 5
    [kind] = kinds(report)
    assert kind["count"] == 5


@pytest.mark.parametrize(
    ("share", "shown"),
    [(None, "–"), (0.0, "0 %"), (1.0, "100 %"), (1e-5, "<0.1 %"), (0.99999, ">99.9 %"), (0.4567, "45.7 %")],
)
def test_a_share_is_never_rounded_to_all_or_nothing(share: float | None, shown: str) -> None:
    assert percent(share) == shown


def test_the_command_is_quoted() -> None:
    """A path that a shell would read otherwise."""
    report = real()
    report["model"]["path"] = "my model;rm -rf.onnx"
    assert "'my model;rm -rf.onnx'" in command(report)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence."""
    monkeypatch.delitem(sys.modules, "fuser.report.html.page")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ConfigError, match=r"needs jinja2.*pip install jinja2 vl-convert"):
        render(real())


def fusion(count: int, *edges: tuple[int, int]) -> dict[str, Any]:
    """A site of so many nodes."""
    names = [f"n{i}" for i in range(count)]
    return {
        "ops": names,
        "nodes": names,
        "folded": ["n1"],
        "edges": [list(e) for e in edges],
        "op": "F",
        "name": "f",
    }


def test_nodes_stand_below_what_they_read() -> None:
    """The diamond of max(x, a x), its parts in any order."""
    drawn = picture.before(fusion(4, (0, 3), (3, 1), (0, 2), (2, 1)))
    y = [b.y for b in drawn.boxes]
    assert y[0] < y[3] == y[2] < y[1]
    assert drawn.boxes[2].x != drawn.boxes[3].x
    assert len(drawn.arrows) == 4 + 2
    assert [b.folded for b in drawn.boxes] == [False, True, False, False]


@pytest.mark.parametrize("edges", [[], [(0, 1)], [(0, 1), (1, 0)]])
def test_nodes_whose_edges_are_not_known_are_a_chain(edges: list[tuple[int, int]]) -> None:
    """Or a circle, which ends."""
    drawn = picture.before(fusion(3, *edges))
    assert [b.y for b in drawn.boxes] == sorted({b.y for b in drawn.boxes})


def test_an_arrow_that_passes_a_box_goes_around_it() -> None:
    """Max reads what Mul reads."""
    drawn = picture.before(fusion(3, (0, 1), (1, 2), (0, 2)))
    around = max(float(x) for x in re.findall(r"C[\d.]+ [\d.]+ ([\d.]+)", drawn.arrows[2]))
    assert max(b.x for b in drawn.boxes) + picture.WIDTH < around < drawn.width


@pytest.mark.parametrize(
    ("most", "power"), [(0, 0), (999, 0), (1000, 1), (999_999, 1), (10**6, 2), (10**12, 4), (10**18, 4)]
)
def test_the_unit_of_the_memory_chart(most: int, power: int) -> None:
    assert charts.unit(most) == power


@pytest.mark.parametrize("counts", [[5, *[0] * 26], [0, 1, *[0] * 25], [0] * 26 + [3], [9, *range(26)]])
@pytest.mark.parametrize("tolerance", [0.0, 1e-30, 2e-5, 0.9])
def test_any_histogram_is_drawn(counts: list[int], tolerance: float) -> None:
    """Equal, tiny or out of range; the line stays in the picture."""
    for drawn in charts.histogram(counts, tolerance, label="<l>"):
        assert 'aria-label="&lt;l&gt;"' in drawn
        assert ("allowed" in drawn) is (tolerance > 0)
        assert "NaN" not in drawn


def for_atc(**target: object) -> dict[str, Any]:
    """A report on a run for ATC that found something."""
    finding = {"code": None, "node": "", "message": "m", "fix": "f", "rule": "float16", "severity": "warning"}
    worse = {**finding, "severity": "error", "code": "E13010", "node": "lp", "rule": "unregistered"}
    report = real()
    report["target"] = {
        "name": "atc", "form": "standard", "cann": "master", "soc": None, "allowed": True, "float16": None,
        "findings": [finding, worse], **target,
    }  # fmt: skip
    report["model"]["output"] = "out/model.onnx"
    return report


def test_the_summary_says_what_the_target_says() -> None:
    """How many of each severity, with a link to them; nothing where there is nothing."""
    text = Page(render(for_atc())).text
    assert "ATC 1 error, 1 warning" in " ".join(text.split())
    assert "E13010 unregistered" in " ".join(text.split())
    assert "ATC" not in Page(render(for_atc(findings=[]))).text


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({}, "-o out/model.onnx --target atc"),
        ({"form": "node"}, "--bundle out --target atc --fused-as node"),
        (
            {"cann": "9.1", "soc": "Ascend310P3", "float16": {"verdict": "passed"}},
            "-o out/model.onnx --target atc --cann 9.1 --soc Ascend310P3 --precision fp16",
        ),
    ],
)
def test_the_command_of_a_run_for_atc(target: dict[str, Any], words: str) -> None:
    """What is the target's own default is not said."""
    assert f" {words} --seed" in command(for_atc(**target))


def test_the_way_out_is_a_column_where_there_is_one() -> None:
    report = real()
    for hint, shown in (("--freeze-inputs", True), ("", False)):
        report["declined"] = [{**report["declined"][0], "hint": hint}]
        assert (">way out</button>" in render(report)) == shown


def test_where_there_was_nothing_no_share_of_it_is_left() -> None:
    report = real()
    report["model"]["batch_normalizations"] = {"before": 0, "after": 0}
    assert "BatchNormalization 0 → 0 none before" in " ".join(Page(render(report)).text.split())
