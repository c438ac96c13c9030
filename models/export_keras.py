"""Exports small networks from Keras by tf2onnx to models/networks/.

The files there were made with tensorflow-cpu 2.21.0, keras 3.15.1, tf2onnx 1.17.0, on Python 3.11, by

    pip install tensorflow-cpu==2.21.0 keras==3.15.1 tf2onnx==1.17.0
    python models/export_keras.py

Keras has the channels last, and tf2onnx writes BatchNormalization as Mul and Add or folds it. The networks
are in inference mode, their weights random and seeded.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras  # type: ignore[import-not-found, unused-ignore]
import numpy as np
import tensorflow as tf  # type: ignore[import-not-found, import-untyped, unused-ignore]
import tf2onnx  # type: ignore[import-not-found, import-untyped, unused-ignore]
from keras import layers  # type: ignore[import-not-found, unused-ignore]

HERE = Path(__file__).parent / "networks"


def unit(conv: Any, value: Any, slope: float) -> Any:
    """A layer, BatchNormalization, LeakyReLU."""
    return layers.LeakyReLU(negative_slope=slope)(layers.BatchNormalization()(conv(value)))


def discriminator() -> Any:
    """DCGAN's discriminator, N×32×32×3 to N×1: four Conv2D with LeakyReLU, three with BatchNorm."""
    image = layers.Input((32, 32, 3))
    value = layers.LeakyReLU(negative_slope=0.2)(layers.Conv2D(8, 4, 2, "same")(image))
    for width in (16, 24, 32):
        value = unit(layers.Conv2D(width, 4, 2, "same", use_bias=False), value, 0.2)
    return keras.Model(image, layers.Conv2D(1, 2, activation="sigmoid")(value))


def tiny_yolo() -> Any:
    """YOLOv3-tiny (yolov3-tiny.cfg) made narrow, N×96×96×3 to N×3×3×21 and N×6×6×21."""

    def conv(width: int, size: int) -> Any:
        return layers.Conv2D(width, size, padding="same", use_bias=False)

    image = layers.Input((96, 96, 3))
    value = image
    for width in (4, 8, 8, 16):
        value = layers.MaxPooling2D()(unit(conv(width, 3), value, 0.1))
    route = unit(conv(16, 3), value, 0.1)
    value = unit(conv(24, 3), layers.MaxPooling2D()(route), 0.1)
    value = unit(conv(32, 3), layers.MaxPooling2D(2, 1, "same")(value), 0.1)
    value = unit(conv(16, 1), value, 0.1)
    coarse = layers.Conv2D(21, 1)(unit(conv(24, 3), value, 0.1))
    larger = layers.UpSampling2D()(unit(conv(8, 1), value, 0.1))
    fine = layers.Conv2D(21, 1)(unit(conv(16, 3), layers.Concatenate()([larger, route]), 0.1))
    return keras.Model(image, [coarse, fine])


def sound() -> Any:
    """A classifier of sound, N×256×1 to N×5: strided and dilated Conv1D, then Dense."""
    wave = layers.Input((256, 1))
    value = unit(layers.Conv1D(8, 9, 2, "same"), wave, 0.2)
    value = unit(layers.Conv1D(16, 5, 1, "same", dilation_rate=2), value, 0.2)
    value = unit(layers.Conv1D(16, 5, 4, "same"), value, 0.2)
    value = unit(layers.Conv1D(24, 1), value, 0.2)
    value = unit(layers.Dense(16), layers.Flatten()(layers.AveragePooling1D(4)(value)), 0.2)
    return keras.Model(wave, layers.Dense(5)(value))


def voxels() -> Any:
    """A 3-D U-Net of one level, N×8×8×8×1 to N×8×8×8×2, with LeakyReLU."""

    def conv(width: int, stride: int = 1) -> Any:
        return layers.Conv3D(width, 3, stride, "same", use_bias=False)

    grid = layers.Input((8, 8, 8, 1))
    left = unit(conv(8), unit(conv(4), grid, 0.01), 0.01)
    down = unit(conv(16), unit(conv(16, 2), left, 0.01), 0.01)
    up = unit(layers.Conv3DTranspose(8, 2, 2), down, 0.01)
    right = unit(conv(8), layers.Concatenate()([up, left]), 0.01)
    return keras.Model(grid, layers.Conv3D(2, 1)(right))


NETWORKS: dict[str, Callable[[], Any]] = {
    "discriminator": discriminator,
    "yolo": tiny_yolo,
    "conv1d": sound,
    "conv3d": voxels,
}


def trained(model: Any, random: np.random.Generator) -> Any:
    """The model with parameters and statistics as of a trained one; freshly made, BatchNorm does nothing."""
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            width = layer.gamma.shape[0]
            gamma = random.uniform(0.6, 1.4, width)
            gamma[1] = -gamma[1]
            shift, mean = random.normal(0, 0.3, (2, width))
            layer.set_weights([gamma, shift, mean, random.uniform(0.4, 1.6, width)])
    return model


def main() -> None:
    """Writes every network and says how large the files are."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=HERE, metavar="FOLDER")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in NETWORKS.items():
        keras.utils.set_random_seed(0)
        model = trained(make(), np.random.default_rng(0))
        signature = [tf.TensorSpec((None, *model.input.shape[1:]), tf.float32, "input")]
        function = tf.function(lambda value, model=model: model(value, training=False), signature)
        path = folder / f"keras_{name}.onnx"
        tf2onnx.convert.from_function(function, signature, opset=15, output_path=str(path))
        print(f"{path}  {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
