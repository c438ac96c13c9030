"""benchmarks/forms.py still runs; no times are asserted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_form_of_the_discriminator_runs_at_every_level() -> None:
    """Five lines of times, three of operators."""
    command = [sys.executable, "-m", "benchmarks.forms", "--rounds", "1", "--batch", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [
        "level", "DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL", "exported:", "function:", "standard:",
    ]  # fmt: skip
    assert all("Conv" in line for line in lines[5:])
