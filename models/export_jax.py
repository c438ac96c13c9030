"""Exports small networks from JAX (Flax NNX) by jax2onnx to models/networks/.

The files that lie there were made with jax 0.10.2, flax 0.12.8, jax2onnx 0.17.1, on Python 3.11, by

    pip install jax==0.10.2 flax==0.12.8 jax2onnx==0.17.1
    python models/export_jax.py

Flax has the channels last, so there are Transposes about. The networks are in inference mode, their weights
random and seeded. No 3-D net: this version of jax2onnx can't export such a Conv.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax  # type: ignore[import-not-found, unused-ignore]
import jax2onnx  # type: ignore[import-not-found, unused-ignore]
from flax import nnx  # type: ignore[import-not-found, unused-ignore]

HERE = Path(__file__).parent / "networks"
Network = Any  # a function of one array, which flax gives no type


def leaky(slope: float) -> Network:
    """LeakyReLU."""
    return lambda value: nnx.leaky_relu(value, negative_slope=slope)


def trained(channels: int, random: Any) -> Any:
    """BatchNorm with parameters and statistics as of a trained network; freshly made, it is the identity."""
    norm = nnx.BatchNorm(channels, use_running_average=True, rngs=random)
    norm.scale[...] = jax.random.uniform(random(), (channels,), minval=0.6, maxval=1.4).at[1].multiply(-1)
    norm.bias[...] = jax.random.normal(random(), (channels,)) * 0.3
    norm.mean[...] = jax.random.normal(random(), (channels,)) * 0.3
    norm.var[...] = jax.random.uniform(random(), (channels,), minval=0.4, maxval=1.6)
    return norm


def block(
    random: Any,
    fan_in: int,
    fan_out: int,
    kernel: Sequence[int],
    *,
    slope: float = 0.2,
    up: bool = False,
    **geometry: Any,
) -> list[Any]:
    """Conv, or ConvTranspose, with BatchNorm and LeakyReLU."""
    conv = nnx.ConvTranspose if up else nnx.Conv
    return [
        conv(fan_in, fan_out, tuple(kernel), rngs=random, **geometry),
        trained(fan_out, random),
        leaky(slope),
    ]


def discriminator(random: Any) -> Network:
    """DCGAN's discriminator, N×32×32×3 to N×1: four Conv with LeakyReLU, all but the first with BatchNorm."""
    geometry: dict[str, Any] = {"strides": (2, 2), "padding": ((1, 1), (1, 1)), "use_bias": False}
    return nnx.Sequential(
        nnx.Conv(3, 8, (4, 4), rngs=random, **geometry), leaky(0.2),
        *block(random, 8, 16, (4, 4), **geometry),
        *block(random, 16, 24, (4, 4), **geometry),
        *block(random, 24, 32, (4, 4), **geometry),
        nnx.Conv(32, 1, (2, 2), padding="VALID", rngs=random), nnx.sigmoid,
    )  # fmt: skip


def generator(random: Any) -> Network:
    """DCGAN's generator, N×16 to N×16×16×3: Linear and two ConvTranspose with both, then one with tanh."""
    geometry: dict[str, Any] = {"strides": (2, 2), "padding": "SAME", "up": True}
    return nnx.Sequential(
        nnx.Linear(16, 128, rngs=random), trained(128, random), leaky(0.2),
        lambda value: value.reshape(-1, 2, 2, 32),
        *block(random, 32, 16, (4, 4), **geometry),
        *block(random, 16, 8, (4, 4), **geometry),
        nnx.ConvTranspose(8, 3, (4, 4), strides=(2, 2), rngs=random), nnx.tanh,
    )  # fmt: skip


def tiny_yolo(random: Any) -> Network:
    """YOLOv3-tiny (yolov3-tiny.cfg) made narrow, N×96×96×3 to N×3×3×21 and N×6×6×21."""

    def unit(fan_in: int, fan_out: int, size: int) -> list[Any]:
        return block(random, fan_in, fan_out, (size, size), slope=0.1, use_bias=False)

    def pool(value: Any, stride: int = 2) -> Any:
        return nnx.max_pool(value, window_shape=(2, 2), strides=(stride, stride), padding="SAME")

    to_route = nnx.Sequential(
        *unit(3, 4, 3), pool, *unit(4, 8, 3), pool, *unit(8, 8, 3), pool, *unit(8, 16, 3), pool,
        *unit(16, 16, 3),
    )  # fmt: skip
    after_route = nnx.Sequential(
        pool, *unit(16, 24, 3), lambda value: pool(value, 1), *unit(24, 32, 3), *unit(32, 16, 1)
    )
    coarse = nnx.Sequential(*unit(16, 24, 3), nnx.Conv(24, 21, (1, 1), rngs=random))
    up = nnx.Sequential(*unit(16, 8, 1))
    fine = nnx.Sequential(*unit(24, 16, 3), nnx.Conv(16, 21, (1, 1), rngs=random))

    def network(image: Any) -> tuple[Any, Any]:
        route = to_route(image)
        value = after_route(route)
        larger = jax.numpy.repeat(jax.numpy.repeat(up(value), 2, axis=1), 2, axis=2)
        return coarse(value), fine(jax.numpy.concatenate([larger, route], axis=-1))

    return network


def sound(random: Any) -> Network:
    """A classifier of sound, N×256×1 to N×5: strided, dilated, grouped and depthwise Conv, then Linear."""
    return nnx.Sequential(
        *block(random, 1, 8, (9,), strides=(2,)),
        *block(random, 8, 16, (5,), strides=(2,), kernel_dilation=(2,)),
        *block(random, 16, 16, (5,), strides=(2,), feature_group_count=4),
        *block(random, 16, 16, (3,), feature_group_count=16),
        *block(random, 16, 24, (1,)),
        lambda value: nnx.avg_pool(value, window_shape=(4,), strides=(4,)).reshape(-1, 8 * 24),
        nnx.Linear(8 * 24, 16, rngs=random), trained(16, random), leaky(0.2),
        nnx.Linear(16, 5, rngs=random),
    )  # fmt: skip


NETWORKS: dict[str, tuple[Callable[[Any], Network], tuple[int | str, ...]]] = {
    "discriminator": (discriminator, ("N", 32, 32, 3)),
    "generator": (generator, ("N", 16)),
    "yolo": (tiny_yolo, ("N", 96, 96, 3)),
    "conv1d": (sound, ("N", 256, 1)),
}


def main() -> None:
    """Writes every network and says how large the files are."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=HERE, metavar="FOLDER")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for name, (make, shape) in NETWORKS.items():
        model = jax2onnx.to_onnx(make(nnx.Rngs(0)), [shape], model_name=name)
        path = folder / f"jax_{name}.onnx"
        path.write_bytes(model.SerializeToString(deterministic=True))
        print(f"{path}  {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
