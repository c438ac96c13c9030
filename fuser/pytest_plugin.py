"""pytest plugin: the fixture ``onnx_fuser``, for a project's export tests. Until it is used nothing loads.

def test_export(onnx_fuser, tmp_path):
    torch.onnx.export(model, example, tmp_path / "model.onnx")
    fused = onnx_fuser(tmp_path / "model.onnx", batch_normalizations=0)
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnx_graphsurgeon as gs
    from onnx import ModelProto

    from fuser.api import Result


@pytest.fixture
def onnx_fuser() -> Callable[..., Result[Any]]:
    """Fuse a model and assert that it was fused and still computes the same.

    ``fused = onnx_fuser(path_or_model, fusions="all", batch_normalizations=None, **options)``: ``fusions``
    is the fewest fused operators, or "all" where no LeakyRelu may be left; ``batch_normalizations`` the most
    that may be left; the options are those of :func:`fuser.fuse`, whose result it returns.
    """
    return _fused


def _fused(
    model: str | Path | ModelProto | gs.Graph,
    *,
    fusions: int | Literal["all"] = "all",
    batch_normalizations: int | None = None,
    **options: Any,
) -> Result[Any]:
    __tracebackhide__ = True
    from fuser.api import fuse
    from fuser.gate.judge import judge
    from fuser.gate.limits import Limits
    from fuser.gate.measure import Measured, unfused

    result = fuse(model, **options)
    name = str(model) if isinstance(model, (str, Path)) else "MODEL"
    named = {"accept": "fusions=N", "batch-normalizations": "batch_normalizations"}
    limits = Limits(fusions, batch_normalizations, file="the call of onnx_fuser", origin=named)
    measured = Measured(name, result.report, unfused(result.stored.proto))
    verdict = judge(limits, measured, None, date.min, compared=False)
    wrong = [f for f in verdict.found if f.severity != "note"]
    if wrong:
        near = [f"near miss: {f.message}" for f in verdict.near_misses]
        raise AssertionError("\n".join([*(f"{f.message}. Fix: {f.fix}" for f in wrong), *near]))
    return result
