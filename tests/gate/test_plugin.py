"""The pytest plugin, in the tests of a project that exports models."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.builders import conv_bn_leaky
from tests.cli.running import ROOT
from tests.gate import repository

pytest_plugins = ["pytester"]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with two exports, whose pytest has the plugin, installed or not."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "fuser.pytest_plugin")
    onnx.save(conv_bn_leaky(channels=(3, 4, 5)), "good.onnx")
    onnx.save(repository.in_training_mode(conv_bn_leaky(channels=(3, 4, 5))), "bad.onnx")
    return pytester


def test_an_export_that_fuses_passes_and_the_result_is_at_hand(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import onnx, pathlib

        def test_path(onnx_fuser):
            fused = onnx_fuser("good.onnx", fusions=2, batch_normalizations=0, tolerance=1e-4)
            assert [n.op_type for n in fused.model.graph.node] == ["ConvLeakyRelu"] * 2
            assert fused.report.parity.verdict == "passed"

        def test_model(onnx_fuser):
            onnx_fuser(onnx.load("good.onnx"))
            onnx_fuser(pathlib.Path("good.onnx"))
        """
    )
    project.runpytest_subprocess().assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ('"bad.onnx"', "LeakyRelu 'LeakyRelu_1' was not fused, and fusions asks for all"),
        ('"bad.onnx"', "or accept it: fusions=N in the call of onnx_fuser"),
        ('"bad.onnx", batch_normalizations=0', "or raise batch_normalizations in the call of onnx_fuser"),
        ('"bad.onnx", fusions=2', "1 fused, 1 fewer than the 2 that fusions asks for"),
        (
            '"bad.onnx", fusions=1, batch_normalizations=0',
            "1 BatchNormalization left, 1 more than the 0 allowed",
        ),
        ('"bad.onnx", fusions=3', "near miss: Affine:batchnorm [bn] BatchNormalization 'BN_1':"),
        ('"good.onnx", fusions=3', "lower fusions in the call of onnx_fuser"),
        ('"good.onnx", tolerance=1e-12', "parity failed: "),
        ('"good.onnx", parity=False', "parity could not be judged: it was not checked"),
        ('"gone.onnx"', "gone.onnx"),
    ],
)
def test_an_export_that_does_not_fails_and_says_why(project: pytest.Pytester, call: str, says: str) -> None:
    project.makepyfile(f"def test_export(onnx_fuser):\n    onnx_fuser({call})\n")
    result = project.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    assert says in result.stdout.str()
    assert "pytest_plugin.py" not in result.stdout.str()


def test_a_project_that_does_not_ask_for_it_loads_nothing(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys

        def test_nothing_is_loaded():
            assert "fuser.pytest_plugin" in sys.modules
            heavy = {"onnx", "numpy", "onnxruntime", "rich", "fuser.api", "jsonschema"}
            assert not heavy & {*sys.modules}
        """
    )
    project.runpytest_subprocess().assert_outcomes(passed=1)


def test_an_installed_plugin_is_found_by_its_entry_point() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert '[project.entry-points.pytest11]\nonnx_fuser = "fuser.pytest_plugin"' in text
    assert Path(ROOT / "fuser" / "pytest_plugin.py").is_file()
