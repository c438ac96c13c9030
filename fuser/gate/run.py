"""Runs the gate: finds the models, measures them in parallel processes, judges each, writes the baseline."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from glob import glob, has_magic
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from fuser.errors import ConfigError, FuserError
from fuser.gate import baseline as baselines
from fuser.gate.changes import compare
from fuser.gate.config import Config, idle_overrides, limits_of
from fuser.gate.judge import judge
from fuser.gate.measure import Measured
from fuser.gate.pool import Result, measure_apart, measure_here
from fuser.gate.verdict import Found, Outcome, Verdict
from fuser.report.names import counted
from fuser.storage.atomic import Staging

if TYPE_CHECKING:
    from fuser.gate.baseline import Baseline
    from fuser.gate.limits import Limits

Progress = Callable[[int, int], None]


def gate(
    arguments: Sequence[str],
    config: Config,
    *,
    update: bool = False,
    jobs: int = 0,
    today: date | None = None,
    progress: Progress = lambda _done, _all: None,
) -> Outcome:
    """Judge every model that the arguments, paths or globs, are for. With ``update`` the baseline is written.

    ``jobs``: how many processes, 0 for one a processor; ``progress`` is told how many models are done, of how
    many.

    Raises:
        ConfigError: an argument is for no file, or the baseline is damaged.
        OutputError: the baseline can't be written.
    """
    started = datetime.now(timezone.utc)
    names = {config.name(path): path for path in models_of(arguments)}
    limits = {name: limits_of(config, name) for name in names}
    known = baselines.read(config.lock)
    measured = dict(_measure_all(names, limits, jobs or os.cpu_count() or 1, progress))
    day = today or date.today()
    verdicts = tuple(
        _verdict(name, measured[name], limits[name], known, day, update=update) for name in names
    )
    notes = [*idle_overrides(config, {*names, *(known or {})}), *_unused(limits, verdicts, day)]
    if update:
        fresh = {name: baselines.of(m) for name, m in measured.items() if isinstance(m, Measured)}
        notes += _write(config, known or {}, fresh)
    elif known:
        notes += [
            f"{config.lock} has {name!r}, which is gone; `--update` forgets it"
            for name in _gone(config, known)
        ]
    return Outcome(verdicts, tuple(notes), str(config.file or ""), f"{started:%Y-%m-%dT%H:%M:%S}")


def models_of(arguments: Sequence[str]) -> list[Path]:
    """The files that the arguments are for, each once, in their order.

    Raises:
        ConfigError: one is for none.
    """
    found: dict[Path, None] = {}
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            raise ConfigError(
                f"{argument} is a folder; name the models in it, such as '{path / '**' / '*.onnx'}'"
            )
        some = [path] if path.is_file() else []
        if not some and has_magic(argument):
            some = [Path(p) for p in sorted(glob(argument, recursive=True)) if Path(p).is_file()]  # noqa: PTH207
        if not some:
            what = "matches no file" if has_magic(argument) else "does not exist"
            raise ConfigError(
                f"{argument} {what}, so nothing was judged; correct the path, or export the models first"
            )
        found.update(dict.fromkeys(some))
    return list(found)


def _measure_all(
    names: Mapping[str, Path], limits: Mapping[str, Limits], jobs: int, progress: Progress
) -> Iterator[tuple[str, Result]]:
    """Each model's measures, or why there are none; those that are timed go one by one, at the end."""
    apart = {n: path for n, path in names.items() if not limits[n].timed}
    if jobs == 1 or len(apart) < 2:
        apart = {}
    here = ((n, measure_here(n, path, limits[n])) for n, path in names.items() if n not in apart)
    progress(0, len(names))
    for done, result in enumerate(chain(measure_apart(apart, limits, jobs) if apart else (), here), 1):
        progress(done, len(names))
        yield result


def _verdict(
    name: str,
    found: Result,
    limits: Limits,
    known: Mapping[str, Baseline] | None,
    today: date,
    *,
    update: bool,
) -> Verdict:
    if isinstance(found, FuserError):
        return Verdict(name, ("model",), (Found("model", "unjudged", str(found)),))
    if update:  # agreed to: what changed is shown, and limits on growth begin anew
        verdict = judge(limits, found, baselines.of(found), today)
        return replace(verdict, found=(*verdict.found, *_changes(limits, found, (known or {}).get(name))))
    return judge(limits, found, (known or {}).get(name), today, compared=known is not None)


def _changes(limits: Limits, found: Measured, before: Baseline | None) -> tuple[Found, ...]:
    """What the update changes in the baseline, as notes."""
    if before is None:
        return (Found("baseline", "note", f"new in {limits.lock}"),)
    return tuple(replace(f, severity="note", fix="") for f in compare(limits, found, before, compared=True))


def _unused(limits: Mapping[str, Limits], verdicts: Sequence[Verdict], today: date) -> Iterator[str]:
    """Exceptions for models that were judged, which excused nothing."""
    used = {e.where for v in verdicts for _, e in v.accepted}
    given = {e.where: e for one in limits.values() for e in one.accept if e.expires >= today}
    for where, e in given.items():
        if where not in used:
            yield f"{where} accepts {e.finding} at {e.node!r}, of which there is none; remove it"


def _gone(config: Config, known: Mapping[str, Baseline]) -> list[str]:
    return [name for name in known if not (config.folder / name).is_file()]


def _write(config: Config, known: Mapping[str, Baseline], fresh: Mapping[str, Baseline]) -> list[str]:
    """Write the baseline: these models anew, others as they were, those whose files are gone no more."""
    gone = set(_gone(config, known))
    kept = {name: entry for name, entry in known.items() if name not in gone}
    with Staging() as staging:
        staging.write(
            config.lock.resolve(), [memoryview(baselines.write({**kept, **fresh}).encode())], digest=False
        )
        staging.commit()
    forgotten = [f"{name!r} is gone from {config.lock}, as its file is" for name in sorted(gone)]
    return [f"{config.lock} has {counted(len({**kept, **fresh}), 'model')} now", *forgotten]
