"""Writes a network for the benchmarks: a chain of Conv, BatchNormalization and LeakyRelu, random weights."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper


def chain(blocks: int, channels: int, kernel: int) -> ModelProto:
    """``blocks`` times Conv (``channels`` to ``channels``, square ``kernel``), BatchNormalization, LeakyRelu.

    Input and output are [N, channels, 8, 8]; 3·blocks nodes, blocks·channels²·kernel² convolution weights.
    """
    random = np.random.default_rng(0)
    model = ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)])
    graph = model.graph
    graph.name = "chain"
    statistics = {"scale": (0.5, 1.5), "shift": (-1, 1), "mean": (-1, 1), "variance": (0.5, 1.5)}
    geometry = [
        helper.make_attribute("kernel_shape", [kernel, kernel]),
        helper.make_attribute("pads", [kernel // 2] * 4),
    ]
    slope = [helper.make_attribute("alpha", 0.1)]

    def add_tensor(name: str, values: NDArray[np.floating]) -> None:
        graph.initializer.append(
            TensorProto(
                name=name,
                data_type=TensorProto.FLOAT,
                dims=values.shape,
                raw_data=values.astype("<f4", copy=False).tobytes(),
            )
        )

    value = "x"
    for i in range(blocks):
        weight = random.standard_normal((channels, channels, kernel, kernel), dtype=np.float32)
        add_tensor(f"weight{i}", weight / np.float32(np.sqrt(channels) * kernel))
        for name, (low, high) in statistics.items():
            add_tensor(f"{name}{i}", random.uniform(low, high, channels))
        for op, inputs, attributes in (
            ("Conv", [f"weight{i}"], geometry),
            ("BatchNormalization", [f"{name}{i}" for name in statistics], []),
            ("LeakyRelu", [], slope),
        ):
            made = f"{op}{i}"
            graph.node.append(
                NodeProto(
                    op_type=op,
                    name=made,
                    input=[value, *inputs],
                    output=[f"{made}_out"],
                    attribute=attributes,
                )
            )
            value = f"{made}_out"
    shape: list[str | int | None] = ["N", channels, 8, 8]
    graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, shape))
    graph.output.append(helper.make_tensor_value_info(value, TensorProto.FLOAT, shape))
    return model


def main() -> None:
    """Writes the network to the path given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    for option in ("--blocks", "--channels", "--kernel"):
        parser.add_argument(option, type=int, required=True)
    arguments = parser.parse_args()
    model = chain(arguments.blocks, arguments.channels, arguments.kernel)
    arguments.output.write_bytes(model.SerializeToString())


if __name__ == "__main__":
    main()
