"""The Python API: fuse a model, check two for parity, explain why something was not fused."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from onnx import FunctionProto, ModelProto

from fuser.errors import ConfigError, OutputError
from fuser.pipeline import Rewritten, rewrite
from fuser.report import Declined, ModelFacts, Report
from fuser.report.facts import Facts, names_in, refuse_damaged
from fuser.selection import nearest, select_rules
from fuser.storage import StoredModel, Written, from_proto, load, save
from fuser.targets.options import AtcOptions

if TYPE_CHECKING:
    import onnx_graphsurgeon as gs
    from numpy.typing import NDArray


Form = Literal["function", "standard", "node"]
M = TypeVar("M")


@dataclass(frozen=True)
class Options:
    """What a run is asked to do; see :func:`fuse` for each."""

    patterns: tuple[Path, ...] = ()
    only: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    fused_as: Form = "function"
    freeze_inputs: bool = False
    parity: bool = True
    inputs: Path | Mapping[str, NDArray[Any]] | None = None
    shapes: Mapping[str, Sequence[int]] | None = None
    draws: int = 3
    seed: int = 0
    tolerance: float | None = None
    timeout: float = 300.0
    hashes: bool = True
    atc: AtcOptions | None = None

    @property
    def constant_inputs(self) -> bool:
        """Whether initializers that are also graph inputs are constants: ATC takes them for that."""
        return self.freeze_inputs or self.atc is not None


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
    from fuser.parity import Site, check_parity

    started = time.perf_counter()
    sites = tuple(Site(f.graph, f.output, f.inputs, f.op, f.nodes) for f in report.fusions)
    with tempfile.TemporaryDirectory(prefix="onnx-fuser-") as folder:
        written = save(stored, Path(folder) / "fused.onnx", digest=False)
        parity = check_parity(
            before, written.path, inputs=options.inputs, draws=options.draws, seed=options.seed,
            tolerance=options.tolerance, shapes=options.shapes, sites=sites, timeout=options.timeout,
            freeze_inputs=options.constant_inputs,
        )  # fmt: skip
        checked = time.perf_counter()
        report = replace(report, parity=parity, timing={**report.timing, "parity": checked - started})
        return studied(before, stored, report, options, fused=written.path)


def studied(
    before: Path | ModelProto,
    stored: StoredModel,
    report: Report,
    options: Options,
    fused: Path | None = None,
) -> Report:
    """The report with memory and advice, where it will be read. ``fused`` is a file with the rewritten model."""
    if not options.hashes:
        return report
    from fuser.report.study import study

    started = time.perf_counter()
    model = load(before) if isinstance(before, Path) else from_proto(before)
    report = study(model, stored, report, shapes=options.shapes, fused=fused, timeout=options.timeout)
    return replace(report, timing={**report.timing, "study": time.perf_counter() - started})


def form_of(asked: Form | None, atc: AtcOptions | None) -> Form:
    """The form to write: the one that was asked for, or the target's own.

    Raises:
        ConfigError: the target has no such form.
    """
    forms: tuple[Form, ...] = ("function", "standard") if atc is None else ("standard", "node")
    if asked is not None and asked not in forms:
        name = "onnx" if atc is None else "atc"
        raise ConfigError(f"the target {name} has no form {asked!r}; fuse as {' or '.join(forms)}")
    return asked or forms[0]


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


def optimize(
    source: Path,
    output: Path,
    options: Options,
    *,
    bundle: bool = False,
    force: bool = False,
    required: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Fuse ``source`` into ``output``: written whole when parity did not fail, else not at all.

    ``required``: nothing is written either when the check could not judge. ``bundle``: ``output`` is a folder
    for the model and what ATC needs beside it. A model that ATC would refuse is not written, unless allowed.

    Raises:
        FuserError: what :func:`fuse` raises, and OutputError where the output can't be written.
    """
    progress("reading")
    stored = load(source)
    check_writable(source, output / "model.onnx" if bundle else output, force=force, folder=bundle)
    progress("rewriting")
    report, runnable, definitions = emit(stored, run(stored, options), options)
    if refused(report):
        return report
    files = {} if options.atc is None or not bundle else bundle_files(stored, definitions, options)
    if options.parity:
        progress("checking parity")
        report = check(source, runnable, report, options)
        verdict = None if report.parity is None else report.parity.verdict
        if verdict == "failed" or (required and verdict != "passed"):
            return report
    else:
        report = studied(source, runnable, report, options)
    report = check_float16(source, runnable, report, options)
    progress("writing")
    started = time.perf_counter()
    if bundle:
        from fuser.targets.atc.folder import write_bundle

        return write_bundle(stored, files, output, report)
    written = save(stored, output, force=force, digest=options.hashes)
    facts = replace(report.model, output=str(written.path), output_sha256=written.sha256)
    return replace(report, model=facts, timing={**report.timing, "write": time.perf_counter() - started})


def bundle_files(
    stored: StoredModel, definitions: Sequence[FunctionProto], options: Options
) -> dict[str, str]:
    """What lies beside the model, by its path in the bundle.

    Raises:
        ConfigError: atc has no such option.
        TargetError: no plugin can be written for a fused operator.
    """
    from fuser.targets.atc.folder import bundle_files

    return bundle_files(stored, definitions, options.atc or AtcOptions(), options.shapes or {})


def check_writable(source: Path, output: Path, *, force: bool, folder: bool = False) -> None:
    """Refuse before the work what could not be written after it.

    ``folder``: the output's own folder is made with it.

    Raises:
        OutputError: the output is a folder, its folder is missing, or it is the input and ``force`` is not given.
    """
    if output.is_dir():
        raise OutputError(
            f"{output} is a folder; give the name of a file in it, such as {output / source.name}"
        )
    if folder and output.parent.exists() and not output.parent.is_dir():
        raise OutputError(f"{output.parent} is a file; give the name of a folder")
    if not (output.parent.parent if folder else output.parent).is_dir():
        missing = output.parent.parent if folder else output.parent
        raise OutputError(f"the folder {missing} does not exist; make it, or write somewhere else")
    if output.exists() and output.samefile(source) and not force:
        raise OutputError(f"{output} is the input itself; write somewhere else, or say --force to replace it")


def refuse_failed(report: Report) -> None:
    """Raise OutputError where parity failed or the target would refuse the model: no such one is written."""
    if report.parity is not None and report.parity.verdict == "failed":
        raise OutputError(f"parity failed, so nothing is written: {report.parity.reason}")
    if refused(report):
        raise OutputError("the target would refuse the model, so nothing is written; see report.target")


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


def _export(graph: gs.Graph) -> ModelProto:
    """The graph as a model; graphsurgeon's export changes the graph's own order, so a copy is exported."""
    import onnx_graphsurgeon

    if not isinstance(graph, onnx_graphsurgeon.Graph):
        raise ConfigError(
            f"a model is a path, a ModelProto or an onnx_graphsurgeon.Graph, not {type(graph).__name__}"
        )
    return cast("ModelProto", onnx_graphsurgeon.export_onnx(graph.copy()))
