"""What the command says about itself, and what that costs."""

from __future__ import annotations

import sys

import click
import pytest

from fuser.cli.app import cli
from tests.cli.running import COMMAND, ROOT, onnx_fuser, process

HEAVY = ("onnx", "onnxruntime", "numpy", "onnx_graphsurgeon", "rich")
COMMANDS = (
    "optimize",
    "parity",
    "explain",
    "inspect",
    "patterns",
    "patterns list",
    "patterns show",
    "patterns check",
)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_complete_and_fits_80_columns(command: str) -> None:
    done = onnx_fuser(*command.split(), "--help")
    assert (done.status, done.err) == (0, "")
    assert f"Usage: onnx-fuser {command}".strip() in done.out
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize("command", [c for c in COMMANDS if c != "patterns"])
def test_every_command_shows_an_example(command: str) -> None:
    assert f"onnx-fuser {command} " in onnx_fuser(*command.split(), "--help").out.partition("Example")[2]


def test_every_option_says_what_it_is_for() -> None:
    seen = 0
    stack: list[click.Command] = [cli]
    while stack:
        command = stack.pop()
        stack += getattr(command, "commands", {}).values()
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (command.name, parameter.name)
                seen += 1
    assert seen > 30


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_loads_nothing_heavy(command: str) -> None:
    """In a process of its own: neither onnx nor numpy nor onnxruntime, nor rich."""
    code = (
        "import sys\nfrom fuser.cli.app import run\n"
        f"status = run({[*command.split(), '--help']!r})\n"
        f"print('loaded', [m for m in {HEAVY!r} if m in sys.modules])\nsys.exit(status)"
    )
    done = process(command=(sys.executable, "-c", code))
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith("loaded []\n")


def test_the_version_is_the_distributions() -> None:
    code = (
        "import importlib.metadata as m, sys\nm.version = lambda name: {'onnx-fuser': '7.8.9'}[name]\n"
        "from fuser.cli.app import run\nsys.exit(run(['--version']))"
    )
    done = process(command=(sys.executable, "-c", code))
    assert (done.status, done.out.strip(), done.err) == (0, "onnx-fuser 7.8.9", "")


@pytest.mark.parametrize(
    "command", [COMMAND, (sys.executable, str(ROOT / "cli.py"))], ids=["module", "checkout"]
)
def test_every_way_to_start_it_calls_it_by_its_name(command: tuple[str, ...]) -> None:
    done = process("--help", command=command)
    assert done.status == 0
    assert done.out.startswith("Usage: onnx-fuser [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["optimise", "m.onnx"], "No such command 'optimise'"),
        (["optimize", "m.onnx"], "Missing option '-o' / '--output'"),
        (["optimize", "-o", "out.onnx"], "Missing argument 'MODEL'"),
        (["optimize", "m.onnx", "-o", "out.onnx", "--paritee", "off"], "No such option"),
        (["optimize", "m.onnx", "-o", "out.onnx", "--parity", "maybe"], "'maybe' is not one of"),
        (
            ["optimize", "m.onnx", "-o", "out.onnx", "--no-parity", "--parity", "required"],
            "contradict each other",
        ),
        (
            ["optimize", "m.onnx", "-o", "out.onnx", "--fused-as", "node"],
            "--fused-as node is for --target atc",
        ),
        (["optimize", "m.onnx", "-o", "out.onnx", "--draws", "0"], "0 is not in the range"),
        (["optimize", "m.onnx", "-o", "out.onnx", "--seed", "-1"], "-1 is not in the range"),
        (["optimize", "m.onnx", "-o", "out.onnx", "--tolerance", "1"], "is not in the range"),
        (["optimize", "m.onnx", "-o", "out.onnx", "--tolerance", "nan"], "is no number"),
        (["optimize", "m.onnx", "-o", "out.onnx", "--timeout", "0"], "is not in the range"),
        (["optimize", "m.onnx", "-o", "out.onnx", "--timeout", "nan"], "is no number"),
        (["parity", "a.onnx"], "Missing argument 'B'"),
        (["patterns", "check"], "Missing argument 'FILE...'"),
        (["inspect", "m.onnx", "--format", "yaml"], "'yaml' is not one of"),
    ],
)
def test_bad_usage_is_status_2_and_says_what_is_wrong(arguments: list[str], says: str) -> None:
    done = onnx_fuser(*arguments)
    assert (done.status, done.out) == (2, "")
    assert says in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("shape", ["x", "x:", ":1x3", "x:1x", "x:1x0", "x:-1x3", "x:1,3", "x:²"])
def test_a_bad_shape_is_status_2_and_shows_a_good_one(shape: str) -> None:
    done = onnx_fuser("optimize", "m.onnx", "-o", "out.onnx", "--shape", shape)
    assert (done.status, done.out) == (2, "")
    assert f"{shape!r} is no shape; write the input's name and its dims, such as x:1x3x64x64" in done.err


def test_two_shapes_for_one_input_are_refused() -> None:
    done = onnx_fuser("parity", "a.onnx", "b.onnx", "--shape", "x:1x3", "--shape", "x:2x3")
    assert done.status == 2
    assert "'x' has two shapes; give it one" in done.err
