"""Builds the discriminator of DCGAN, the network this project started from: full width, random weights.

Radford, Metz, Chintala, "Unsupervised Representation Learning with Deep Convolutional Generative Adversarial
Networks", 2015: N×3×64×64 float32 in, four blocks of Conv 4×4, stride 2, pad 1 (64, 128, 256, 512 channels,
BatchNormalization after all but the first) with LeakyRelu of slope 0.2, then Conv 4×4 to one channel and
Sigmoid: N×1×1×1 out.

A freshly initialized network would have BatchNormalization compute the identity, and a wrong fold would not
show. So the statistics are those of a trained one: means and variances per channel, scales of both signs, one
of them tiny. The same arguments give the same bytes. 11 MB, so it is built where it is needed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import onnx_graphsurgeon as gs

SLOPE = 0.2


def discriminator(*, width: int = 64, seed: int = 0, opset: int = 17) -> onnx.ModelProto:
    """The discriminator with ``width`` channels in its first block, twice as many in each that follows."""
    random = np.random.default_rng(seed)
    image = gs.Variable("image", np.float32, ("N", 3, 64, 64))
    nodes: list[gs.Node] = []

    def add(op: str, name: str, inputs: list[gs.Tensor], **attributes: object) -> gs.Variable:
        output = gs.Variable(f"{name}_output", np.float32)
        nodes.append(gs.Node(op=op, name=name, inputs=inputs, outputs=[output], attrs=attributes))
        return output

    def conv(name: str, value: gs.Tensor, fan_in: int, fan_out: int, *, stride: int, pad: int) -> gs.Variable:
        shape = (fan_out, fan_in, 4, 4)
        weight = random.standard_normal(shape) * np.sqrt(
            2 / (16 * fan_in)
        )  # He et al. 2015: variance survives
        constant = gs.Constant(f"{name}.weight", weight.astype(np.float32))
        return add("Conv", name, [value, constant], kernel_shape=[4, 4], strides=[stride] * 2, pads=[pad] * 4)

    def normalize(name: str, value: gs.Tensor, channels: int) -> gs.Variable:
        scale = random.uniform(0.6, 1.4, channels)
        scale[1], scale[2] = -scale[1], 1e-6
        statistics = {
            "weight": scale,
            "bias": random.standard_normal(channels) * 0.3,
            "running_mean": random.standard_normal(channels) * 0.3,
            "running_var": random.uniform(0.4, 1.6, channels),
        }
        constants = [gs.Constant(f"{name}.{key}", v.astype(np.float32)) for key, v in statistics.items()]
        return add("BatchNormalization", name, [value, *constants], epsilon=1e-5)

    value, fan_in = image, 3
    for block in range(4):
        fan_out = width * 2**block
        value = conv(f"block{block}.conv", value, fan_in, fan_out, stride=2, pad=1)
        if block > 0:
            value = normalize(f"block{block}.bn", value, fan_out)
        value = add("LeakyRelu", f"block{block}.act", [value], alpha=SLOPE)
        fan_in = fan_out
    value = conv("judge.conv", value, fan_in, 1, stride=1, pad=0)
    value = add("Sigmoid", "judge.sigmoid", [value])
    value.name, value.shape = "probability", ("N", 1, 1, 1)

    graph = gs.Graph(nodes, [image], [value], name="dcgan_discriminator", opset=opset, ir_version=8)
    model: onnx.ModelProto = gs.export_onnx(graph, do_type_check=True)
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Writes the model to the path given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--width", type=int, default=64, help="channels of the first block (64)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.output.write_bytes(
        discriminator(width=arguments.width, seed=arguments.seed).SerializeToString(deterministic=True)
    )


if __name__ == "__main__":
    main()
