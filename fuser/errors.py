"""What a user can be told is wrong.

    FuserError
    ├── PatternError   a rule file says something it should not: file, line, text
    ├── ModelError     the model can't be read, or contradicts itself
    ├── TargetError    the target can't take what was asked to be written
    ├── ConfigError    an option, a limit or a configuration file is wrong
    └── OutputError    a result can't be written

Each sentence says what is wrong and how to fix it. The command prints it without a traceback and exits with 2; anything
else that escapes is a bug of onnx-fuser and keeps its traceback.
"""

from __future__ import annotations

from pathlib import Path


class FuserError(Exception):
    """Base of every error that is the input's, not the program's."""


class PatternError(FuserError):
    """A rule file is refused: ``file:line: what is wrong and how to fix it``."""

    def __init__(self, file: str | Path, line: int, text: str) -> None:
        super().__init__(f"{file}:{line}: {text}")
        self.file, self.line, self.text = str(file), line, text


class ModelError(FuserError):
    """The model can't be read, or contradicts itself."""


class TargetError(FuserError):
    """The target can't take what was asked to be written."""


class ConfigError(FuserError):
    """An option, a limit or a configuration file is wrong."""


class OutputError(FuserError):
    """A result can't be written; nothing was left half-written."""
