"""Reports and what is measured with them, made by hand for tests of judging."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fuser.gate.latency import Latency
from fuser.gate.measure import Measured
from fuser.parity import OutputDifference, Parity
from fuser.report import Declined, Fusion, ModelFacts, Report

MODEL = "exports/net.onnx"


def fusion(output: str = "y", graph: str = "") -> Fusion:
    return Fusion(
        "ConvLeakyRelu", graph, output, output, ("x",), ("Conv", "BN", "Act"), ("BN",),
        ("Fold:conv", "ConvLeakyRelu"), 0.2, ("Conv", "BatchNormalization", "LeakyRelu"),
    )  # fmt: skip


def declined(
    node: str = "BN_1",
    reason: str = "has 5 outputs, which is training",
    hint: str = "",
    op: str = "BatchNormalization",
    rule: str = "Affine:batchnorm",
) -> Declined:
    return Declined(rule, "bn", node, op, "", reason, 1, hint)


def output(name: str = "y", needs: float | None = 1e-6, verdict: Any = "passed") -> OutputDifference:
    return OutputDifference(name, "float32", needs, needs, 1.0, 90.0, 1e-3, needs, verdict, "as said")


def measured(
    *,
    fusions: tuple[Fusion, ...] = (fusion(),),
    declines: tuple[Declined, ...] = (),
    batch_normalizations: tuple[int, int] = (1, 0),
    parity: Parity | None = Parity("passed", "3 draws agree", "onnxruntime", outputs=(output(),)),  # noqa: B008
    nbytes: tuple[int, int] = (1000, 900),
    latency: Latency | None = None,
    **others: Any,
) -> Measured:
    facts = ModelFacts(
        MODEL, "0" * 64, 17, 8, (3, 1), (900, 800), ({"Conv": 1}, {"Conv": 1}), batch_normalizations
    )
    report = Report({"name": "onnx-fuser"}, facts, (), fusions, declines, (), {}, parity)
    found = Measured(MODEL, report, nbytes=nbytes, latency=latency, weights="aa")
    sites = {f.output + (f" in {f.graph}" if f.graph else ""): "11" for f in fusions}
    return replace(found, **{"site_weights": sites, **others})
