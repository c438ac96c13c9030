"""No run of a model depends on the runs before it; what is random says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx import ModelProto, parser

from fuser.parity import check_parity
from fuser.parity.repeat import has_random, keeps_state, load
from fuser.parity.runner import Worker, memory_default
from fuser.parity.source import open_model

if TYPE_CHECKING:
    from pathlib import Path


def text(body: str, opset: int = 17, inputs: str = "float[8] x") -> ModelProto:
    """A model from ONNX text with output y."""
    return parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}]> g ({inputs}) => (float[N] y) {{ {body} }}'
    )


RATIO = "r = Constant <value_float = 0.5> ()"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (text("y = Dropout (x)", 7), False),
        (text("y = Dropout <ratio = 0.3> (x)", 11), False),
        (text("y = Dropout (x)", 13), False),
        (text(f"{RATIO} y = Dropout (x, r)"), False),
        (text(f"{RATIO} t = Constant <value = bool {{0}}> () y = Dropout (x, r, t)"), False),
        (text(f"{RATIO} t = Constant <value = bool {{1}}> () y = Dropout (x, r, t)"), True),
        (text(f"{RATIO} y = Dropout (x, r, t)", inputs="float[8] x, bool t"), True),
        (text("y = RandomNormalLike (x)"), True),
        (text("y = Relu (x)"), False),
        (
            text(
                f"""{RATIO} t = Constant <value = bool {{0}}> ()
                y = If (c) <then_branch = a () => (float[8] p) {{ p = Dropout (x, r, t) }},
                            else_branch = b () => (float[8] q) {{ q = Dropout (x) }}>""",
                inputs="float[8] x, bool c",
            ),
            False,
        ),
        (
            text(
                """y = If (c) <then_branch = a () => (float[8] p) { p = RandomUniformLike (x) },
                               else_branch = b () => (float[8] q) { q = Dropout (x) }>""",
                inputs="float[8] x, bool c",
            ),
            True,
        ),
    ],
)
def test_only_dropout_in_training_is_random(model: ModelProto, *, expected: bool) -> None:
    """In inference it is Identity, whatever its ratio."""
    assert has_random(model) == expected


def test_an_inference_dropout_needs_no_second_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a random model is run again in another one."""
    starts = []
    start = Worker._start
    monkeypatch.setattr(Worker, "_start", lambda worker: starts.append(1) or start(worker))
    a = text("d = Dropout (x) y = Relu (d)", 13)
    assert check_parity(a, a).verdict == "passed"
    assert len(starts) == 1


TRAINS = """<ir_version: 8, opset_import: ["": 17]>
g (float[N, 3, H, W] x) => (float[N, 3] y)
<float[3] s = {1, 2, 3}, float[3] b = {0, 1, 2}, float[3] m = {0, 0, 0}, float[3] v = {1, 1, 1}>
{
  n, running_mean, running_var = BatchNormalization <training_mode = 1> (x, s, b, m, v)
  shape = Constant <value = int64[3] {-1, 3, 4096}> ()
  flat = Reshape (n, shape)
  mean = ReduceMean <axes = [2], keepdims = 0> (flat)
  t = Add (mean, running_mean)
  z = Sub (t, running_var)
  y = OPERATOR (z)
}"""


def training(operator: str) -> ModelProto:
    """A model that gives its running statistics, and takes 64 by 64 only."""
    return parser.parse_model(TRAINS.replace("OPERATOR", operator))


def test_running_statistics_do_not_run_on(tmp_path: Path) -> None:
    """onnxruntime would update them in place, and the next run would start from there."""
    a = open_model(training("Identity"), "A", tmp_path)
    assert keeps_state(a.proto)
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 64, 64)).astype(np.float32)}
    with Worker(60, memory_default()) as worker:
        load(worker, "onnxruntime", a)
        first, second = (worker.run(feeds)[0]["y"] for _ in range(2))
    assert np.array_equal(first, second)


def test_models_that_train_are_compared_over_several_draws() -> None:
    """A runs more often than B, since its free dimensions are searched for."""
    a = training("Identity")
    assert check_parity(a, a).verdict == "passed"
    assert check_parity(a, training("Relu")).verdict == "failed"
