"""From a file to a file: what ``onnx-fuser optimize`` does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fuser.errors import OutputError
from fuser.steps import check, check_float16, emit, refused, run, studied
from fuser.storage import StoredModel, load, save
from fuser.targets.options import AtcOptions

if TYPE_CHECKING:
    from onnx import FunctionProto

    from fuser.options import Options
    from fuser.report import Report


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
