"""Activation memory of a model before and after fusion: a static figure, and onnxruntime's beside it."""

from fuser.memory.compare import memory_of
from fuser.memory.measured import measured_peaks
from fuser.memory.result import Memory, Reuse, Step, Usage

__all__ = ["Memory", "Reuse", "Step", "Usage", "measured_peaks", "memory_of"]
