"""The bundle on disk: the model and what lies beside it, all of it or nothing."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fuser.errors import OutputError
from fuser.storage import save
from fuser.storage.atomic import refusal
from fuser.targets.atc.bundle import Conversion, bundle
from fuser.targets.atc.plugin import plugin_files
from fuser.targets.atc.remarks import remarks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from onnx import FunctionProto

    from fuser.report import Report
    from fuser.storage import StoredModel
    from fuser.targets.options import AtcOptions

MODEL = "model.onnx"


def bundle_files(
    stored: StoredModel,
    definitions: Sequence[FunctionProto],
    options: AtcOptions,
    shapes: Mapping[str, Sequence[int]],
) -> dict[str, str]:
    """Path in the bundle → text of all that is known before the model is written.

    Raises ConfigError where atc has no such option, TargetError where no plugin can be written for an
    operator.
    """
    names = tuple(function.name for function in definitions)
    conversion = Conversion(options.soc, shapes, options.precision, options.switches, names)
    files = bundle(stored.proto, conversion, model_file=MODEL)
    if definitions:
        opset = next(entry.version for entry in stored.proto.opset_import if not entry.domain)
        plugin = plugin_files(definitions, opset)
        files |= {f"plugin/{name}": text for name, text in plugin.items()}
    return files


def write_bundle(stored: StoredModel, files: Mapping[str, str], folder: Path, report: Report) -> Report:
    """Write the bundle, the report on it included; returns that report.

    Everything is written beside ``folder`` and moved there at the end. What the folder holds under other
    names stays. Raises OutputError where it can't be written, or would replace weights that are being read.
    """

    def fill(new: Path) -> Report:
        written = save(stored, new / MODEL)
        facts = replace(report.model, output=str(folder / MODEL), output_sha256=written.sha256)
        final = replace(report, model=facts)
        said = {"README.md": files["README.md"] + remarks(final.target)}
        texts = {
            **files,
            **said,
            "report.json": json.dumps(final.to_json(), indent=1, ensure_ascii=False) + "\n",
        }
        for name, text in texts.items():
            path = new / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            if name.endswith(".sh"):
                path.chmod(path.stat().st_mode | 0o111)
        return final

    sources = [file.path for file in stored.weights.sources.values()]
    return _whole(folder, fill, sources)


def _whole(folder: Path, fill: Callable[[Path], Report], sources: Sequence[Path]) -> Report:
    folder = Path(os.path.realpath(folder))
    try:
        with tempfile.TemporaryDirectory(prefix=".onnx-fuser-", dir=folder.parent) as name:
            new, old = Path(name) / "new", Path(name) / "old"
            new.mkdir()
            old.mkdir()
            report = fill(new)
            made = sorted(path.relative_to(new) for path in new.rglob("*") if path.is_file())
            for path in made:
                target = folder / path
                if any(target.exists() and source.exists() and target.samefile(source) for source in sources):
                    raise OutputError(f"{target} holds weights of the input; choose another folder")
            _move(made, new, old, folder)
            return report
    except OSError as error:
        raise refusal(folder, error) from None


def _move(made: Sequence[Path], new: Path, old: Path, folder: Path) -> None:
    """Put the new files in the places of the old ones; where that fails, the old ones back."""
    if not folder.exists():
        new.rename(folder)
        return
    kept: list[Path] = []
    placed: list[Path] = []
    done = False
    try:
        for path in made:
            for base in (old, folder):
                (base / path).parent.mkdir(exist_ok=True)
            if (folder / path).exists():
                (folder / path).replace(old / path)
                kept.append(path)
            (new / path).replace(folder / path)
            placed.append(path)
        done = True
    finally:
        if not done:
            for path in placed:
                (folder / path).unlink(missing_ok=True)
            for path in kept:
                (old / path).replace(folder / path)
