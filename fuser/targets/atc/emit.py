"""A fused model put in ATC's form and judged: what was found, in the report."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from fuser.report.facts import Facts
from fuser.targets.atc.form import to_atc_form
from fuser.targets.atc.lint import lint
from fuser.targets.atc.nodeform import fused_functions, single_nodes, why_written_out, with_definitions
from fuser.targets.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from onnx import FunctionProto

    from fuser.parity import Parity
    from fuser.report import Report
    from fuser.storage import StoredModel
    from fuser.targets.options import AtcOptions

Form = Literal["standard", "node"]


@dataclass(frozen=True)
class Emitted:
    """``runnable`` is the model as onnxruntime takes it, which in node form has the ``definitions`` again."""

    report: Report
    runnable: StoredModel
    definitions: tuple[FunctionProto, ...]


def emit(stored: StoredModel, report: Report, form: Form, options: AtcOptions) -> Emitted:
    """Put a fused model in ATC's form, in place, and lint it; weights stay where they are.

    Raises TargetError where ``options.cann`` is no version.
    """
    started = time.perf_counter()
    fused = fused_functions(stored.proto) if form == "node" else ()
    definitions = single_nodes(fused)
    emitted, said = to_atc_form(stored.proto, opset=options.opset, cann=options.cann, fused_as=form)
    stored.proto = emitted
    names = [function.name for function in definitions]
    found = lint(emitted, cann=options.cann, soc=options.soc, plugin=names)
    if any(finding.rule == "opset-conversion" for finding in said):  # it says of the same operators why
        found = tuple(finding for finding in found if finding.rule != "opset")
    target = {
        "name": "atc",
        "form": form,
        "cann": options.cann,
        "soc": options.soc,
        "allowed": options.allow_findings,
        "float16": None,
        "findings": [asdict(finding) for finding in (*said, *_written_out(fused), *found)],
    }
    runnable = replace(stored, proto=with_definitions(emitted, definitions)) if definitions else stored
    timing = {**report.timing, "target": time.perf_counter() - started}
    return Emitted(replace(_recounted(report, stored), target=target, timing=timing), runnable, definitions)


def _written_out(fused: Sequence[FunctionProto]) -> Iterator[Finding]:
    for function in fused:
        why = why_written_out(function)
        if why:
            message = f"{why}, so it is written as standard operators"
            yield Finding(
                None, "note", "", message, "write a plugin by hand where it shall be one node", "plugin"
            )


def _recounted(report: Report, stored: StoredModel) -> Report:
    """The report with what the model consists of now."""
    facts, after = report.model, Facts.of(stored.proto)
    normalizations = after.operators.get("BatchNormalization", 0)
    model = replace(
        facts,
        nodes=(facts.nodes[0], after.nodes),
        initializer_bytes=(facts.initializer_bytes[0], after.initializer_bytes),
        operators=(facts.operators[0], after.operators),
        batch_normalizations=(facts.batch_normalizations[0], normalizations),
    )
    return replace(report, model=model)


def with_float16(report: Report, parity: Parity, seconds: float) -> Report:
    """The report with what computing in float16, ATC's default, does to the outputs."""
    finding = _float16_finding(parity)
    findings: list[Any] = [*report.target["findings"], asdict(finding)]
    target = {**report.target, "float16": parity.to_json(), "findings": findings}
    return replace(report, target=target, timing={**report.timing, "float16": seconds})


def _float16_finding(parity: Parity) -> Finding:
    worst = max((o.smallest_tolerance or 0.0 for o in parity.outputs), default=0.0)
    if parity.verdict == "passed":
        message = f"in float16, ATC's default, the outputs are within {worst:.2g} of the original's"
        return Finding(None, "note", "", message, "", "float16")
    if parity.verdict == "failed":
        message = f"in float16, ATC's default, the outputs differ: {parity.reason}"
        fix = "try --inputs of your own; --precision allow_mix_precision lets ATC keep float32 where it can"
        return Finding(None, "warning", "", message, fix, "float16")
    message = f"what float16, ATC's default, does to the outputs could not be judged: {parity.reason}"
    return Finding(None, "warning", "", message, "give --inputs that the model runs on", "float16")
