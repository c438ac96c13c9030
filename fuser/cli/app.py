"""The command group, and what becomes of errors: a sentence and a status, no traceback."""

from __future__ import annotations

import atexit
import gc
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import click

from fuser.cli import explain, gate, inspect, lint, optimize, parity, patterns
from fuser.cli.options import quiet, verbose
from fuser.cli.terminal import complain, let_go
from fuser.errors import FuserError

UNJUDGED, INTERRUPTED, TERMINATED = 2, 130, 143
STOPS = (signal.SIGINT, signal.SIGTERM)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0, passed; 1, judged and refused; 2, could not judge, such as bad input.",
)
@click.version_option(package_name="onnx-fuser", message="%(prog)s %(version)s")
@quiet
@verbose
def cli() -> None:
    """Fuse Conv, BatchNormalization and LeakyRelu in ONNX models, and prove that they still compute the same.

    Begin with: onnx-fuser optimize model.onnx -o fused.onnx
    """


for command in (
    optimize.command, lint.command, gate.command, parity.command, explain.command, inspect.command, patterns.command,
):  # fmt: skip
    cli.add_command(command)


def main() -> NoReturn:
    """Run the command of this process's arguments and exit with its status."""
    # OpenBLAS's threads would spin for a tenth of a second of CPU when numpy is imported, and fold nothing faster.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # the process ends soon, and its memory with it: looking for cycles took a tenth of its time
    for number in STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as a shell's background job has it
            signal.signal(number, _stop)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name the terminal can't show stops nothing
    status = run(sys.argv[1:])
    let_go()
    atexit._run_exitfuncs()
    os._exit(status)  # the objects of a large model, taken apart one by one, would take another twentieth


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit status."""
    try:
        return int(cli.main(list(arguments), prog_name="onnx-fuser", standalone_mode=False) or 0)
    except SystemExit as closed:  # click's way when the pipe that it prints --help to has closed: status 1
        return 0 if closed.code == 1 else int(closed.code or 0)
    except click.exceptions.Abort:
        complain("interrupted; nothing was left half-written")
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return UNJUDGED
    except FuserError as error:
        complain(error)
        return UNJUDGED
    except Exception:
        traceback.print_exc()
        complain("this is a bug of onnx-fuser; please report it with the lines above")
        return UNJUDGED


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    """Unwinds, so that temporary files go; told again meanwhile, it does not leave that halfway."""
    for each in STOPS:
        signal.signal(each, signal.SIG_IGN)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(TERMINATED)
