"""The terminal: progress only on one, colours only where wanted, pipes that close, interrupts."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import conv_bn_leaky
from tests.cli.running import COMMAND, environment, onnx_fuser, process, saved

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
SLOW = """
import sys, time
import fuser.optimize
def check(*arguments, **options):
    print("working", file=sys.stderr, flush=True)
    time.sleep(60)
fuser.optimize.check = check
from fuser.cli import main
main()
"""
SLOW_TO_LEAVE = """
import os, sys, tempfile, time
import fuser.optimize
def check(*arguments, **options):
    folder = tempfile.mkdtemp()
    try:
        print("working", file=sys.stderr, flush=True)
        time.sleep(60)
    finally:
        print("leaving", file=sys.stderr, flush=True)
        time.sleep(0.5)
        os.rmdir(folder)
fuser.optimize.check = check
from fuser.cli import main
main()
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return saved(conv_bn_leaky(overridable=True), Path("model.onnx"))


def on_terminal(*arguments: str, stream: str, **env: str) -> tuple[int, str, str]:
    """Run the command with stdout or stderr on a terminal: status, what that got, what the pipe got."""
    main, side = pty.openpty()
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: side}
    command = [*COMMAND, *arguments]
    env = {"TERM": "xterm-256color", **env}
    with subprocess.Popen(command, env=environment(**env), **streams) as child:  # type: ignore
        os.close(side)
        shown = b""
        while True:
            select.select([main], [], [])
            try:
                block = os.read(main, 65536)
            except OSError:  # Linux: nobody holds the other side any more
                break
            if not block:
                break
            shown += block
        piped = (child.stdout or child.stderr).read()
        status = child.wait()
    os.close(main)
    return status, shown.decode(), piped.decode()


OPTIMIZE = ("optimize", "model.onnx", "-o", "out.onnx", "--no-parity")


@pytest.mark.usefixtures("model")
def test_progress_is_shown_on_a_terminal() -> None:
    status, shown, out = on_terminal(*OPTIMIZE[:-1], stream="stderr")
    assert status == 0
    assert "checking parity" in shown
    assert "Wrote out.onnx" in out


@pytest.mark.usefixtures("model")
def test_no_progress_where_nobody_wants_it() -> None:
    assert on_terminal(*OPTIMIZE, "--quiet", stream="stderr")[:2] == (0, "")
    assert on_terminal(*OPTIMIZE, stream="stderr", TERM="dumb")[:2] == (0, "")
    assert process(*OPTIMIZE).err == ""


@pytest.mark.usefixtures("model")
def test_colours_are_on_a_terminal_only_and_no_color_ends_them() -> None:
    _, coloured, _ = on_terminal(*OPTIMIZE, stream="stdout")
    assert ESCAPE.search(coloured)
    _, plain, _ = on_terminal(*OPTIMIZE, stream="stdout", NO_COLOR="1")
    assert not ESCAPE.search(plain)
    assert "Wrote out.onnx" in plain
    assert not ESCAPE.search(process(*OPTIMIZE).out)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("arguments", [("patterns", "list"), OPTIMIZE, ("optimize", "--help")])
def test_who_reads_may_stop_reading(arguments: tuple[str, ...]) -> None:
    """A closed pipe is no failure: the status is that of the work."""
    read, write = os.pipe()
    os.close(read)
    with subprocess.Popen(
        [*COMMAND, *arguments], env=environment(), stdout=write, stderr=subprocess.PIPE
    ) as child:
        os.close(write)
        assert child.stderr is not None
        assert child.stderr.read() == b""
        assert child.wait() == 0
    assert Path("out.onnx").exists() == (arguments == OPTIMIZE)


@pytest.mark.usefixtures("model")
def test_output_that_the_encoding_lacks_is_escaped() -> None:
    done = process(*OPTIMIZE, env=environment(PYTHONIOENCODING="ascii"))
    assert (done.status, done.err) == (0, "")
    assert "Wrote out.onnx" in done.out


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_nothing_behind(number: signal.Signals, status: int, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-c", SLOW, *OPTIMIZE[:-1], "--report", "report.json"]
    with subprocess.Popen(
        command,
        env=environment(TMPDIR=str(scratch)),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stderr is not None
        assert child.stdout is not None
        assert child.stderr.readline() == "working\n"
        child.send_signal(number)
        assert child.wait() == status
        said = child.stderr.read()
        assert child.stdout.read() == ""
    assert "Traceback" not in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx", "scratch"]
    assert not list(scratch.iterdir())


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_does_not_stop_what_the_first_began(
    number: signal.Signals, status: int, second: signal.Signals, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-c", SLOW_TO_LEAVE, *OPTIMIZE[:-1]]
    with subprocess.Popen(
        command, env=environment(TMPDIR=str(scratch)), stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stderr is not None
        for sent, line in ((number, "working\n"), (second, "leaving\n")):
            assert child.stderr.readline() == line
            child.send_signal(sent)
        assert child.wait() == status
        assert "Traceback" not in child.stderr.read()
    assert not list(scratch.iterdir())


@pytest.mark.usefixtures("model")
def test_an_interrupt_while_writing_keeps_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first write goes through, the second is interrupted."""
    Path("out.onnx").write_bytes(b"what was here")
    from fuser.storage import atomic

    put, calls = atomic._put, []

    def interrupted(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        put(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(atomic, "_put", interrupted)
    done = onnx_fuser(*OPTIMIZE, "--report", "report.json")
    assert done.status == 130
    assert len(calls) >= 2
    assert Path("out.onnx").read_bytes() == b"what was here"
    assert sorted(p.name for p in Path().iterdir()) == ["model.onnx", "out.onnx"]
