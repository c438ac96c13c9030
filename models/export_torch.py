"""Exports small networks from PyTorch, with both of its exporters, to models/networks/.

The files that lie there were made with PyTorch 2.13.0, onnx 1.23.2, onnxscript 0.7.2, on Python 3.11, by

    pip install torch==2.13.0 onnx==1.23.2 onnxscript==0.7.2
    python models/export_torch.py

The networks are in inference mode, their weights random and seeded. BatchNormalization stays as the exporter
first writes it, which is what an optimizer gets from whoever trains on: ``training=PRESERVE`` for the older
exporter, ``optimize=False`` for the newer one, since both would fold it into the Conv before it on their own.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import nn  # type: ignore[import-not-found, unused-ignore]

HERE = Path(__file__).parent / "networks"


def darknet_block(fan_in: int, fan_out: int, size: int) -> Any:
    """Darknet's unit, ``[convolutional] batch_normalize=1 activation=leaky``: the slope is 0.1."""
    return nn.Sequential(
        nn.Conv2d(fan_in, fan_out, size, padding=size // 2, bias=False),
        nn.BatchNorm2d(fan_out),
        nn.LeakyReLU(0.1, inplace=True),
    )


class TinyYolo(nn.Module):  # type: ignore[misc]
    """YOLOv3-tiny (Redmon, Farhadi 2018, yolov3-tiny.cfg) at a quarter to a sixteenth of its width, 96×96.

    Seven units with pooling between, the last pooling of stride 1; then a head of two units, and a second one
    of one unit after a route, a unit and an upsampling. The heads end in a Conv alone, of three boxes and two
    classes.
    """

    def __init__(self) -> None:
        super().__init__()
        widths = (4, 8, 8, 16, 16)
        stages: list[Any] = []
        fan_in = 3
        for width in widths:
            stages += [darknet_block(fan_in, width, 3), nn.MaxPool2d(2, 2)]
            fan_in = width
        self.to_route = nn.Sequential(*stages[:-1])
        self.after_route = nn.Sequential(
            stages[-1],
            darknet_block(16, 24, 3),
            nn.ZeroPad2d((0, 1, 0, 1)),
            nn.MaxPool2d(2, 1),
            darknet_block(24, 32, 3),
            darknet_block(32, 16, 1),
        )
        self.coarse = nn.Sequential(darknet_block(16, 24, 3), nn.Conv2d(24, 21, 1))
        self.up = nn.Sequential(darknet_block(16, 8, 1), nn.Upsample(scale_factor=2, mode="nearest"))
        self.fine = nn.Sequential(darknet_block(24, 16, 3), nn.Conv2d(16, 21, 1))

    def forward(self, image: Any) -> tuple[Any, Any]:
        """N×3×96×96 to N×21×3×3 and N×21×6×6."""
        route = self.to_route(image)
        value = self.after_route(route)
        return self.coarse(value), self.fine(torch.cat([self.up(value), route], 1))


def sound() -> Any:
    """A classifier of sound, N×1×256 to N×5: strided, dilated, grouped and depthwise Conv1d, then Linear.

    Each is followed by BatchNorm1d and LeakyReLU.
    """

    def block(fan_in: int, fan_out: int, size: int, **geometry: int) -> list[Any]:
        return [nn.Conv1d(fan_in, fan_out, size, **geometry), nn.BatchNorm1d(fan_out), nn.LeakyReLU(0.2)]

    return nn.Sequential(
        *block(1, 8, 9, stride=2, padding=4),
        *block(8, 16, 5, stride=2, padding=4, dilation=2),
        *block(16, 16, 5, stride=2, padding=2, groups=4),
        *block(16, 16, 3, padding=1, groups=16),
        *block(16, 24, 1),
        nn.AvgPool1d(4),
        nn.Flatten(),
        nn.Linear(24 * 8, 16),
        nn.BatchNorm1d(16),
        nn.LeakyReLU(0.2),
        nn.Linear(16, 5),
    )


class VoxelUNet(nn.Module):  # type: ignore[misc]
    """A 3-D U-Net (Çiçek et al. 2016) of one level, N×1×8×8×8 to N×2×8×8×8, with LeakyReLU."""

    def __init__(self) -> None:
        super().__init__()

        def block(fan_in: int, fan_out: int, **geometry: int) -> Any:
            # With a bias, though BatchNorm takes it away: where there is none, the newer exporter computes
            # one for Conv3d, of shape [fan_out, 2], which nothing can run.
            conv = nn.Conv3d(fan_in, fan_out, 3, padding=1, **geometry)
            return nn.Sequential(conv, nn.BatchNorm3d(fan_out), nn.LeakyReLU(0.01))

        self.left = nn.Sequential(block(1, 4), block(4, 8))
        self.down = nn.Sequential(block(8, 16, stride=2), block(16, 16))
        up = nn.ConvTranspose3d(16, 8, 2, stride=2)
        self.up = nn.Sequential(up, nn.BatchNorm3d(8), nn.LeakyReLU(0.01))
        self.right = nn.Sequential(block(16, 8), nn.Conv3d(8, 2, 1))

    def forward(self, voxels: Any) -> Any:
        """The logits of each voxel."""
        left = self.left(voxels)
        return self.right(torch.cat([self.up(self.down(left)), left], 1))


def generator() -> Any:
    """DCGAN's generator, N×16×1×1 to N×3×32×32: four blocks with LeakyReLU, one with Tanh."""
    widths = (16, 24, 12, 8, 4)
    layers: list[Any] = []
    for i, (fan_in, fan_out) in enumerate(pairwise(widths)):
        conv = nn.ConvTranspose2d(fan_in, fan_out, 4, 1 if i == 0 else 2, 0 if i == 0 else 1, bias=False)
        layers += [conv, nn.BatchNorm2d(fan_out), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(4, 3, 3, 1, 1, bias=False), nn.Tanh())


NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "yolo": (TinyYolo, (1, 3, 96, 96)),
    "conv1d": (sound, (1, 1, 256)),
    "conv3d": (VoxelUNet, (1, 1, 8, 8, 8)),
    "generator": (generator, (1, 16, 1, 1)),
}


