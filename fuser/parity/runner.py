"""The client of the worker process: starts it, watches its time and memory, and turns its death into a
sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fuser.parity.protocol import Array, numpy_dtype, read_frame, write_frame

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

Engine = Literal["onnxruntime", "reference"]

# The child gets this process's import path, not its own idea of one: whatever `fuser`, `onnx` and
# `onnxruntime` the caller would import is what the worker imports, and a folder named `onnx` where the user
# stands is not.
_START = "import sys; sys.path[:] = sys.argv[1:]; from fuser.parity.worker import main; sys.exit(main())"
_POLL = 0.02  # seconds


@dataclass(frozen=True)
class Seen:
    """What a value was in a run: its type, and the share of it that was negative where it has a sign."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    negatives: float | None


class EngineError(Exception):
    """The engine could not load the model or run it on these inputs. The text is its first line."""


class WorkerDiedError(Exception):
    """The worker is gone. ``limit`` tells whether a limit of ours ended it."""

    def __init__(self, text: str, *, limit: bool) -> None:
        """``text`` says how it ended."""
        super().__init__(text)
        self.limit = limit


def memory_default() -> int:
    """Bytes: nine tenths of the machine's memory, so that a check can't take the machine down."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 10 * 9


class Worker:
    """One child process at a time, restarted after a death. A context manager.

    ``timeout``: seconds that one load or one run may take. ``memory``: bytes of resident memory of its own
    (mapped files don't count). RLIMIT_AS would count address space, of which onnxruntime reserves far more
    than it uses.
    """

    def __init__(self, timeout: float, memory: int) -> None:
        """Nothing starts yet."""
        self.timeout, self.memory = timeout, memory
        self._process: subprocess.Popen[bytes] | None = None
        self._messages: Any = None

    def __enter__(self) -> Worker:
        """The process starts with the first request."""
        return self

    def __exit__(self, *_: object) -> None:
        """No process is left behind."""
        self.close()

    def load(self, engine: Engine, path: Path, *, fresh: bool = False) -> str:
        """Load a model file; returns the engine's name and version. ``fresh``: anew for every run."""
        header, _ = self._ask({"do": "load", "engine": engine, "path": str(path), "fresh": fresh}, {})
        return str(header["judge"])

    def run(self, feeds: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, str]]:
        """Outputs by name, and the outputs that are no tensors with their type."""
        header, arrays = self._ask({"do": "run"}, feeds)
        return arrays, header["skipped"]

    def watch(self, feeds: Mapping[str, Array]) -> dict[str, Seen]:
        """What every output of a run is, without sending the outputs."""
        header, _ = self._ask({"do": "watch"}, feeds)
        return {
            name: Seen(numpy_dtype(dtype), tuple(shape), share)
            for name, (dtype, shape, share) in header["seen"].items()
        }

    def peak(self, path: Path, feeds: Mapping[str, Array]) -> int | None:
        """Most bytes onnxruntime had in use during one run of a model file; None where it does not say."""
        # The folder is not the worker's, which may be killed.
        with tempfile.TemporaryDirectory(prefix="onnx-fuser-") as folder:
            header, _ = self._ask({"do": "peak", "path": str(path), "folder": folder}, feeds)
        found = header["bytes"]
        return None if found is None else int(found)

    def unload(self) -> None:
        """Give the loaded model's memory back."""
        self._ask({"do": "unload"}, {})

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, self._messages):
                _close(stream)

    def _start(self) -> subprocess.Popen[bytes]:
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        return subprocess.Popen(
            [sys.executable, "-c", _START, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
        )

    def _ask(
        self, request: dict[str, Any], arrays: Mapping[str, Array]
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        process = self._process = self._process or self._start()
        if process.stdin is None or process.stdout is None:
            raise AssertionError("the worker has pipes")
        watch = _Watch(process, self.timeout, self.memory)
        try:
            with watch:
                write_frame(process.stdin, request, arrays)
                header, results = read_frame(process.stdout)
        except (EOFError, BrokenPipeError):
            raise self._death(process, watch) from None
        if not header["ok"]:
            raise EngineError(header["error"])
        return header, results

    def _death(self, process: subprocess.Popen[bytes], watch: _Watch) -> WorkerDiedError:
        status = process.wait()
        self._messages.seek(0)
        lines = self._messages.read().decode("utf-8", "replace").strip().splitlines()
        self.close()
        if watch.exceeded:
            return WorkerDiedError(watch.exceeded, limit=True)
        how = f"exit status {status}"
        if status < 0:
            how = f"signal {-status}, {_signal_name(-status)}"
        if status == -signal.SIGKILL:
            how += "; the system may have been out of memory"
        elif lines:
            how += f"; its last words: {lines[-1][:200]}"
        return WorkerDiedError(how, limit=False)


class _Watch:
    """While open, kills the process when it takes too long or too much memory, and says which."""

    def __init__(self, process: subprocess.Popen[bytes], timeout: float, memory: int) -> None:
        self.exceeded = ""
        self._process, self._timeout, self._memory = process, timeout, memory
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        end = time.monotonic() + self._timeout
        while not self._done.wait(_POLL):
            if time.monotonic() > end:
                self.exceeded = f"it took longer than the time limit of {self._timeout:g} seconds"
            elif resident(self._process.pid) > self._memory:
                self.exceeded = f"it took more than the memory limit of {self._memory / 2**20:.0f} MiB"
            if self.exceeded:
                self._process.kill()
                return


def resident(pid: int) -> int:
    """Bytes of the process's resident memory that are its own; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
        return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        pass
    if sys.platform != "darwin":
        return 0
    found = subprocess.run(
        ["/bin/ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return int(found.stdout.strip() or 0) * 1024


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _close(stream: Any) -> None:
    with suppress(OSError):  # a broken pipe still holds what was not written
        stream.close()
