"""The process that runs the models dies, hangs and swells; the check says so and lives."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import ModelProto, parser

from fuser.parity import check_parity
from fuser.parity.protocol import read_frame, write_frame
from fuser.parity.runner import EngineError, Worker, WorkerDiedError, memory_default, resident
from tests.builders import conv_bn_leaky
from tests.parity.pairs import fused

MEMORY = 2 << 30


def deadly() -> ModelProto:
    """Legal: a BatchNormalization of opset 9 with its optional outputs left empty. onnxruntime may crash."""
    model = conv_bn_leaky(opset=9, ir=4, check=False)
    model.graph.node[1].output.extend([""] * 4)
    return model


def alive() -> ModelProto:
    """The same without the empty outputs."""
    return conv_bn_leaky(opset=9, ir=4, check=False)


@pytest.fixture(scope="module")
def crashes(tmp_path_factory) -> bool:
    """Whether this onnxruntime does crash; one that is mended leaves nothing to see."""
    path = tmp_path_factory.mktemp("crash") / "a.onnx"
    onnx.save(deadly(), path)
    with Worker(60, MEMORY) as worker:
        try:
            worker.load("onnxruntime", path)
            worker.run({"x": np.zeros((1, 3, 8, 8), np.float32)})
        except WorkerDiedError:
            return True
    return False


def test_a_model_that_kills_onnxruntime_is_inconclusive(crashes):
    """The reason names the model and the signal."""
    if not crashes:
        pytest.skip("this onnxruntime survives the model")
    found = check_parity(deadly(), alive())
    assert found.verdict == "inconclusive"
    assert "A ended the process: signal 11, SIGSEGV" in found.reason


def test_a_model_that_kills_onnxruntime_is_still_looked_at_site_by_site(crashes):
    """Here the site is what kills, so the verdict stays open."""
    if not crashes:
        pytest.skip("this onnxruntime survives the model")
    b, sites = fused(alive())
    found = check_parity(deadly(), b, sites=sites)
    assert found.verdict == "inconclusive"
    assert "1 of 1 sites could not be judged alone" in found.reason


def test_when_only_b_kills_onnxruntime_it_failed(crashes):
    """A ran."""
    if not crashes:
        pytest.skip("this onnxruntime survives the model")
    found = check_parity(alive(), deadly())
    assert found.verdict == "failed"
    assert "B ended the process on run, A did not: signal 11, SIGSEGV" in found.reason


def endless() -> ModelProto:
    """A Loop of 10^12 rounds."""
    return parser.parse_model("""<ir_version: 8, opset_import: ["": 17]> g (float[1] x) => (float[1] y) {
        n = Constant<value = int64 {1000000000000}>() t = Constant<value = bool {1}>()
        y = Loop(n, t, x) <body = b (int64 i, bool c, float[1] v) => (bool d, float[1] w)
        { d = Identity(c) w = Neg(v) }> }""")


def huge() -> ModelProto:
    """A value of 8 GiB on the way."""
    return parser.parse_model("""<ir_version: 8, opset_import: ["": 17]> g (float[1] x) => (float[1] y) {
        s = Constant<value = int64[1] {2147483648}>() b = ConstantOfShape<value = float[1] {1.0}>(s)
        m = ReduceMax<keepdims = 0>(b) y = Mul(x, m) }""")


def small() -> ModelProto:
    """The interface of the two above."""
    return parser.parse_model("""<ir_version: 8, opset_import: ["": 17]> g (float[1] x) => (float[1] y) {
        y = Identity(x) }""")


def test_a_time_limit_ends_the_run():
    """On A and on B alike the check is inconclusive: nothing is known of what B would give."""
    for a, b, who in ((endless(), small(), "A ended the process"), (small(), endless(), "B could not run")):
        found = check_parity(a, b, timeout=5)
        assert found.verdict == "inconclusive"
        assert f"{who}: it took longer than the time limit of 5 seconds" in found.reason


def test_a_memory_limit_ends_the_run():
    """On A and on B alike, long before the machine is full."""
    for a, b, who in ((huge(), small(), "A ended the process"), (small(), huge(), "B could not run")):
        found = check_parity(a, b, memory=600 << 20)
        assert found.verdict == "inconclusive"
        assert f"{who}: it took more than the memory limit of 600 MiB" in found.reason


def test_a_worker_starts_again_after_it_was_killed(tmp_path):
    """By the system, say: the death is told from a crash, and the next load runs in a new process."""
    path = tmp_path / "a.onnx"
    onnx.save(small(), path)
    with Worker(60, MEMORY) as worker:
        worker.load("onnxruntime", path)
        os.kill(worker._process.pid, signal.SIGKILL)
        with pytest.raises(WorkerDiedError, match="SIGKILL; the system may have been out of memory") as died:
            worker.run({"x": np.ones(1, np.float32)})
        assert not died.value.limit
        worker.load("onnxruntime", path)
        outputs, skipped = worker.run({"x": np.ones(1, np.float32)})
    assert (outputs["y"].tolist(), skipped) == ([1.0], {})


def test_no_process_is_left_behind(tmp_path):
    """Closing ends it."""
    path = tmp_path / "a.onnx"
    onnx.save(small(), path)
    with Worker(60, MEMORY) as worker:
        worker.load("onnxruntime", path)
        pid = worker._process.pid
        assert resident(pid) > 1 << 20
    assert resident(pid) == 0


def test_a_refusal_is_the_engines_first_line(tmp_path):
    """Without the boilerplate before it; nothing runs when nothing is loaded."""
    path = tmp_path / "a.onnx"
    path.write_bytes(b"hello")
    with Worker(60, MEMORY) as worker:
        with pytest.raises(EngineError, match="no model is loaded"):
            worker.run({})
        with pytest.raises(EngineError, match=r"^(?!\[ONNXRuntimeError\]).*\S"):
            worker.load("onnxruntime", path)


def test_a_folder_called_onnx_does_not_stand_in_for_onnx(tmp_path, monkeypatch):
    """The worker imports what its parent would, wherever the user stands."""
    for name in ("onnx", "onnxruntime", "numpy"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert check_parity(small(), small()).verdict == "passed"


def test_onnxruntime_stays_out_of_this_process():
    """Only the worker imports it."""
    code = """import sys
