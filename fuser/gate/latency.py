"""Times two models side by side: the same inputs, turn by turn, in a process of its own.

Both run as people run them, with onnxruntime's optimizations on, on one thread. The fastest of many turns
says what the work takes; what else the machine does only ever adds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuser.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fuser.gate.limits import Limits

TURNS, BUDGET = 50, 5.0
# The child gets this process's import path, and only it imports onnxruntime.
_START = (
    "import sys; n = int(sys.argv[1]); sys.path[:] = sys.argv[2:n]; "
    "from fuser.gate.latency import main; main(sys.argv[n:])"
)


@dataclass(frozen=True)
class Latency:
    """Milliseconds of one run of the model and of the fused one, the fastest of all turns."""

    before: float
    after: float

    @property
    def ratio(self) -> float:
        """Of the fused model to the model: this, unlike milliseconds, means the same on another machine."""
        return self.after / self.before


def time_pair(before: Path, after: Path, limits: Limits) -> Latency:
    """Time the model and the fused one in a process of their own.

    Raises:
        ModelError: onnxruntime can't run them, or not in time.
    """
    arguments = [str(before), str(after), json.dumps({k: list(v) for k, v in limits.shapes.items()})]
    arguments.append("" if limits.inputs is None else str(limits.inputs))
    paths = sys.path
    try:
        done = subprocess.run(
            [sys.executable, "-c", _START, str(len(paths) + 2), *paths, *arguments],
            capture_output=True, text=True, check=False, timeout=2 * limits.timeout + BUDGET,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ModelError(
            f"{before} could not be timed within {limits.timeout:g} seconds a run; raise timeout, or remove "
            "the limits on latency"
        ) from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise ModelError(
            f"{before} could not be timed: {said[-1]}; give inputs or shapes that onnxruntime runs, or "
            "remove the limits on latency"
        )
    return Latency(*json.loads(done.stdout.splitlines()[-1]))


def main(arguments: list[str]) -> None:
    """Print the two times as JSON."""
    before, after, shapes, inputs = arguments
    feeds = _feeds(Path(before), json.loads(shapes), Path(inputs) if inputs else None)
    runs = [_session(path) for path in (before, after)]
    best = [float("inf")] * 2
    end = time.perf_counter() + BUDGET
    for turn in range(TURNS + 1):
        for i, run in enumerate(runs):
            started = time.perf_counter()
            run(feeds)
            if turn:  # the first warms up
                best[i] = min(best[i], time.perf_counter() - started)
        if turn and time.perf_counter() > end:
            break
    print(json.dumps([1000 * seconds for seconds in best]))


def _session(path: str) -> Callable[[Mapping[str, Any]], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, dict(feeds))


def _feeds(path: Path, shapes: Mapping[str, list[int]], inputs: Path | None) -> Mapping[str, Any]:
    """What the parity check runs first: the user's inputs, or a draw that makes the model run."""
    from fuser.parity.draws import Plan, drawn
    from fuser.parity.inputs import read_inputs
    from fuser.parity.runner import EngineError
    from fuser.parity.source import input_specs
    from fuser.storage import load

    specs, _ = input_specs(load(path).proto.graph)
    if inputs is not None:
        return read_inputs(inputs, specs)[0]
    run = _session(str(path))

    def tried(feeds: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return {str(i): value for i, value in enumerate(run(feeds))}
        except Exception as error:
            raise EngineError(str(error)) from None

    try:
        return drawn(Plan(specs, 1, 0, shapes), tried)[0].feeds
    except EngineError as error:
        raise SystemExit(str(error)) from None
