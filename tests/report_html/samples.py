"""Reports to render: a real one, one of many rows, one whose every name is hostile."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from onnx import TensorProto, helper

import fuser
from tests.builders import conv_bn_leaky

HOSTILE = (
    "</script></style></title><script>window.owned=1</script><img src=x onerror=window.owned=1>"
    "'\"`{{7*7}}&lt;\u202e"
)
FIXED = {"verdict", "severity", "code", "form", "format", "dtype", "kind", "judge"}
"""Fields whose values are the program's own, not a model's."""


@cache
def _real() -> dict[str, Any]:
    model = conv_bn_leaky(channels=(3, 4, 4, 4), size=8)
    model.graph.node[-1].attribute[0].f = 0.0
    model.graph.output.append(helper.make_tensor_value_info("bn1", TensorProto.FLOAT, ["N", 4, 8, 8]))
    return fuser.fuse(model).report.to_json()


def real() -> dict[str, Any]:
    """Two fused sites, a near miss, parity with a histogram, memory, advice."""
    report = copy.deepcopy(_real())
    assert report["declined"]
    assert report["memory"]["before"]
    assert report["advice"]
    assert report["parity"]["outputs"][0]["histogram"]
    return report


def long(rows: int) -> dict[str, Any]:
    """So many fused sites and near misses, numbered; every third site has no slope."""
    report = real()
    fusion, site = report["fusions"][0], report["parity"]["sites"][0]
    report["fusions"] = [
        {
            **fusion,
            "output": f"value{i}",
            "nodes": [f"node{i}"] * 3,
            "negative_slope": i / 1000 if i % 3 else None,
        }
        for i in range(rows)
    ]
    report["parity"]["sites"] = [
        {**site, "site": {**site["site"], "output": f"value{i}"}, "negatives": i / rows} for i in range(rows)
    ]
    miss = {"rule": "ConvLeakyRelu", "label": "act", "node": "n", "op": "Relu", "graph": "", "hint": "--x"}
    miss["reason"] = "another operator"
    report["declined"] = [{**miss, "node": f"miss{i}", "reached": i % 7} for i in range(rows)]
    return report


def hostile() -> dict[str, Any]:
    """Every text that could come out of a model is markup that would show."""
    report = real()
    report["target"]["findings"] = [
        {"code": "E1", "severity": "error", "node": "n", "message": "m", "fix": "f", "rule": "r"}
    ]
    report["parity"]["guilty"] = [report["parity"]["sites"][0]["site"]]
    report["declined"].append({**long(1)["declined"][0], "graph": "g"})
    return _spoiled(report)


def _spoiled(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        fixed = name in {"tool", "model"}
        return {
            (k if fixed or not k.startswith("x") else HOSTILE + k): _spoiled(v, k) if k not in FIXED else v
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [_spoiled(item, name) for item in value]
    return HOSTILE + value if isinstance(value, str) else value
