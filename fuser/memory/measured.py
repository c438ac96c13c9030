"""What onnxruntime says that it used, from its own profile of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fuser.parity.runner import EngineError, Worker, WorkerDiedError, memory_default
from fuser.parity.source import input_specs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from onnx import ModelProto


def measured_peaks(
    paths: tuple[Path, Path], model: ModelProto, shapes: Mapping[str, Sequence[int]], *, timeout: float
) -> tuple[int, int] | None:
    """Bytes at the peak of one run of each; None where onnxruntime can't run one of them or does not say.

    Both run with optimizations off, on zeros of these shapes, in a process of its own. Weights, inputs and
    the scratch memory of kernels are not in the figures. ``timeout``: seconds that one run may take.
    """
    feeds = {
        spec.name: np.zeros(shapes[spec.name], spec.dtype)
        for spec in input_specs(model.graph)[0]
        if spec.name in shapes
    }
    with Worker(timeout, memory_default()) as worker:
        try:
            before, after = (worker.peak(path, feeds) for path in paths)
        except (EngineError, WorkerDiedError):
            return None
    return None if before is None or after is None else (before, after)
