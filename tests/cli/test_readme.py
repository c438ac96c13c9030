"""README.md: every command in it runs, prints what it shows, and its tables are complete."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fuser.cli.app import cli
from fuser.language import builtin_folder, load_rules
from tests.cli.running import ROOT, environment, onnx_fuser

README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
MAKE = ["make demo", "make test", "pip install '.[html]'"]
"""Commands of the shell: make demo is run below; this is make test; the wheel's test installs the package."""


def commands(block: str) -> list[tuple[str, str]]:
    """The commands of a console block with the output shown below each."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
    assert parts[0] == ""
    return list(zip(parts[1::2], parts[2::2], strict=True))


def assert_shown(shown: str, printed: str) -> None:
    """What is printed is what is shown; an ellipsis stands for anything, alone on a line for any lines."""
    pattern = re.escape(shown).replace(re.escape("…\n"), "(?:.*\n)*?").replace("…", ".*?")
    assert re.fullmatch(pattern, printed), f"shown:\n{shown}\nprinted:\n{printed}"


def test_the_blocks_are_of_the_kinds_that_are_tested_here() -> None:
    kinds = [kind for kind, _ in BLOCKS]
    assert set(kinds) == {"sh", "console", "python"}
    assert kinds.count("console") >= 4
    shell = [
        line.partition("#")[0].strip()
        for kind, block in BLOCKS
        if kind == "sh"
        for line in block.splitlines()
    ]
    assert shell == MAKE


def test_every_command_prints_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order, in one folder, as a reader would run them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").symlink_to(ROOT / "models")
    ran = 0
    for kind, block in BLOCKS:
        for line, shown in commands(block) if kind == "console" else []:
            program, *arguments = shlex.split(line)
            assert program == "onnx-fuser"
            done = onnx_fuser(*arguments)
            assert (done.status, done.err) == (0, ""), line
            assert_shown(shown, done.out)
            ran += 1
    assert ran >= 5


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").symlink_to(ROOT / "models")
    (code,) = (block for kind, block in BLOCKS if kind == "python")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {})  # noqa: S102
    assert out.getvalue() == "passed 4\n"
    assert Path("fused.onnx").exists()


def test_make_demo_does_what_it_says(tmp_path: Path) -> None:
    """With an environment that is there already: a make without network must do."""
    binaries = tmp_path / "venv" / "bin"
    binaries.mkdir(parents=True)
    for name, words in (("python", ""), ("onnx-fuser", "-m fuser.cli")):
        (binaries / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (binaries / name).chmod(0o755)
    installed = tmp_path / "venv" / ".installed"
    installed.touch()
    os.utime(installed, (2**31, 2**31))
    made = subprocess.run(
        ["make", "demo", f"VENV={tmp_path / 'venv'}", f"DEMO={tmp_path / 'demo'}"],
        cwd=ROOT, env=environment(), text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    assert {p.name for p in (tmp_path / "demo").iterdir()} == {"fused.onnx", "report.json", "report.html"}
    assert "Parity passed" in made.stdout


def test_the_table_of_commands_has_all_of_them() -> None:
    table = README.partition("| command | does |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+) ", table, re.MULTILINE)) == set(cli.commands)


def test_the_tables_of_spellings_have_every_rule_that_is_a_spelling() -> None:
    shown = re.findall(r"`((?:LeakyRelu|Affine):\w+)`", README)
    rules = [rule.id for rule in load_rules(builtin_folder()) if rule.name in ("LeakyRelu", "Affine")]
    assert sorted(shown) == sorted(rules)


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links
    for link in links:
        assert (ROOT / link.partition("#")[0]).exists(), link


def test_the_ellipsis_stands_for_anything_and_nothing_else_does() -> None:
    assert_shown("a … c\n…\nz\n", "a b b c\nd\ne\nz\n")
    assert_shown("a\n…\nz\n", "a\nz\n")
    for printed in ("a b d\nz\n", "a b c\n", "a\nb c\nz\n"):
        with pytest.raises(AssertionError):
            assert_shown("a … c\nz\n", printed)


def test_what_is_said_of_the_other_optimizers_is_what_the_table_says() -> None:
    """In how many networks each tool fuses every place; a cell begins with the fused operators."""
    table = README.partition("<!-- exporters")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if " / " in line]
    tools = {"onnx-fuser": 4, "onnxruntime": 6, "onnxsim": 7, "OnnxSlim": 8}
    whole = {tool: sum(row[at].split(" / ")[0] == row[2] for row in rows) for tool, at in tools.items()}
    said = " ".join(README.partition("## ")[0].split())
    assert f"Of {len(rows)} networks from" in said
    assert whole["onnx-fuser"] == len(rows)
    assert f"does so in {whole['onnxruntime']}; onnxsim and OnnxSlim fuse no activation" in said
    assert whole["onnxsim"] == whole["OnnxSlim"] == 0
