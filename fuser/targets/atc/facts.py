"""What is registered in which CANN release: a view of operators.json, and facts that are not per operator.

A new CANN is a change of operators.json. ``Release.opsets`` answers the one question ATC asks of an operator.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from onnx import TensorProto

from fuser.errors import TargetError

# Looked up by op_type alone, whatever the domain and opset (the parser's own node types).
UNVERSIONED = frozenset({"Constant", "FileConstant", "Input"})

# The parser has a type for these and a way to read their elements; all others end in E19999. float8 has a
# type but no way to be read, so only float8 in a file passes.
_INLINE = (
    "FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64 COMPLEX64 COMPLEX128 "
    "BFLOAT16 INT4"
)
INLINE_DTYPES = frozenset(TensorProto.DataType.Value(name) for name in _INLINE.split())
FILE_DTYPES = INLINE_DTYPES | {TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E4M3FN}

# general_restrictions.md of the ATC guide: UINT8 through --insert_op_conf.
INPUT_DTYPES = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.UINT8})

# What to do about operators that people's models have and no CANN registers.
REPLACEMENTS = {
    "QuantizeLinear": "export the float model; quantize it with AMCT, which writes AscendQuant",
    "DequantizeLinear": "export the float model; quantize it with AMCT, which writes AscendDequant",
    "DynamicQuantizeLinear": "export the float model",
    "QLinearConv": "export the float model; quantize it with AMCT",
    "QLinearMatMul": "export the float model; quantize it with AMCT",
    "ConvInteger": "export the float model; quantize it with AMCT",
    "MatMulInteger": "export the float model; quantize it with AMCT",
    "Loop": "export with a fixed number of iterations, to unroll it; ATC knows no subgraphs but If's",
    "Scan": "export with a fixed number of steps, to unroll it; ATC knows no subgraphs but If's",
    "Gelu": "export at opset 18 or below, where Gelu is written with Erf",
    "GroupNormalization": "export at opset 17 or below: Reshape and InstanceNormalization",
    "FusedConv": "save the model before onnxruntime's optimizer ran; `onnx-fuser optimize` fuses it",
}

_SOC = re.compile(
    r"Ascend(310|310B[1-4]|310P[1357]|910(A|B|ProA|ProB|PremiumA)|910B[1-4](-1|C)?|910_93\d\d|950(PR|DT)_\w+)"
)
# ConvBatchnormFusionPass is documented for 310P, 310B and the first 910 only.
_FOLDS_BATCHNORM = re.compile(r"Ascend(310.*|910(A|B|ProA|ProB|PremiumA))")


@dataclass(frozen=True)
class Release:
    """One CANN release as far as the ONNX parser is concerned.

    ``known`` is false where the sources of the version asked for were not read; the next older stands for it.
    """

    name: str
    known: bool
    unregistered: str  # error code for an operator that is not registered
    several_imports: bool  # more than one opset import is E16005 for nodes without a domain

    def opsets(self, domain: str, op_type: str) -> frozenset[int]:
        """Opsets of ``domain`` at which the operator is registered; empty where it never is."""
        entry = self._entry(domain, op_type)
        return (
            parse_ranges(entry.get("earlier", {}).get(self.name, entry["opsets"])) if entry else frozenset()
        )

    def assumed(self, domain: str, op_type: str) -> bool:
        """Whether the operator's plugin was not public in this release, so that ``opsets`` gives master's."""
        entry = self._entry(domain, op_type)
        return bool(entry) and self.name in entry.get("closed", ())

    @staticmethod
    def _entry(domain: str, op_type: str) -> dict[str, Any]:
        found: dict[str, Any] = table()["operators"].get(
            op_type if domain == "ai.onnx" else f"{domain}::{op_type}", {}
        )
        return found


@cache
def table() -> dict[str, Any]:
    """The content of operators.json."""
    text = Path(__file__).with_name("operators.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@cache
def registered_names() -> tuple[str, ...]:
    """Every operator of the default domain that master registers."""
    return tuple(name for name in table()["operators"] if "::" not in name)


@cache
def expands(op_type: str) -> bool:
    """Whether one ONNX node of this type always becomes several GE nodes."""
    entry = table()["operators"].get(op_type)
    return bool(entry) and entry["ge"] == "PartitionedCall"


@cache
def parse_ranges(text: str) -> frozenset[int]:
    """``"8-9,11"`` as the set of 8, 9 and 11."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found.update(range(int(low), int(high or low) + 1))
    return frozenset(found)


def show_ranges(opsets: frozenset[int]) -> str:
    """The set of 8, 9 and 11 as ``"8-9, 11"``."""
    runs: list[list[int]] = []
    for number in sorted(opsets):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def release(cann: str) -> Release:
    """The release that stands for a CANN version: ``"master"``, ``"9.1"``, ``"9.1.0"``, ``"8.0.RC3"``.

    Raises TargetError for something that is no version.
    """
    name, known = _release_name(cann)
    facts = table()["releases"][name]
    return Release(name, known, facts["unregistered"], facts["several_imports"])


def _release_name(cann: str) -> tuple[str, bool]:
    releases = table()["releases"]
    asked = cann.strip().lower().removeprefix("v")
    if asked in releases:
        return asked, True
    if asked in {"develop", "latest"}:
        return "master", True
    version = re.match(r"(\d+)\.(\d+)(.*)", asked)
    if version is None:
        raise TargetError(
            f"CANN version {cann!r} is none that is known; use one of {', '.join(releases)}, or X.Y.Z"
        )
    number = int(version[1]), int(version[2])
    if number >= (9, 2):
        # The fix of the several-imports rule came with 9.2.0-beta.2.
        return ("9.2.0-beta.1", True) if asked.startswith("9.2.0-beta.1") else ("master", number == (9, 2))
    older = [key for key in releases if re.fullmatch(r"\d+\.\d+", key) and _pair(key) <= number]
    best = max(older, key=_pair, default="2022")
    return best, best != "2022" and _pair(best) == number


def _pair(key: str) -> tuple[int, int]:
    major, minor = key.split(".")
    return int(major), int(minor)


def is_soc(name: str) -> bool:
    """Whether --soc_version takes this name."""
    return _SOC.fullmatch(name) is not None


def folds_batchnorm(soc: str) -> bool:
    """Whether GE itself folds a BatchNormalization into its Conv on this chip."""
    return _FOLDS_BATCHNORM.fullmatch(soc) is not None
