"""Measures models in processes of their own, and ends them all when this one is told to stop."""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, NoReturn

from fuser.errors import FuserError
from fuser.gate.measure import Measured, measure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from fuser.gate.limits import Limits

Result = Measured | FuserError
_stopping: list[int] = []  # in a worker: the signals that told it to stop


def measure_here(name: str, path: Path, limits: Limits) -> Result:
    """Measure one model. Errors are results: one bad model must not keep the others from being judged."""
    try:
        return measure(name, path, limits)
    except FuserError as error:
        return FuserError(str(error))  # plain, so that it can be sent between processes


def measure_apart(
    names: Mapping[str, Path], limits: Mapping[str, Limits], jobs: int
) -> Iterator[tuple[str, Result]]:
    """Measure models in ``jobs`` processes; each result as soon as it is there."""
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    pool = ProcessPoolExecutor(min(jobs, len(names)), mp_context=context, initializer=_prepare)
    try:
        futures = {pool.submit(_work, name, path, limits[name]): name for name, path in names.items()}
        for future in as_completed(futures):
            yield futures[future], _result(future)
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _result(future: Future[Result]) -> Result:
    try:
        return future.result()
    except BrokenProcessPool:
        return FuserError("the process that measured it died, perhaps for want of memory; say --jobs 1")


def _prepare() -> None:
    """A worker that is told to stop unwinds, so that its temporary files go, and says nothing."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)


def _stop(number: int, _frame: object) -> NoReturn:
    _stopping.append(number)
    raise SystemExit(128 + number)


def _work(name: str, path: Path, limits: Limits) -> Result:
    if _stopping:  # the pool hands out what it had lined up
        raise SystemExit(128 + _stopping[0])
    return measure_here(name, path, limits)
