"""Reads limits from pyproject.toml or onnx-fuser.toml; an unknown key is refused with the nearest known."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from datetime import time as clock
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator, FormatChecker, ValidationError

from fuser.errors import ConfigError
from fuser.gate.limits import LOCK, Accepted, Limits, matches

if TYPE_CHECKING:
    from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OWN, PROJECT = "onnx-fuser.toml", "pyproject.toml"
TABLE = ("tool", "onnx-fuser")


@dataclass(frozen=True)
class Config:
    """The tables of one file, checked; globs and paths in it are relative to ``folder``."""

    folder: Path
    file: Path | None = None
    tables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lock(self) -> Path:
        """Where the baseline lies: beside the configuration."""
        return self.folder / LOCK

    def name(self, model: Path) -> str:
        """The model's path from the configuration's folder, with slashes: what globs match."""
        absolute = model.absolute()
        folder = self.folder.absolute()
        try:
            return absolute.relative_to(folder).as_posix()
        except ValueError:
            return absolute.as_posix()


def find(start: Path) -> Config:
    """The configuration of the nearest folder, from ``start`` upwards, that has one; else an empty one.

    In one folder onnx-fuser.toml goes before pyproject.toml.

    Raises:
        ConfigError: the file that was found is wrong.
    """
    for folder in (start, *start.absolute().parents):
        if (folder / OWN).is_file():
            return read(folder / OWN)
        project = folder / PROJECT
        if project.is_file() and _table(project, _parsed(project)) is not None:
            return read(project)
    return Config(start)


def read(file: Path) -> Config:
    """The configuration in one file.

    Raises:
        ConfigError: it can't be read, is no TOML, has no table of ours, or says something it should not.
    """
    found = _table(file, _parsed(file))
    if found is None:
        table = ".".join(TABLE)
        raise ConfigError(f"{file} has no [{table}]; add it, or give --config a file that has limits")
    tables = _plain(found)
    _check(file, tables)
    return Config(file.parent, file, tables)


def limits_of(config: Config, model: str) -> Limits:
    """The limits of one model: those for all, then each override whose glob it fits, in the file's order."""
    layers: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [((), config.tables)]
    for glob, layer in config.tables.get("models", {}).items():
        if matches(model, glob):
            layers.append((("models", glob), layer))
    merged: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for path, layer in layers:
        for key, value in layer.items():
            if key not in ("models", "accept"):
                merged[key] = value
                origin[key] = _path(config.file, (*path, key))
    accept = tuple(a for a in _accepted(config) if matches(model, a.model))
    limits = _limits(config.folder, merged)
    file = str(config.file or OWN)
    return replace(limits, file=file, origin=origin, accept=accept, lock=str(config.lock))


def idle_overrides(config: Config, models: Collection[str]) -> Iterator[str]:
    """A sentence for each override that is for none of the models: limits that nobody checks."""
    for glob in config.tables.get("models", {}):
        if not any(matches(model, glob) for model in models):
            where = _where(config.file, ("models", glob))
            yield f"{where} is for no model; correct the glob, or remove the table"


def _limits(folder: Path, keys: Mapping[str, Any]) -> Limits:
    """Keys as in the file to fields."""
    fields: dict[str, Any] = {key.replace("-", "_"): value for key, value in keys.items()}
    for key in ("refuse_reasons", "targets"):
        fields[key] = tuple(fields.get(key, ()))
    fields["patterns"] = tuple(folder / path for path in fields.get("patterns", ()))
    if "inputs" in fields:
        fields["inputs"] = folder / fields["inputs"]
    if "shapes" in fields:
        fields["shapes"] = {name: tuple(dims) for name, dims in fields["shapes"].items()}
    if isinstance(fields.get("tolerance"), (int, float)):
        fields["tolerance"] = {"*": float(fields["tolerance"])}
    return Limits(**fields)


def _accepted(config: Config) -> Iterator[Accepted]:
    for i, entry in enumerate(config.tables.get("accept", ())):
        yield Accepted(
            **{**entry, "expires": date.fromisoformat(entry["expires"])},
            where=_where(config.file, ("accept", i)),
        )


def _parsed(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{file} can't be read: {error.strerror}; give --config a file that can") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is no UTF-8 text, which TOML has to be; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is no TOML: {error}") from None


def _table(file: Path, parsed: Mapping[str, Any]) -> Any:
    """Our table of pyproject.toml; any other file is all ours."""
    if file.name != PROJECT:
        return parsed
    tool = parsed.get(TABLE[0], {})
    return tool.get(TABLE[1]) if isinstance(tool, Mapping) else None


def _plain(value: Any) -> Any:
    """TOML's values as JSON has them, for the schema: dates as text."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, (date, clock)):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # nan fits every limit, so it is no number
    return value


def _check(file: Path, tables: Any) -> None:
    """Refuse the first thing that the schema does not allow; unknown keys before wrong values."""
    validator = Draft202012Validator(schema(), format_checker=FormatChecker(["date"]))
    errors = sorted(
        validator.iter_errors(tables), key=lambda e: (e.validator != "additionalProperties", str(e.json_path))
    )
    if errors:
        raise ConfigError(_sentence(file, errors[0]))


def _sentence(file: Path, error: ValidationError) -> str:
    where = _where(file, tuple(error.absolute_path))
    about: Any = error.schema
    instance: Any = error.instance
    properties = about.get("properties", {})
    if error.validator == "additionalProperties":
        unknown = next(key for key in instance if key not in properties)
        close = get_close_matches(unknown, sorted(properties), 1, 0.5)
        known = f"the nearest is {close[0]!r}" if close else f"known are {', '.join(sorted(properties))}"
        return f"{_where(file, (*error.absolute_path, unknown))} is not known; {known}"
    if error.validator == "required":
        missing = next(key for key in about["required"] if key not in instance)
        return f"{where} has no {missing!r}; add it: {properties[missing]['description']}"
    return f"{where} is {instance!r}; it must be {about['description']}"


def _where(file: Path | None, path: Sequence[str | int]) -> str:
    """The file, and the key's path in it."""
    return f"{file}: {_path(file, path)}" if path else str(file)


def _path(file: Path | None, path: Sequence[str | int]) -> str:
    """The key's path as one would write it in the file."""
    prefix = TABLE if file is not None and file.name == PROJECT else ()
    text = ""
    for step in (*prefix, *path):
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            bare = step.replace("-", "").replace("_", "").isalnum() and step.isascii()
            text += ("." if text else "") + (step if bare else json.dumps(step, ensure_ascii=False))
    return text


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of the configuration."""
    return dict(json.loads((files("fuser.gate") / "config.schema.json").read_text("utf-8")))
