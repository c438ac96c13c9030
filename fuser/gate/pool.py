"""Measures models in processes of their own, and ends them all when this one is told to stop."""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from fuser.errors import FuserError
from fuser.gate.measure import Measured, measure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from fuser.gate.limits import Limits

Result = Measured | FuserError
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# In a worker: the signals that told it to stop, and whether it is at work.
_stopping: list[int] = []
_busy: list[str] = []


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
        # Workers start with these signals held back, until they know what to do about them.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            futures = {pool.submit(_work, name, path, limits[name]): name for name, path in names.items()}
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
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
    except (BrokenProcessPool, SystemExit):
        return FuserError("the process that measured it was ended, perhaps for want of memory; say --jobs 1")


def _prepare() -> None:
    for number in _SIGNALS:
        signal.signal(number, _stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _stop(number: int, _frame: object) -> None:
    """A worker that is told to stop unwinds, so that its temporary files go, and says nothing.

    Told again, by its parent after the terminal, it goes on unwinding: else it would leave what it was removing.
    """
    _stopping.append(number)
    if _busy and len(_stopping) == 1:
        raise SystemExit(128 + number)


def _work(name: str, path: Path, limits: Limits) -> Result:
    _busy.append(name)
    try:
        if _stopping:  # the pool hands out what it had lined up
            raise SystemExit(128 + _stopping[0])
        return measure_here(name, path, limits)
    finally:
        _busy.clear()
