"""The environment in which pip installs this project without a network, beside what is installed already."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Of a process that knows nothing of this checkout; ``folder`` is its home."""
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "GIT_", "PRE_COMMIT", "GITHUB_"))
    }
    kept.pop("VIRTUAL_ENV", None)
    installed = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    return {
        **kept,
        "HOME": str(folder),
        # The build backend and the dependencies; .pth files are not read there, so no editable install is.
        "PYTHONPATH": os.pathsep.join(installed),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip takes it for the value of build_isolation
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        **more,
    }
