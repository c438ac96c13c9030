"""The command itself: its options, its files, several models at once."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import junitparser
import numpy as np
import pytest

from tests.cli.running import COMMAND, environment, process
from tests.gate import repository
from tests.gate.repository import Repository
from tests.gate.test_repository import flat


def test_reports_are_written_by_suffix(repo: Repository) -> None:
    names = ["gate.json", "gate.xml", "gate.sarif", "gate.md"]
    done = repo.gate("exports/discriminator.onnx", *(word for n in names for word in ("--report", n)))
    assert done.status == 0
    assert json.loads((repo.folder / "gate.json").read_text("utf-8"))["status"] == 0
    suites = junitparser.JUnitXml.fromfile(str(repo.folder / "gate.xml"))
    assert [(s.name, s.failures, s.errors) for s in suites] == [("exports/discriminator.onnx", 0, 0)]
    assert json.loads((repo.folder / "gate.sarif").read_text("utf-8"))["version"] == "2.1.0"
    assert (repo.folder / "gate.md").read_text("utf-8").startswith("## onnx-fuser gate: 1 model: 1 passed")


@pytest.mark.parametrize(
    ("form", "begins"), [("json", "{"), ("junit", "<?xml"), ("sarif", "{"), ("github", "1 model")]
)
def test_each_format_is_printed(repo: Repository, form: str, begins: str) -> None:
    done = repo.gate("exports/discriminator.onnx", "--format", form)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(begins)


def test_githubs_summary_is_added_to_what_the_job_has(repo: Repository) -> None:
    repo.write("summary.md", "before\n")
    repo.monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(repo.folder / "summary.md"))
    repo.gate("exports/discriminator.onnx", "--format", "github")
    shown = (repo.folder / "summary.md").read_text("utf-8")
    assert shown.startswith("before\n## onnx-fuser gate: 1 model: 1 passed\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--report", "gate.txt"], "gate.txt has no known suffix; name it *.json, *.xml, *.sarif, *.md"),
        (["--report", "no/gate.xml"], "the folder no does not exist"),
        (["--config", "gone.toml"], "gone.toml can't be read"),
        (["--jobs", "0"], "0 is not in the range"),
        (["--format", "yaml"], "'yaml' is not one of"),
    ],
)
def test_wrong_options_are_status_2(repo: Repository, arguments: list[str], says: str) -> None:
    done = repo.gate("exports/discriminator.onnx", *arguments)
    assert (done.status, done.out) == (2, "")
    assert says in done.err


def test_a_wrong_configuration_is_status_2(repo: Repository) -> None:
    repo.write("other.toml", "fusons = 1")
    done = repo.gate("exports/discriminator.onnx", "--config", "other.toml")
    assert done.status == 2
    assert done.err == "onnx-fuser: other.toml: fusons is not known; the nearest is 'fusions'\n"


def test_a_damaged_baseline_is_status_2(repo: Repository) -> None:
    repo.edit("fusion.lock", '"format": 1', "<<<<<<< HEAD")
    done = repo.gate()
    assert done.status == 2
    assert "fusion.lock can't be read as a baseline" in done.err


def test_without_a_model_it_is_status_2() -> None:
    done = process("gate")
    assert done.status == 2
    assert "Missing argument 'MODEL...'" in done.err


def test_several_models_in_processes_of_their_own_are_judged_alike(repo: Repository) -> None:
    one = repo.gate("exports/*.onnx", "--format", "json")
    done = process("gate", "exports/*.onnx", "--format", "json", "--jobs", 2, cwd=repo.folder)
    assert (done.status, done.err) == (0, "")

    def without_times(text: str) -> object:
        found = json.loads(text)
        for model in found["models"]:
            del model["seconds"]
        return found

    assert without_times(done.out) == without_times(one.out)


def test_a_terminal_sees_a_progress_bar_and_a_pipe_none(repo: Repository) -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*COMMAND, "gate", "exports/*.onnx", "--jobs", "1"],
        cwd=repo.folder, env=environment(TERM="xterm"), stdout=subprocess.PIPE, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    while True:
        try:
            block = os.read(ours, 4096)
        except OSError:  # how Linux says that the other side closed
            break
        if not block:
            break
        seen += block
    out = child.communicate()[0]
    os.close(ours)
    assert child.returncode == 0
    assert b"2 models: 2 passed" in out
    assert b"0/2" in seen
    assert b"models" not in process("gate", "exports/*.onnx", cwd=repo.folder).err.encode()


@pytest.mark.parametrize(
    ("number", "status", "says"),
    [
        (signal.SIGINT, 130, "onnx-fuser: interrupted; nothing was left half-written"),
        (signal.SIGTERM, 143, ""),
    ],
)
def test_a_run_that_is_stopped_stops_its_processes_and_leaves_nothing(
    repo: Repository, tmp_path: Path, number: signal.Signals, status: int, says: str
) -> None:
    for i in range(6):
        repo.save(repository.discriminator(), f"more{i}")
    before = sorted(repo.folder.rglob("*"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    child = subprocess.Popen(
        [*COMMAND, "gate", "exports/*.onnx", "--jobs", "2", "--update"],
        cwd=repo.folder, env=environment(TMPDIR=str(temporary)), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    while not [*temporary.glob("onnx-fuser-*/*")]:
        assert child.poll() is None
        time.sleep(0.01)
    if number == signal.SIGINT:
        os.killpg(child.pid, number)  # as a terminal does it
    else:
        child.send_signal(number)
    out, err = child.communicate()  # returns once every process that holds the pipes is gone
    assert (child.returncode, out, err.strip()) == (status, "", says)
    assert [*temporary.iterdir()] == []
    assert sorted(repo.folder.rglob("*")) == before


def test_latency_is_limited_and_a_timed_run_is_in_the_baseline(repo: Repository) -> None:
    model = "exports/discriminator.onnx"
    repo.write("fast.toml", "max-latency-ratio = 1000\nmax-latency-increase = 1000")
    done = repo.gate(model, "--config", "fast.toml")
    assert done.status == 2
    assert "fusion.lock has no time of the model" in flat(done.out)
    done = repo.gate(model, "--config", "fast.toml", "--update")
    assert done.status == 0, done
    entry = json.loads((repo.folder / "fusion.lock").read_text("utf-8"))["models"][model]
    assert entry["numbers"]["latency_ratio"] > 0
    repo.write("slow.toml", "max-latency-ratio = 0.001")
    done = repo.gate(model, "--config", "slow.toml")
    assert done.status == 1
    assert "over the 0.001 allowed. Fix: time it on an idle machine; or raise max-latency-ratio" in flat(
        done.out
    )


def test_what_can_not_be_timed_is_unjudged(repo: Repository) -> None:
    repo.write("timed.toml", "max-latency-ratio = 2\ninputs = 'x.npy'\n")
    np.save(repo.folder / "x.npy", np.zeros((1, 3, 6, 6), np.float32))
    assert repo.gate("exports/discriminator.onnx", "--config", "timed.toml").status == 0
    np.save(repo.folder / "x.npy", np.zeros((1, 7, 6, 6), np.float32))
    done = repo.gate("exports/discriminator.onnx", "--config", "timed.toml")
    assert done.status == 2
    assert "unjudged exports/discriminator.onnx" in done.out


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from fuser.cli.app import run; run(['gate', '--help']); "
        "heavy = {'onnx', 'onnxruntime', 'numpy', 'jsonschema', 'rich'}; "
        "print(*sorted(heavy & {*sys.modules}), file=sys.stderr)"
    )
    done = process(command=(sys.executable, "-c", code))
    assert (done.status, done.err.strip()) == (0, "")
    assert "onnx-fuser gate 'exports/*.onnx' --update" in done.out