def trained(network: Any, random: Any) -> Any:
    """The network in inference mode, with parameters and statistics as of a trained one.

    Freshly made, BatchNorm computes the identity, and a wrong fold would not show: so means and variances by
    channel, scales of both signs.
    """
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.weight.uniform_(0.6, 1.4, generator=random)[1] *= -1
                module.bias.normal_(0, 0.3, generator=random)
                module.running_mean.normal_(0, 0.3, generator=random)
                module.running_var.uniform_(0.4, 1.6, generator=random)
            elif hasattr(module, "weight"):
                fan_in = math.prod(module.weight.shape[1:])
                module.weight.normal_(0, math.sqrt(2 / fan_in), generator=random)
                if module.bias is not None:
                    module.bias.uniform_(-0.1, 0.1, generator=random)
    return network.eval()


def export(name: str, folder: Path, *, dynamo: bool) -> Path:
    """Write one network with one exporter and return the file's path."""
    make, shape = NETWORKS[name]
    random = torch.Generator().manual_seed(0)
    network = trained(make(), random)
    example = torch.randn(shape, generator=random)
    path = folder / f"torch_{'dynamo_' if dynamo else ''}{name}.onnx"
    if dynamo:
        program = torch.onnx.export(network, (example,), dynamo=True, optimize=False, opset_version=18)
        for node in program.model.graph.all_nodes():  # else stack traces, which hold paths of this machine
            node.metadata_props.clear()
        program.save(path)
    else:
        torch.onnx.export(
            network, (example,), path, dynamo=False, opset_version=17, input_names=["input"],
            training=torch.onnx.TrainingMode.PRESERVE, dynamic_axes={"input": {0: "N"}},
        )  # fmt: skip
    return path


def main() -> None:
    """Writes every network with both exporters and says how large the files are."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=HERE, metavar="FOLDER")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for name in NETWORKS:
        for dynamo in (False, True):
            if name == "generator" and not dynamo:
                continue  # models/torch_generator.onnx is one
            path = export(name, folder, dynamo=dynamo)
            print(f"{path}  {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
