"""Small models for tests: one function per shape, every feature a keyword, the same seed the same model."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

Dim = int | str
Shape = Sequence[Dim]


def tensor(name: str, values: npt.ArrayLike, dtype: int = TensorProto.FLOAT) -> TensorProto:
    """An initializer of ONNX type ``dtype``, its bytes in raw_data."""
    return numpy_helper.from_array(np.asarray(values).astype(helper.tensor_dtype_to_np_dtype(dtype)), name)


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Shape],
    outputs: Mapping[str, Shape | None],
    initializers: Sequence[TensorProto] = (),
    *,
    opset: int = 17,
    ir: int = 8,
    dtype: int = TensorProto.FLOAT,
    overridable: bool = False,
    check: bool = True,
) -> ModelProto:
    """A model of these nodes; ``overridable`` lists the initializers as graph inputs, a must before IR 4."""
    listed = [helper.make_tensor_value_info(name, dtype, shape) for name, shape in inputs.items()]
    if overridable:
        listed += [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in initializers]
    graph = helper.make_graph(
        list(nodes),
        "test",
        listed,
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in outputs.items()],
        list(initializers),
    )
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    if check:
        onnx.checker.check_model(built, full_check=True)
    return built


def conv_bn_leaky(
    *,
    opset: int = 17,
    ir: int = 8,
    dtype: int = TensorProto.FLOAT,
    bias: bool = False,
    bn: bool = True,
    slope: float | None = 0.2,
    batch: Dim = "N",
    channels: Sequence[int] = (3, 4),
    size: int = 8,
    kernel: int = 3,
    stride: int = 1,
    group: int = 1,
    transpose: bool = False,
    epsilon: float = 1e-5,
    overridable: bool = False,
    seed: int = 0,
    check: bool = True,
) -> ModelProto:
    """Conv (or ConvTranspose), BatchNormalization, LeakyRelu: one block per neighbours in ``channels``.

    Input ``x`` is [batch, channels[0], size, size]; output ``y`` has channels[-1]. Values of block i are
    ``conv{i}``, ``bn{i}``, ``act{i}``, nodes are named ``Conv_{i}``, ``BN_{i}``, ``LeakyRelu_{i}``, tensors
    ``W{i}``, ``B{i}``, ``scale{i}``, ``shift{i}``, ``mean{i}``, ``var{i}``. ``slope=None`` leaves the
    activation out, ``bn=False`` the normalization. The statistics are far from the identity, so that a wrong
    fold shows: a third of the scales is negative.
    """
    random = np.random.default_rng(seed)
    nodes: list[NodeProto] = []
    initializers: list[TensorProto] = []
    value, extent = "x", size
    for i, (fan_in, fan_out) in enumerate(itertools.pairwise(channels)):
        shape = (fan_in, fan_out // group) if transpose else (fan_out, fan_in // group)
        weight = random.standard_normal((*shape, kernel, kernel)) / np.sqrt(shape[1] * kernel * kernel)
        initializers.append(tensor(f"W{i}", weight, dtype))
        if bias:
            initializers.append(tensor(f"B{i}", random.standard_normal(fan_out), dtype))
        nodes.append(
            helper.make_node(
                "ConvTranspose" if transpose else "Conv",
                [value, f"W{i}", *([f"B{i}"] if bias else [])],
                [f"conv{i}"],
                f"Conv_{i}",
                kernel_shape=[kernel, kernel],
                strides=[stride, stride],
                pads=[kernel // 2] * 4,
                group=group,
            )
        )
        value = f"conv{i}"
        spread = 2 * (kernel // 2) - kernel
        extent = (extent - 1) * stride - spread if transpose else (extent + spread) // stride + 1
        if bn:
            scale = random.uniform(0.5, 1.5, fan_out) * np.where(np.arange(fan_out) % 3 == 1, -1, 1)
            statistics = {
                "scale": scale,
                "shift": random.standard_normal(fan_out),
                "mean": random.standard_normal(fan_out) * 0.5,
                "var": random.uniform(0.3, 2.0, fan_out),
            }
            initializers += [tensor(f"{name}{i}", values, dtype) for name, values in statistics.items()]
            nodes.append(
                helper.make_node(
                    "BatchNormalization",
                    [value, *(f"{name}{i}" for name in statistics)],
                    [f"bn{i}"],
                    f"BN_{i}",
                    epsilon=epsilon,
                )
            )
            value = f"bn{i}"
        if slope is not None:
            nodes.append(helper.make_node("LeakyRelu", [value], [f"act{i}"], f"LeakyRelu_{i}", alpha=slope))
            value = f"act{i}"
    nodes[-1].output[0] = "y"
    return model(
        nodes,
        {"x": (batch, channels[0], size, size)},
        {"y": (batch, channels[-1], extent, extent)},
        initializers,
        opset=opset,
        ir=ir,
        dtype=dtype,
        overridable=overridable,
        check=check,
    )
