"""What ATC would refuse in a model, and what to do about it: its parser's rules, applied without ATC.

One pass over the nodes for each kind of check; weights' values are not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuser.targets.atc.edges import check_edges
from fuser.targets.atc.facts import Release, folds_batchnorm, is_soc, release
from fuser.targets.atc.inputs import check_inputs
from fuser.targets.atc.names import Scope, check_names, scopes
from fuser.targets.atc.nodes import check_nodes
from fuser.targets.atc.registration import check_registration
from fuser.targets.atc.tensors import check_tensors
from fuser.targets.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from onnx import ModelProto


def lint(
    model: ModelProto,
    *,
    cann: str = "master",
    soc: str | None = None,
    path: Path | None = None,
    plugin: Collection[str] = (),
) -> tuple[Finding, ...]:
    """Everything that stands between this model and ATC of one CANN version.

    ``model`` may be a skeleton whose large tensors hold no data. ``path`` is where the model lies, for its
    external data. ``soc`` is the --soc_version to run on. ``plugin`` are operators of the default domain
    that a plugin beside the model registers. Raises TargetError where ``cann`` is no version.
    """
    chosen = release(cann)
    return (*_asked(chosen, cann, soc), *_findings(model, chosen, soc, path, plugin))


def _asked(chosen: Release, cann: str, soc: str | None) -> Iterator[Finding]:
    if not chosen.known:
        yield Finding(
            None,
            "note",
            "",
            f"the operators of CANN {cann} are not known; those of {chosen.name} were taken",
            "check the operators that are in doubt with atc --mode=3",
            "unknown-release",
        )
    if soc is not None and not is_soc(soc):
        yield Finding(
            "E10054",
            "error",
            "",
            f"{soc!r} is no --soc_version that is known",
            "take the chip name that npu-smi info prints, with Ascend before it, such as Ascend310P3",
            "soc-version",
        )


def _findings(
    model: ModelProto, chosen: Release, soc: str | None, path: Path | None, plugin: Collection[str]
) -> Iterator[Finding]:
    if not model.HasField("graph"):
        yield Finding("E16004", "error", "", "the model has no graph", "check how it was saved", "no-graph")
        return
    found = scopes(model)
    yield from check_inputs(model.graph)
    for scope in found:
        yield from check_names(scope)
    yield from check_registration(model, found, chosen, plugin)
    for scope in found:
        yield from check_tensors(scope, path)
        yield from check_edges(scope)
        yield from check_nodes(scope, model)
    if soc is not None and is_soc(soc) and not folds_batchnorm(soc):
        yield from _batchnorms(found, soc)


def _batchnorms(found: tuple[Scope, ...], soc: str) -> Iterator[Finding]:
    names = [
        name
        for scope in found
        for node, name in zip(scope.graph.node, scope.names, strict=True)
        if node.op_type == "BatchNormalization"
    ]
    if names:
        yield Finding(
            None,
            "note",
            names[0],
            f"{len(names)} BatchNormalization stay: CANN's own folding is not documented for {soc}",
            "fold them with `onnx-fuser optimize --target atc`",
            "batchnorm-not-folded",
        )
