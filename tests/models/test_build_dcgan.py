"""models/build_dcgan.py: the discriminator as published, with statistics that make a wrong fold show."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from models.build_dcgan import discriminator

SCRIPT = Path(__file__).parents[2] / "models" / "build_dcgan.py"


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    """The full-width model."""
    return discriminator()


def weights(model: onnx.ModelProto, ending: str) -> list[np.ndarray]:
    """The initializers whose names end so, in graph order."""
    return [numpy_helper.to_array(t) for t in model.graph.initializer if t.name.endswith(ending)]


def test_the_script_writes_the_same_bytes_each_time(tmp_path: Path) -> None:
    def build(name: str, *arguments: str) -> str:
        path = tmp_path / name
        subprocess.run([sys.executable, str(SCRIPT), "-o", str(path), "--width", "8", *arguments], check=True)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    assert build("a.onnx") == build("b.onnx") != build("c.onnx", "--seed", "1")


def test_operators_are_the_published_ones(model: onnx.ModelProto) -> None:
    first, block, last = (
        ["Conv", "LeakyRelu"],
        ["Conv", "BatchNormalization", "LeakyRelu"],
        ["Conv", "Sigmoid"],
    )
    assert [node.op_type for node in model.graph.node] == first + block * 3 + last


def test_every_convolution_has_the_published_shape(model: onnx.ModelProto) -> None:
    shapes = [w.shape for w in weights(model, ".conv.weight")]
    assert shapes == [(64, 3, 4, 4), (128, 64, 4, 4), (256, 128, 4, 4), (512, 256, 4, 4), (1, 512, 4, 4)]
    convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
    geometry = [
        tuple(helper.get_node_attr_value(node, key)[0] for key in ("strides", "pads"))
        for node in convolutions
    ]
    assert geometry == [(2, 1)] * 4 + [(1, 0)]


def test_every_activation_has_slope_one_fifth(model: onnx.ModelProto) -> None:
    slopes = [helper.get_node_attr_value(n, "alpha") for n in model.graph.node if n.op_type == "LeakyRelu"]
    assert slopes == pytest.approx([0.2] * 4)


def test_no_normalization_is_near_the_identity(model: onnx.ModelProto) -> None:
    scales = weights(model, ".bn.weight")
    assert len(scales) == 3
    for scale, variance, mean in zip(
        scales, weights(model, ".running_var"), weights(model, ".running_mean"), strict=True
    ):
        assert np.count_nonzero(scale < 0) == 1
        assert np.count_nonzero(np.abs(scale) < 1e-3) == 1
        gain = scale / np.sqrt(variance + 1e-5)
        assert np.std(gain) > 0.2
        assert np.std(mean) > 0.2


@pytest.mark.parametrize("batch", [1, 3])
def test_it_runs_at_any_batch_and_answers_with_probabilities(model: onnx.ModelProto, batch: int) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    images = np.random.default_rng(0).standard_normal((batch, 3, 64, 64)).astype(np.float32)
    (probability,) = session.run(None, {"image": images})
    assert probability.shape == (batch, 1, 1, 1)
    assert np.all((probability > 0) & (probability < 1))


def test_it_declares_a_free_batch(model: onnx.ModelProto) -> None:
    for value in (*model.graph.input, *model.graph.output):
        assert value.type.tensor_type.shape.dim[0].dim_param == "N"
