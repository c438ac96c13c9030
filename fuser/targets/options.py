"""What a run for ATC is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class AtcOptions:
    """How ATC will be called, and what to do about what it would refuse.

    ``cann`` is the version to judge by, ``soc`` the --soc_version, ``opset`` the one to emit (None: the
    nearest that ATC registers), ``precision`` its --precision_mode. ``float16``: compare a float16 copy as
    well. ``allow_findings``: write a model that ATC would refuse. ``switches`` turns GE's fusion passes on
    and off by name; None leaves them.
    """

    cann: str = "master"
    soc: str | None = None
    opset: int | None = None
    precision: str = "force_fp16"
    float16: bool = False
    allow_findings: bool = False
    switches: Mapping[str, bool] | None = None
