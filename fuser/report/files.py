"""Report files: what is one, and what is wrong with one that isn't."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from fuser.errors import ConfigError
from fuser.report.model import FORMAT


def is_json(path: Path) -> bool:
    """Whether the file begins as a JSON object does; False where it can't be read. No protobuf begins so."""
    try:
        with path.open("rb") as file:
            return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    except OSError:
        return False


def read_report(path: Path) -> dict[str, Any]:
    """The report in a file. Fields that a later release may have added are let pass.

    Raises:
        ConfigError: it is no JSON, no report, or one of another format.
    """
    try:
        found = json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError, OSError) as error:
        raise ConfigError(f"{path} is no JSON ({error}); give a file that --report wrote, whole") from None
    if not isinstance(found, dict) or "format" not in found:
        raise ConfigError(f"{path} is JSON but no report: it has no format; give a file that --report wrote")
    if found["format"] != FORMAT:
        raise ConfigError(
            f"{path} is a report of format {found['format']!r}, and this onnx-fuser reads format {FORMAT}; "
            "read it with the release that wrote it, which it names under tool, or write it again"
        )
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    errors = Draft202012Validator(schema()).iter_errors(found)
    worst = best_match(e for e in errors if e.validator != "additionalProperties")
    if worst is not None:
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in worst.absolute_path)
        raise ConfigError(
            f"{path} is no report of format {FORMAT}: report{where}: {worst.message}; "
            "write it again with --report"
        )
    return found


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of report format 1."""
    return dict(json.loads((files("fuser.report") / "schema.json").read_text("utf-8")))
