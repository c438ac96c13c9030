"""benchmarks/optimize.py still runs, and refuses to judge what it did not measure; no times are asserted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "optimize.py"


@pytest.mark.parametrize(("options", "status"), [((), 0), (("--check",), 2)])
def test_the_discriminator_runs_through_every_tool(options: tuple[str, ...], status: int) -> None:
    command = [sys.executable, str(SCRIPT), "--only", "dcgan", "--runs", "1", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    cells = [
        [cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines() if "DCGAN" in line
    ]
    assert [(tool, nodes) for _, _, tool, nodes, *_ in cells] == [
        ("onnx-fuser", "6"),
        ("onnxruntime", "5"),  # it fuses the last Conv with its Sigmoid, too
        ("onnx.load + onnx.save", "13"),
    ]
