"""The wheel, built and installed away from the checkout: what it holds, and that its command works there."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import NamedTuple

import onnx
import pytest

from tests.builders import conv_bn_leaky

ROOT = Path(__file__).parents[2]
SCRIPTS = "Scripts" if os.name == "nt" else "bin"


class Installed(NamedTuple):
    """A wheel, and a virtual environment that has it."""

    wheel: Path
    environment: Path

    @property
    def site_packages(self) -> Path:
        """Where the wheel was unpacked."""
        (folder,) = self.environment.glob("[Ll]ib/**/site-packages")
        return folder


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that knows nothing of this checkout; its output is in the failure if it fails."""
    environment = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in a new environment, with the dependencies of the running one: nothing is downloaded."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder / "dist", ROOT, cwd=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    environment = folder / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=folder)
    python = environment / SCRIPTS / "python"
    run(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    result = Installed(wheel, environment)
    # The .pth files of a folder that a .pth file adds are not read: an editable install stays invisible.
    dependencies = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    (result.site_packages / "dependencies.pth").write_text("\n".join(dependencies) + "\n", encoding="utf-8")
    return result


def test_the_wheel_holds_one_package_with_the_rules_inside(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"fuser", "onnx_fuser"}
    packed = {name.removeprefix("fuser/patterns/") for name in names if name.startswith("fuser/patterns/")}
    assert packed == {path.name for path in (ROOT / "patterns").iterdir()}
    assert any(name.endswith(".onnxtxt") for name in packed)
    assert "fuser/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.parametrize("name", ["cli", "patterns", "models", "tests", "benchmarks"])
def test_nothing_else_is_importable_at_top_level(installed: Installed, name: str) -> None:
    assert not list(installed.site_packages.glob(f"{name}*"))


def test_the_installed_package_is_not_the_checkout(installed: Installed, tmp_path: Path) -> None:
    python = installed.environment / SCRIPTS / "python"
    where = run(python, "-c", "import fuser; print(fuser.__file__)", cwd=tmp_path).stdout.strip()
    assert Path(where).is_relative_to(installed.environment)


def test_the_installed_command_fuses_with_the_built_in_rules(installed: Installed, tmp_path: Path) -> None:
    onnx.save(conv_bn_leaky(channels=(3, 4, 5)), tmp_path / "model.onnx")
    command = installed.environment / SCRIPTS / "onnx-fuser"
    run(command, "optimize", "model.onnx", "-o", "fused.onnx", cwd=tmp_path)
    fused = onnx.load(tmp_path / "fused.onnx")
    assert [(node.domain, node.op_type) for node in fused.graph.node] == [("fuser", "ConvLeakyRelu")] * 2


def test_the_command_runs_from_a_checkout(tmp_path: Path) -> None:
    """Without an installation, from another folder: ``python cli.py``."""
    shown = run(sys.executable, ROOT / "cli.py", "--help", cwd=tmp_path).stdout
    assert "optimize" in shown
