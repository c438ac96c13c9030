"""What `onnx-fuser optimize` makes of each file in models/: sites fused, what is left, what it computes.

The outputs are judged with onnx and onnxruntime alone, not by what the report says.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, NodeProto, ValueInfoProto

from fuser.cli.app import run as onnx_fuser

MODELS = Path(__file__).parents[2] / "models"


class Case(NamedTuple):
    """A file of models/, the options, and what the output must hold; None where either is right."""

    file: str
    fused: int | None
    normalizations: int
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.file, *self.options))


CASES = [
    Case("torch_discriminator", fused=4, normalizations=0),
    Case("torch_dynamo_discriminator", fused=4, normalizations=0),
    Case("torch_generator", fused=4, normalizations=0),
    Case(
        "torch_functions_generator", fused=4, normalizations=0
    ),  # one definition, called four times and opened
    Case("torch_training_discriminator", fused=1, normalizations=3),
    Case("torch_shared_weights", fused=0, normalizations=1),
    Case("torch_spectral_norm", fused=2, normalizations=0),
    Case("torch_if", fused=0, normalizations=2),
    Case("torch_dynamo_batch_statistics", fused=0, normalizations=1),
    Case("mindspore_discriminator", fused=4, normalizations=0),
    Case("mindspore_adaptive_discriminator", fused=4, normalizations=0),  # AdaptiveLeakyRelu
    Case("paddle_discriminator", fused=4, normalizations=0),
    Case("keras_generator", fused=4, normalizations=0),
    Case("jax_head", fused=None, normalizations=0),  # a Transpose before the second activation
    Case("jax_lax", fused=1, normalizations=0),
    Case("darknet_yolov4_tiny", fused=0, normalizations=14),  # its initializers may be overridden
    Case("darknet_yolov4_tiny", fused=14, normalizations=0, options=("--freeze-inputs",)),
    Case("mixed_precision_discriminator", fused=4, normalizations=0),
    Case("quantized_discriminator", fused=0, normalizations=3),
]


def nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Every node of the model, in subgraphs and functions too, except the fused operators' definitions."""

    def walk(sequence: Sequence[NodeProto]) -> Iterator[NodeProto]:
        for node in sequence:
            yield node
            for attribute in node.attribute:
                for graph in (attribute.g, *attribute.graphs):
                    yield from walk(graph.node)

    yield from walk(model.graph.node)
    for function in model.functions:
        if function.domain != "fuser":
            yield from walk(function.node)


def run(model: ModelProto, names: Sequence[str]) -> list[np.ndarray]:
    """The named values, computed without optimizations from one seeded draw."""
    exposed = ModelProto()
    exposed.CopyFrom(model)
    del exposed.graph.output[:]
    exposed.graph.output.extend(ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4  # it warns about every initializer that is a graph input
    session = onnxruntime.InferenceSession(
        exposed.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    random = np.random.default_rng(0)
    dtypes = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
    feeds = {
        value.name: random.standard_normal([d if isinstance(d, int) else 2 for d in value.shape]).astype(
            dtypes[value.type]
        )
        for value in session.get_inputs()
    }
    results: list[np.ndarray] = session.run(list(names), feeds)
    return results


def test_every_file_is_in_the_table_and_in_the_readme() -> None:
    files = {path.stem for path in MODELS.glob("*.onnx")}
    assert {case.file for case in CASES} == files
    readme = (MODELS / "README.md").read_text(encoding="utf-8")
    assert {file for file in files if f"| {file}.onnx |" in readme} == files


@pytest.mark.parametrize("case", CASES, ids=str)
def test_optimize_an_exported_model(case: Case, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, output, report = MODELS / f"{case.file}.onnx", tmp_path / "fused.onnx", tmp_path / "report.json"
    arguments = ["optimize", str(source), "-o", str(output), "--report", str(report), *case.options]
    status = onnx_fuser(arguments)
    assert status == 0, capfd.readouterr().err

    before, after = onnx.load(source), onnx.load(output)
    onnx.checker.check_model(after, full_check=True)
    operators = Counter((node.domain, node.op_type) for node in nodes(after))
    fused = sum(n for (domain, op), n in operators.items() if domain == "fuser" and op.endswith("LeakyRelu"))
    if case.fused is not None:
        assert fused == case.fused
    assert operators["", "BatchNormalization"] == case.normalizations

    told = json.loads(report.read_text(encoding="utf-8"))
    assert told["parity"]["verdict"] == "passed"
    assert len(told["fusions"]) == fused

    # A name that both models compute must mean the same value in both, inside as at the outputs.
    made = {name for node in after.graph.node for name in node.output if name}
    names = [name for node in before.graph.node for name in node.output if name in made]
    assert {value.name for value in before.graph.output} <= set(names)
    for name, expected, actual in zip(names, run(before, names), run(after, names), strict=True):
        relative = 1e-2 if expected.dtype == np.float16 else 1e-4
        scale = float(np.abs(expected).max(initial=0))
        np.testing.assert_allclose(
            actual, expected, rtol=relative, atol=relative * (scale + 1e-6), err_msg=name
        )
