"""The command from a checkout, nothing installed: ``python cli.py optimize model.onnx -o fused.onnx``."""

from __future__ import annotations

from fuser.cli import main

if __name__ == "__main__":
    main()
