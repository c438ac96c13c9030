"""``explain``: near misses, the story of one node, and the rules that never applied."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from onnx import ModelProto, helper

from tests.builders import conv_bn_leaky
from tests.cli.running import onnx_fuser, saved


@pytest.fixture
def training(tmp_path: Path) -> Path:
    """A BatchNormalization in training mode between Conv and LeakyRelu."""
    model: ModelProto = conv_bn_leaky(check=False)
    model.graph.node[1].attribute.append(helper.make_attribute("training_mode", 1))
    model.graph.node[1].output.extend(["mean_out", "var_out"])
    return saved(model, tmp_path / "model.onnx")


def test_it_names_the_node_the_fact_and_what_the_pattern_needs(training: Path) -> None:
    done = onnx_fuser("explain", training)
    assert (done.status, done.err) == (0, "")
    said = " ".join(done.out.split())
    assert "Left alone: " in said
    assert "[bn] BatchNormalization 'BN_0': training_mode is 1, the pattern needs 0" in said
    assert max(map(len, done.out.splitlines())) <= 80


def test_it_lists_the_rules_that_never_applied(training: Path) -> None:
    said = " ".join(onnx_fuser("explain", training).out.split())
    vain = said.partition("Rules that were tried in vain")[2]
    assert "Affine:batchnorm" in vain
    assert re.search(r"\bLeakyRelu \(\d+\)", vain.partition("without a node to begin with")[2])


def test_a_node_that_was_fused_has_its_story(tmp_path: Path) -> None:
    path = saved(conv_bn_leaky(), tmp_path / "model.onnx")
    said = " ".join(onnx_fuser("explain", path, "BN_0").out.split())
    assert "'BN_0' is part of ConvLeakyRelu at 'y'" in said
    assert "made of Conv + BatchNormalization + LeakyRelu: Conv_0, BN_0, LeakyRelu_0" in said
    assert "Fold:conv_batchnorm" in said.partition("Rules that applied at 'BN_0', in order")[2]


@pytest.mark.parametrize("name", ["BN_0", "bn0"])
def test_a_node_that_was_left_says_why(training: Path, name: str) -> None:
    """By its own name or by that of a value it makes."""
    done = onnx_fuser("explain", training, name)
    assert done.status == 0
    said = " ".join(done.out.split())
    assert f"Rules that did not apply at '{name}', nearest first" in said
    assert "Affine:batchnorm: [bn] BatchNormalization 'BN_0': " in said


def test_a_node_that_no_pattern_knows_is_said_to_be_one(tmp_path: Path) -> None:
    model = conv_bn_leaky()
    model.graph.node[-1].output[0] = "z"
    model.graph.node.append(helper.make_node("Tanh", ["z"], ["y"], "last"))
    path = saved(model, tmp_path / "model.onnx")
    assert "No rule was tried at 'last'" in onnx_fuser("explain", path, "last").out


def test_the_model_is_not_written_to(training: Path) -> None:
    before = training.read_bytes()
    assert onnx_fuser("explain", training).status == onnx_fuser("explain", training, "BN_0").status == 0
    assert training.read_bytes() == before
