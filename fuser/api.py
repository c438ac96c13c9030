"""The Python API: fuse a model, explain why something was not fused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from onnx import ModelProto

from fuser.errors import ConfigError, OutputError
from fuser.options import Form, Options, form_of
from fuser.pipeline import rewrite
from fuser.report.facts import names_in
from fuser.selection import nearest, select_rules
from fuser.steps import check, check_float16, emit, refused, run, studied
from fuser.storage import StoredModel, Written, from_proto, load, save
from fuser.targets.options import AtcOptions

if TYPE_CHECKING:
    import onnx_graphsurgeon as gs
    from numpy.typing import NDArray

    from fuser.report import Declined, Report

M = TypeVar("M")


@dataclass(frozen=True)
class Result(Generic[M]):
    """A fused model and the report on it. ``model`` is of the kind that was given: a gs.Graph for a gs.Graph."""

    report: Report
    stored: StoredModel
    _as_graph: bool = False

    @property
    def model(self) -> M:
        """The fused model with all its weights in memory."""
        whole = self.stored.materialize()
        if self._as_graph:
            import onnx_graphsurgeon

            return cast("M", onnx_graphsurgeon.import_onnx(whole))
        return cast("M", whole)

    def save(self, path: str | Path, *, force: bool = False) -> Written:
        """Write the model; weights that no rule touched are copied from file to file.

        Raises:
            OutputError: parity failed or the target would refuse the model, so there is nothing to write; or
                the path can't be written.
        """
        refuse_failed(self.report)
        return save(self.stored, path, force=force)


def fuse(
    model: str | Path | ModelProto | gs.Graph,
    *,
    patterns: Sequence[str | Path] = (),
    only: Sequence[str] = (),
    disable: Sequence[str] = (),
    fused_as: Form | None = None,
    target: Literal["onnx", "atc"] | AtcOptions = "onnx",
    freeze_inputs: bool = False,
    parity: bool = True,
    inputs: str | Path | Mapping[str, NDArray[Any]] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    draws: int = 3,
    seed: int = 0,
    tolerance: float | None = None,
    timeout: float = 300.0,
) -> Result[Any]:
    """Fuse Conv, BatchNormalization and LeakyRelu wherever they mean that, and check the result.

    Args:
        model: a path, a ModelProto or an onnx-graphsurgeon Graph; it is not changed.
        patterns: folders or files of further rules, tried before the built-in ones.
        only: ids or names of the rules to use; all where empty.
        disable: ids or names of rules not to use.
        fused_as: ``function`` writes ``fuser::ConvLeakyRelu`` and its definition, ``standard`` Conv and
            LeakyRelu; ``node``, for ATC with a plugin, one operator of the default domain. Where None,
            ``function``, and ``standard`` for ATC.
        target: what will read the model. For ``atc`` it is put in ATC's form, and the report says what ATC
            would refuse.
        freeze_inputs: nobody overrides initializers that are also graph inputs, so they are constants.
        parity: run both models in onnxruntime, optimizations off, and compare.
        inputs: what to run them on: .npz, .npy, a folder of .pb files, or arrays by input name; seeded draws else.
        shapes: shapes of inputs whose dims are free, by input name.
        draws: how many seeded draws.
        seed: of the first draw.
        tolerance: relative to an output's scale; by element type where None.
        timeout: seconds that one run of a model may take.

    Returns:
        The fused model and the report; ``report.parity.verdict`` says what the check found.

    Raises:
        ModelError: the model can't be read or contradicts itself.
        PatternError: a rule file is wrong.
        ConfigError: an option is.
        TargetError: the target has no such version.
    """
    atc = AtcOptions() if target == "atc" else None if target == "onnx" else target
    options = Options(
        tuple(map(Path, patterns)), tuple(only), tuple(disable), form_of(fused_as, atc), freeze_inputs, parity,
        Path(inputs) if isinstance(inputs, str) else inputs, shapes, draws, seed, tolerance, timeout, atc=atc,
    )  # fmt: skip
    before: Path | ModelProto
    if isinstance(model, (str, Path)):
        stored, before, as_graph = load(model), Path(model), False
    else:
        as_graph = not isinstance(model, ModelProto)
        proto = _export(cast("gs.Graph", model)) if as_graph else cast("ModelProto", model)
        stored, before = from_proto(proto), proto
    report, runnable, _ = emit(stored, run(stored, options), options)
    looked = check if parity else studied
    report = looked(before, runnable, report, options)
    report = check_float16(before, runnable, report, options)
    return Result(report, stored, as_graph)


def explain(
    model: str | Path | ModelProto,
    node: str | None = None,
    *,
    patterns: Sequence[str | Path] = (),
    freeze_inputs: bool = False,
) -> tuple[Declined, ...]:
    """Why not: every near miss of the model, nearest first; or everything that was tried at one node.

    Args:
        model: a path or a ModelProto; it is not changed.
        node: a node's name, or the name of a value it makes.
        patterns: folders or files of further rules.
        freeze_inputs: as for :func:`fuse`.

    Raises:
        ModelError: the model can't be read or contradicts itself.
        ConfigError: the model has no such node.
    """
    stored = load(model) if isinstance(model, (str, Path)) else from_proto(model)
    if node is not None:
        known = names_in(stored.proto)
        if node not in known:
            raise ConfigError(f"the model has no node {node!r}; {nearest(node, known)}")
    rules = select_rules(tuple(map(Path, patterns)))
    return rewrite(stored, rules, freeze_inputs=freeze_inputs, about=node).declined


def refuse_failed(report: Report) -> None:
    """Raise OutputError where parity failed or the target would refuse the model: no such one is written."""
    if report.parity is not None and report.parity.verdict == "failed":
        raise OutputError(f"parity failed, so nothing is written: {report.parity.reason}")
    if refused(report):
        raise OutputError("the target would refuse the model, so nothing is written; see report.target")


def _export(graph: gs.Graph) -> ModelProto:
    """The graph as a model; graphsurgeon's export changes the graph's own order, so a copy is exported."""
    import onnx_graphsurgeon

    if not isinstance(graph, onnx_graphsurgeon.Graph):
        raise ConfigError(
            f"a model is a path, a ModelProto or an onnx_graphsurgeon.Graph, not {type(graph).__name__}"
        )
    return cast("ModelProto", onnx_graphsurgeon.export_onnx(graph.copy()))