from fuser.parity import check_parity
from tests.parity.test_worker import small
assert check_parity(small(), small()).verdict == "passed"
assert "onnxruntime" not in sys.modules"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_bfloat16_passes_onnxruntimes_border(tmp_path):
    """Its numpy interface knows no bfloat16, its tensors do."""
    path = tmp_path / "a.onnx"
    onnx.save(
        parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        g (bfloat16[3] x, float[3] z) => (bfloat16[3] y, float[3] f)
        { f = Cast<to = 1>(x) y = Cast<to = 16>(z) }"""),
        path,
    )
    x = np.array([1, -2.5, np.nan], ml_dtypes.bfloat16)
    with Worker(60, MEMORY) as worker:
        worker.load("onnxruntime", path)
        outputs, _ = worker.run({"x": x, "z": np.float32([0.5, 3, -1])})
    assert outputs["y"].dtype == ml_dtypes.bfloat16
    assert outputs["y"].astype(float).tolist() == [0.5, 3, -1]
    np.testing.assert_array_equal(outputs["f"], x.astype(np.float32))


def test_the_default_memory_limit_is_most_of_the_machines():
    """And never none."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert total / 2 < memory_default() < total


TYPES = [np.float32, np.float64, np.float16, np.int8, np.uint64, np.bool_, ml_dtypes.bfloat16]


@settings(deadline=None)
@given(
    st.dictionaries(st.text(), st.sampled_from(TYPES).flatmap(lambda t: _arrays(np.dtype(t)))),
    st.dictionaries(st.text(), st.integers() | st.text()),
)
def test_a_frame_comes_back_as_it_was(arrays, header):
    """Every name, type, shape and bit."""
    stream = io.BytesIO()
    write_frame(stream, header, arrays)
    write_frame(stream, {}, {})
    stream.seek(0)
    got, back = read_frame(stream)
    assert got == header
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert (back[name].dtype, back[name].shape) == (array.dtype, array.shape)
        assert back[name].tobytes() == array.tobytes()
    assert read_frame(stream) == ({}, {})


def _arrays(dtype: np.dtype) -> st.SearchStrategy:
    raw = np.dtype(f"u{dtype.itemsize}") if dtype != np.bool_ else dtype
    return hnp.arrays(raw, hnp.array_shapes(min_dims=0, min_side=0, max_side=3)).map(lambda a: a.view(dtype))


def test_strings_cross_the_frame():
    """As text, whatever numpy holds them in."""
    stream = io.BytesIO()
    write_frame(
        stream,
        {},
        {"s": np.array([["a", "é"]], dtype=object), "b": np.array([b"x"]), "e": np.array([], "U1")},
    )
    stream.seek(0)
    _, back = read_frame(stream)
    assert (back["s"].tolist(), back["b"].tolist(), back["e"].tolist()) == ([["a", "é"]], ["x"], [])


@pytest.mark.parametrize("length", [0, 4, 8, 20])
def test_a_frame_cut_short_is_an_end(length):
    """Which is how a dead worker looks."""
    stream = io.BytesIO()
    write_frame(stream, {}, {"x": np.zeros(100)})
    with pytest.raises(EOFError):
        read_frame(io.BytesIO(stream.getvalue()[:length]))
