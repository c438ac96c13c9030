"""onnx-fuser: fuses Conv, BatchNormalization and LeakyRelu in ONNX models, says why not, and proves the result.

``fuse`` optimizes a model, ``check_parity`` compares two, ``explain`` says why something was not fused. Importing this
package loads neither onnx nor numpy; the first use of a name does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuser.api import Result, explain, fuse
    from fuser.errors import ConfigError, FuserError, ModelError, OutputError, PatternError, TargetError
    from fuser.parity import Parity, check_parity
    from fuser.report import Report

__all__ = [
    "ConfigError", "FuserError", "ModelError", "OutputError", "Parity", "PatternError", "Report", "Result", "TargetError",
    "check_parity", "explain", "fuse",
]  # fmt: skip

_HOME = {
    "Parity": "fuser.parity", "Report": "fuser.report", "Result": "fuser.api", "check_parity": "fuser.parity",
    "explain": "fuser.api", "fuse": "fuser.api",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'fuser' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME.get(name, "fuser.errors")), name)
