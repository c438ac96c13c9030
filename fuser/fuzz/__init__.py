"""Fuzzing: draw whole models around what the rules look for, fuse them, and look for what went wrong.

``python -m fuser.fuzz --graphs 5000 --seed 0``. For development: no command of onnx-fuser loads it.
"""
