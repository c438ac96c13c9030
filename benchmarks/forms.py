"""How fast onnxruntime runs a model as exported, with fused operators as functions, and with standard operators.

One thread, at each of onnxruntime's optimization levels; the forms take turns, each round the other way about, so
that a machine that gets slower does so for all. The table shows medians of the processor's time and, beside them,
the operators that onnxruntime made of each form at its highest level.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import onnxruntime

import fuser

ROOT = Path(__file__).resolve().parents[1]
LEVELS = ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL")


def session(path: Path, level: str, written: Path | None = None) -> Any:
    """A session of one thread; ``written`` receives the model as onnxruntime optimized it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}")
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if written is not None:
        options.log_severity_level = 4  # it warns that the file is for this machine
        options.optimized_model_filepath = str(written)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def medians(paths: list[Path], level: str, batch: int, rounds: int) -> list[float]:
    """Milliseconds of one run of each."""
    sessions = [session(path, level) for path in paths]
    value = sessions[0].get_inputs()[0]
    shape = [d if isinstance(d, int) else batch for d in value.shape]
    feeds = {value.name: np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    times: list[list[float]] = [[] for _ in paths]
    for index in range(rounds + 2):
        order = range(len(paths)) if index % 2 else reversed(range(len(paths)))
        for k in order:
            start = time.process_time()
            sessions[k].run(None, feeds)
            if index > 1:  # the first runs allocate
                times[k].append(time.process_time() - start)
    return [1000 * median(each) for each in times]


def main() -> None:
    """Prints a table for the full-width discriminator, or for a model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model", nargs="?", type=Path, help="an .onnx file (the DCGAN discriminator)")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=101)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        forms = {form: folder / f"{form}.onnx" for form in ("exported", "function", "standard")}
        if args.model is None:
            build = [sys.executable, str(ROOT / "models" / "build_dcgan.py"), "-o", str(forms["exported"])]
            subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        else:
            forms["exported"] = args.model
        model = forms["exported"]
        fuser.fuse(model, parity=False).save(forms["function"])
        fuser.fuse(model, parity=False, fused_as="standard").save(forms["standard"])
        print("level            " + "".join(f"{form:>20}" for form in forms))
        for level in LEVELS:
            found = medians(list(forms.values()), level, args.batch, args.rounds)
            cells = (f"{ms:.2f} ms ({ms / found[0]:.2f})" for ms in found)
            print(f"{level:17}" + "".join(f"{cell:>20}" for cell in cells))
        for form, path in forms.items():
            session(path, "ENABLE_ALL", folder / "made.onnx")
            counts = Counter(node.op_type for node in onnx.load(folder / "made.onnx").graph.node)
            print(f"{form}: {', '.join(f'{count} {op}' for op, count in counts.items())}")


if __name__ == "__main__":
    main()
