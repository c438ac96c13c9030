"""Models run in onnxruntime, its optimizer off."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnxruntime
from onnx import ModelProto, TensorProto, helper

Array = npt.NDArray[np.generic]


def feeds(model: ModelProto, *, open_size: int = 3, seed: int = 0) -> dict[str, Array]:
    """Random values for every input of a model; every open size is ``open_size``."""
    random = np.random.default_rng(seed)
    constants = {tensor.name for tensor in model.graph.initializer}
    drawn: dict[str, Array] = {}
    for value in model.graph.input:
        if value.name not in constants:
            kind = value.type.tensor_type
            shape = [d.dim_value if d.HasField("dim_value") else open_size for d in kind.shape.dim]
            numbers = np.asarray(random.standard_normal(shape) * 2)
            dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
            drawn[value.name] = np.asarray(
                numbers > 0 if kind.elem_type == TensorProto.BOOL else numbers.astype(dtype)
            )
    return drawn


def run(model: ModelProto, values: Mapping[str, Array]) -> list[Array]:
    """A model's outputs. Names of nodes are left out: onnxruntime refuses two that are the same."""
    unnamed = ModelProto()
    unnamed.CopyFrom(model)
    for node in unnamed.graph.node:
        node.ClearField("name")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        unnamed.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    outputs: list[Array] = session.run(None, dict(values))
    return outputs


def assert_same(left: list[Array], right: list[Array]) -> None:
    """Bit for bit, shapes and types included."""
    assert [(a.shape, a.dtype) for a in left] == [(b.shape, b.dtype) for b in right]
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)
