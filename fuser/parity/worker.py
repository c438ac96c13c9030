"""The child process that runs models: the only place that imports onnxruntime, which can take its process
down.

It answers one request at a time: ``load`` a model file into an engine, ``run`` it on the arrays that come
along, or run it and send back only what its outputs are (``watch``), ``unload`` it; or load a file, run it
once and send back how much memory that took (``peak``).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fuser.parity.protocol import Array, dtype_name, read_frame, write_frame

Run = Callable[[Mapping[str, Array]], dict[str, Any]]


def main() -> int:
    """Serve requests from standard input until it closes."""
    # Libraries print where they like, so the pipes move and standard output becomes standard error.
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    run: Run | None = None
    while True:
        try:
            request, arrays = read_frame(requests)
        except EOFError:
            return 0
        header: dict[str, Any] = {"ok": True}
        results: dict[str, Array] = {}
        try:
            if request["do"] == "load":
                run = None  # the previous model's memory goes first
                engine = load_onnxruntime if request["engine"] == "onnxruntime" else load_reference
                run, header["judge"] = engine(request["path"])
                run = _anew(engine, request["path"]) if request["fresh"] else run
            elif request["do"] == "unload":
                run = None
            elif request["do"] == "peak":
                run = None
                header["bytes"] = peak_onnxruntime(request["path"], request["folder"], arrays)
            elif run is None:
                raise RuntimeError("no model is loaded")  # noqa: TRY301
            else:
                results, header["skipped"] = _flatten(run(arrays))
                if request["do"] == "watch":
                    header["seen"] = {
                        name: (dtype_name(array), list(array.shape), _negatives(array))
                        for name, array in results.items()
                    }
                    results = {}
        except Exception as error:  # any failure of the engine is the answer
            header = {"ok": False, "error": _first_line(error)}
        write_frame(replies, header, results)


def _anew(engine: Callable[[str], tuple[Run, str]], path: str) -> Run:
    """Loads the model for every run, so that none sees what an earlier one left behind."""

    def run(feeds: Mapping[str, Array]) -> dict[str, Any]:
        return engine(path)[0](feeds)

    return run


def load_onnxruntime(path: str) -> tuple[Run, str]:
    """A session with every optimization off on the CPU, one thread, so that sums keep their order."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, _plain_options(), providers=["CPUExecutionProvider"])
    return _runner(session), f"onnxruntime {onnxruntime.__version__}, optimizations off"


def peak_onnxruntime(path: str, folder: str, feeds: Mapping[str, Array]) -> int | None:
    """Most bytes in use when an operator had run, less those before the first, by the profile of a run that
    onnxruntime writes in the folder; None where this onnxruntime does not say. Memory that kernels give back is not in it.
    """
    import onnxruntime

    options = _plain_options()
    options.enable_mem_pattern = False  # a pattern takes one block for all values
    options.enable_profiling = True
    options.profile_file_prefix = f"{folder}/profile"
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    _runner(session)(feeds)
    events = json.loads(Path(session.end_profiling()).read_text())
    found = [event["args"] for event in events if event.get("cat") == "Node"]
    used = [
        (int(args["mem_bytes_requested_in_use"]), int(args["mem_requested_in_use_delta"]))
        for args in found
        if "mem_bytes_requested_in_use" in args
    ]
    return max(after for after, _ in used) - min(after - delta for after, delta in used) if used else None


def _plain_options() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options


def _runner(session: Any) -> Run:
    import onnxruntime

    names = [output.name for output in session.get_outputs()]
    bfloat16 = any("bfloat16" in value.type for value in [*session.get_inputs(), *session.get_outputs()])

    def run(feeds: Mapping[str, Array]) -> dict[str, Any]:
        if bfloat16:
            return _run_values(onnxruntime, session, feeds)
        return dict(zip(names, session.run(None, dict(feeds)), strict=True))

    return run


def load_reference(path: str) -> tuple[Run, str]:
    """onnx's reference implementation, local functions inlined."""
    import onnx
    from onnx.inliner import inline_local_functions
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(path)
    if model.functions:
        model = inline_local_functions(model)
    evaluator = ReferenceEvaluator(model)

    def run(feeds: Mapping[str, Array]) -> dict[str, Any]:
        with np.errstate(all="ignore"):
            return dict(zip(evaluator.output_names, evaluator.run(None, dict(feeds)), strict=True))

    return run, f"onnx.reference {onnx.__version__}"


def _run_values(onnxruntime: Any, session: Any, feeds: Mapping[str, Array]) -> dict[str, Any]:
    """Like ``session.run``, for models with bfloat16 at the border, which onnxruntime's numpy interface
    lacks."""
    import ctypes

    from onnx import TensorProto

    from fuser.parity.protocol import numpy_dtype

    values = {}
    for name, array in feeds.items():
        if array.dtype.name == "bfloat16":
            values[name] = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
                np.ascontiguousarray(array).view(np.uint16), TensorProto.BFLOAT16
            )
        else:
            values[name] = onnxruntime.OrtValue.ortvalue_from_numpy(array)
    results: dict[str, Any] = {}
    for output, value in zip(session.get_outputs(), session.run_with_ort_values(None, values), strict=True):
        if value.data_type() == "tensor(bfloat16)":
            shape = value.shape()
            buffer = (ctypes.c_uint16 * int(np.prod(shape))).from_address(value.data_ptr())
            array = np.ctypeslib.as_array(buffer).copy().view(numpy_dtype("bfloat16")).reshape(shape)
            results[output.name] = array
        else:
            results[output.name] = value.numpy() if value.is_tensor() else value
    return results


def _flatten(outputs: Mapping[str, Any]) -> tuple[dict[str, Array], dict[str, str]]:
    """Arrays by name, a sequence's items as ``name[i]``; and what can't be compared, with its type."""
    arrays: dict[str, Array] = {}
    skipped = {}
    for name, value in outputs.items():
        items = (
            {f"{name}[{i}]": item for i, item in enumerate(value)}
            if isinstance(value, list)
            else {name: value}
        )
        for key, item in items.items():
            if isinstance(item, (np.ndarray, np.generic)):
                arrays[key] = np.asarray(item)
            else:
                skipped[key] = "absent" if item is None else type(item).__name__
    return arrays, skipped


def _negatives(array: Array) -> float | None:
    if array.dtype.kind not in "fiV" or not array.size:
        return None
    return float(np.count_nonzero(array < 0)) / array.size


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, MemoryError):
        return "out of memory"
    if not lines:
        return type(error).__name__
    # "[ONNXRuntimeError] : 1 : FAIL : Load model from PATH failed:" says less than what follows it.
    return (
        re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : (Load model from .*? failed:)?\s*", "", lines[0])
        or lines[0]
    )
