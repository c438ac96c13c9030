"""Ascend's ATC: what it would refuse in a model, and the form it accepts."""

from fuser.targets.atc.form import to_atc_form
from fuser.targets.atc.lint import lint

__all__ = ["lint", "to_atc_form"]
