"""The steps of a run: rewrite, put in the target's form, check, study. Each gives the report with what it found."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fuser.pipeline import Rewritten, rewrite
from fuser.report import ModelFacts, Report
from fuser.report.facts import Facts, refuse_damaged
from fuser.selection import select_rules
from fuser.storage import StoredModel, from_proto, load, save

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto

    from fuser.options import Options


def run(stored: StoredModel, options: Options) -> Report:
    """Rewrite the model in place and report on it; parity is not checked yet."""
    started = time.perf_counter()
    proto = stored.proto
    sha256 = stored.sha256 if options.hashes else ""
    before = Facts.of(proto)
    opset = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 0)
    if options.atc is not None and proto.functions:  # ATC reads none
        from fuser.targets.atc.functions import inline

        stored.proto = proto = inline(proto)
    rules = select_rules(options.patterns, options.only, options.disable)
    loaded = time.perf_counter()
    try:
        done = rewrite(
            stored, rules, freeze_inputs=options.constant_inputs, standard=options.fused_as == "standard"
        )
    except (TypeError, ValueError):
        refuse_damaged(proto)
        raise
    after = Facts.of(proto)
    facts = ModelFacts(
        path=str(stored.path or ""),
        sha256=sha256,
        opset=opset,
        ir_version=before.ir_version,
        nodes=(before.nodes, after.nodes),
        initializer_bytes=(before.initializer_bytes, after.initializer_bytes),
        operators=(before.operators, after.operators),
        batch_normalizations=(
            before.operators.get("BatchNormalization", 0),
            after.operators.get("BatchNormalization", 0),
        ),
    )
    timing = {"rules": loaded - started, **done.seconds}
    return _report(done, facts, options, timing)


def check(before: Path | ModelProto, stored: StoredModel, report: Report, options: Options) -> Report:
    """The report with the parity of the rewritten model and the one it came from."""
    from fuser.parity import check_parity
    from fuser.places import changed_places

    started = time.perf_counter()
    original = _opened(before)
    sites = changed_places(original.proto, stored.proto, report.fusions, report.rewrites)
    with tempfile.TemporaryDirectory(prefix="onnx-fuser-") as folder:
        written = save(stored, Path(folder) / "fused.onnx", digest=False)
        parity = check_parity(
            before, written.path, inputs=options.inputs, draws=options.draws, seed=options.seed,
            tolerance=options.tolerance, shapes=options.shapes, sites=sites, timeout=options.timeout,
            freeze_inputs=options.constant_inputs,
        )  # fmt: skip
        checked = time.perf_counter()
        report = replace(report, parity=parity, timing={**report.timing, "parity": checked - started})
        return _studied(original, stored, report, options, written.path)


def studied(before: Path | ModelProto, stored: StoredModel, report: Report, options: Options) -> Report:
    """The report with memory and advice, where it will be read; nothing is run."""
    return _studied(_opened(before), stored, report, options, None) if options.hashes else report


def _opened(model: Path | ModelProto) -> StoredModel:
    return load(model) if isinstance(model, Path) else from_proto(model)


def _studied(
    original: StoredModel, stored: StoredModel, report: Report, options: Options, fused: Path | None
) -> Report:
    """The report with memory and advice, and onnxruntime's own figures where ``fused`` is a file with the rewritten model."""
    if not options.hashes:
        return report
    from fuser.report.study import study

    started = time.perf_counter()
    report = study(original, stored, report, shapes=options.shapes, fused=fused, timeout=options.timeout)
    return replace(report, timing={**report.timing, "study": time.perf_counter() - started})


def emit(
    stored: StoredModel, report: Report, options: Options
) -> tuple[Report, StoredModel, tuple[FunctionProto, ...]]:
    """Put a fused model in the target's form, in place.

    Returns the report with the target's findings, the model as onnxruntime runs it, and the definitions that
    this has and the model hasn't.

    Raises:
        TargetError: the target has no such version.
    """
    if options.atc is None:
        return report, stored, ()
    from fuser.targets.atc.emit import emit

    emitted = emit(stored, report, "node" if options.fused_as == "node" else "standard", options.atc)
    return emitted.report, emitted.runnable, emitted.definitions


def check_float16(before: Path | ModelProto, stored: StoredModel, report: Report, options: Options) -> Report:
    """The report with the parity of the original model and a float16 copy, where that was asked for."""
    if options.atc is None or not options.atc.float16:
        return report
    from fuser.parity import check_parity
    from fuser.parity.compare import TOLERANCES
    from fuser.targets.atc.emit import with_float16
    from fuser.targets.atc.float16 import float16_copy

    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="onnx-fuser-") as folder:
        written = save(float16_copy(stored), Path(folder) / "float16.onnx", digest=False)
        parity = check_parity(
            before, written.path, inputs=options.inputs, draws=options.draws, seed=options.seed,
            tolerance=TOLERANCES["float16"], shapes=options.shapes, timeout=options.timeout,
            freeze_inputs=options.constant_inputs,
        )  # fmt: skip
    return with_float16(report, parity, time.perf_counter() - started)


def refused(report: Report) -> bool:
    """Whether the target would refuse the model, by its findings, and nobody allowed that."""
    findings, allowed = report.target["findings"], report.target.get("allowed", False)
    return not allowed and any(finding["severity"] == "error" for finding in findings)


def _report(done: Rewritten, facts: ModelFacts, options: Options, timing: Mapping[str, float]) -> Report:
    return Report(
        tool=_versions() if options.hashes else {}, model=facts, rewrites=done.rewrites, fusions=done.fusions,
        declined=done.declined, rules=done.rules,
        target={"name": "onnx", "form": options.fused_as, "findings": []}, timing=timing,
    )  # fmt: skip


def _versions() -> dict[str, str]:
    """The tool's name, and the versions of what it ran with."""
    from importlib import metadata  # slow, and only a report that is read needs it

    tool = {"name": "onnx-fuser"}
    for package in ("onnx-fuser", "onnx", "onnxruntime", "numpy"):
        try:
            tool[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            tool[package] = "not installed"
    return tool
