"""A report as one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fuser.errors import ConfigError


def render(report: Mapping[str, Any]) -> str:
    """Report format 1 as HTML.

    Raises:
        ConfigError: the libraries for it are not installed.
    """
    try:
        from fuser.report.html.page import page
    except ModuleNotFoundError as error:
        problem = f"the HTML report needs {error.name}, which is not installed"
        raise ConfigError(
            f"{problem}; pip install jinja2 vl-convert-python, or say --format markdown"
        ) from None
    return page(report)
