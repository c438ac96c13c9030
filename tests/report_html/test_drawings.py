"""One site for Mermaid, nodes for Model Explorer, and what differs between two reports or models."""

from __future__ import annotations

import copy
import json
import re
import string
from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuser.errors import ConfigError
from fuser.report import diff
from fuser.report.markdown import report as as_markdown
from fuser.report.mermaid import escaped, flowchart, site_of
from fuser.report.modelexplorer import node_data
from tests.builders import conv_bn_leaky
from tests.cli.running import onnx_fuser
from tests.report_html.samples import hostile, long, real


def test_a_site_as_mermaid() -> None:
    """Was and is, between the same values; what went into weights is dashed."""
    assert flowchart(real()["fusions"][0]).splitlines() == [
        "flowchart TB",
        '  subgraph before["before"]',
        '    n0["Conv<br/>Conv_0"]',
        '    n1["BatchNormalization<br/>BN_0"]',
        '    n2["LeakyRelu<br/>LeakyRelu_0"]',
        "    n0 --> n1",
        "    n1 --> n2",
        "  end",
        '  subgraph after["after"]',
        '    fused["ConvLeakyRelu<br/>Conv_0"]',
        "  end",
        '  x0(["x"])',
        "  x0 --> n0",
        "  x0 --> fused",
        '  y(["act0"])',
        "  n2 --> y",
        "  fused --> y",
        "  classDef folded stroke-dasharray: 4 3",
        "  class n1 folded",
    ]


@given(st.text(max_size=80))
def test_no_name_means_anything_to_mermaid(name: str) -> None:
    """Character codes, which come back as the name."""
    shown = escaped(name)
    assert set(shown) <= set(string.ascii_letters + string.digits + " _./:#;")
    back = re.sub(r"#(\d+);", lambda m: chr(int(m[1])), shown)
    assert back == name or (len(name) > 60 and back == name[:59] + "…")


@pytest.mark.parametrize("wanted", ["act0", "Conv_0", "BN_0", "LeakyRelu_0"])
def test_a_site_is_found_by_any_of_its_names(wanted: str) -> None:
    report = real()
    assert site_of(report["fusions"], wanted) == report["fusions"][0]


def test_a_site_that_is_not_there() -> None:
    """The nearest name; the ones there are; none at all."""
    fusions = real()["fusions"]
    with pytest.raises(ConfigError, match="no site has a node or a value 'Conv_00'; the nearest is 'Conv_0'"):
        site_of(fusions, "Conv_00")
    with pytest.raises(ConfigError, match="there are 2 sites; name one with --site, such as 'act0', 'y'"):
        site_of(fusions, None)
    with pytest.raises(ConfigError, match="nothing was fused"):
        site_of([], "x")


def test_node_data_for_model_explorer() -> None:
    """By node name: fused, folded, nearly."""
    found = node_data(real())["results"]
    assert {name: entry["value"] for name, entry in found.items()} == {
        "Conv_0": "fused", "BN_0": "folded into weights", "LeakyRelu_0": "fused",
        "Conv_2": "fused", "BN_2": "folded into weights", "LeakyRelu_2": "fused",
        "Conv_1": "near miss",
    }  # fmt: skip
    assert all(re.fullmatch("#[0-9a-f]{6}", entry["bgColor"]) for entry in found.values())


def test_a_report_does_not_differ_from_itself() -> None:
    found = diff.reports(real(), real())
    assert not found["numbers"]
    assert diff.as_markdown(found).endswith("Nothing differs.")


def test_what_differs_between_reports() -> None:
    """A site lost, one gained, one with another slope, a reason that is new."""
    a, b = real(), real()
    b["fusions"][0]["output"] = "other"
    b["fusions"][1]["negative_slope"] = 0.5
    b["declined"] = [{**b["declined"][0], "reason": "it rains"}]
    b["parity"] = None
    found = diff.reports(a, b)
    assert found["lost"] == ["ConvLeakyRelu at 'act0', made of Conv + BatchNormalization + LeakyRelu"]
    assert found["gained"] == ["ConvLeakyRelu at 'other', made of Conv + BatchNormalization + LeakyRelu"]
    assert found["changed"] == ["site 'y': negative_slope was 0.0 and is 0.5"]
    assert [r.rsplit(": ")[-1] for r in found["new_reasons"]] == ["it rains"]
    assert len(found["old_reasons"]) == 1
    assert found["numbers"] == [{"name": "parity", "a": "passed", "b": "not checked"}]


def test_markdown_of_a_large_report_fits_in_a_pull_request() -> None:
    """GitHub takes 65,536 characters."""
    for report in (long(5000), hostile()):
        other = copy.deepcopy(report)
        other["fusions"] = [{**f, "output": f["output"] + "x" * 500} for f in report["fusions"]]
        assert len(as_markdown(report)) < 65_536
        assert len(diff.as_markdown(diff.reports(report, other))) < 65_536


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model, its fused form and the report, in the working folder."""
    monkeypatch.chdir(tmp_path)
    onnx.save(conv_bn_leaky(channels=(3, 4, 4)), "model.onnx")
    options = ["-o", "out.onnx", "--report", "report.json", "--no-parity"]
    assert onnx_fuser("optimize", "model.onnx", *options).status == 0


@pytest.mark.usefixtures("files")
def test_the_command_writes_each_format() -> None:
    """Of a report and of a model alike; to a file whole."""
    for source in ("report.json", "model.onnx"):
        done = onnx_fuser("inspect", source, "--format", "html", "-o", "page.html")
        assert (done.status, done.out, done.err) == (0, "", "")
        assert Path("page.html").read_text().startswith("<!DOCTYPE html>")
        drawn = onnx_fuser("inspect", source, "--format", "mermaid", "--site", "BN_1")
        assert '    n1["BatchNormalization<br/>BN_1"]' in drawn.out.splitlines()
        coloured = json.loads(onnx_fuser("inspect", source, "--format", "model-explorer").out)
        assert coloured["results"]["BN_1"]["value"] == "folded into weights"


@pytest.mark.usefixtures("files")
def test_the_command_compares_a_model_and_its_fused_form() -> None:
    said = " ".join(onnx_fuser("inspect", "model.onnx", "out.onnx").out.split())
    assert "BatchNormalization 2 0" in said
    assert (
        "Gained: fused in B, not in A: 2 ConvLeakyRelu 'Conv_0' stands for Conv_0, BN_0, LeakyRelu_0" in said
    )
    found = json.loads(onnx_fuser("inspect", "out.onnx", "model.onnx", "--format", "json").out)
    assert len(found["lost"]) == 2


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["report.json", "model.onnx"], "give two reports, or two models"),
        (["report.json", "report.json", "--format", "html"], "shows one file"),
        (["report.json", "--site", "act0"], "--site says what --format mermaid draws"),
        (["report.json", "-o", "x.txt"], "say which --format"),
        (["report.json", "--format", "html", "-o", "report.json"], "named twice"),
        (["report.json", "--format", "mermaid", "--site", "nowhere"], "no site has"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], sentence: str) -> None:
    done = onnx_fuser("inspect", *arguments)
    assert (done.status, done.out) == (2, "")
    assert sentence in done.err
    assert "Traceback" not in done.err
