"""The command ``onnx-fuser``. Only click is imported until a command has work to do."""

from fuser.cli.app import main

__all__ = ["main"]
