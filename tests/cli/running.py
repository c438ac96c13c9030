"""Runs the command: in this process where that is enough, else in one of its own."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import onnx
from onnx import ModelProto

from fuser.cli.app import run

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "fuser.cli")


class Done(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


def onnx_fuser(*arguments: object) -> Done:
    """Run the command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([str(a) for a in arguments])
    return Done(status, out.getvalue(), err.getvalue())


def environment(**more: str) -> dict[str, str]:
    """This process's environment, in which a child finds this checkout and no colours are forced."""
    kept = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def process(
    *arguments: object,
    command: tuple[str, ...] = COMMAND,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Done:
    """Run the command in a process of its own."""
    done = subprocess.run(
        [*command, *map(str, arguments)],
        cwd=cwd,
        env=env or environment(),
        text=True,
        capture_output=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def saved(model: ModelProto, path: Path) -> Path:
    """The model as a file."""
    onnx.save(model, path)
    return path
