"""What is measured beside the report: digests of weights, times, processes that end."""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from fuser.errors import ModelError
from fuser.gate import latency, pool
from fuser.gate.latency import time_pair
from fuser.gate.limits import Limits
from fuser.gate.weights import digests
from fuser.report import Fusion
from fuser.storage import from_proto, load
from tests.builders import conv_bn_leaky
from tests.gate import reports
from tests.gate.repository import nudged

SITE = Fusion(
    "ConvLeakyRelu", "", "f", "act0", ("x",), ("Conv_0", "BN_0", "LeakyRelu_0"), ("BN_0",), ("rule",), 0.2
)
OTHER = Fusion("ConvLeakyRelu", "", "g", "y", ("act0",), ("Conv_1", "BN_1"), (), ("rule",), 0.2)


def model() -> ModelProto:
    return conv_bn_leaky(channels=(3, 4, 5), batch=1)


def of(proto: ModelProto) -> tuple[str, dict[str, str]]:
    return digests(from_proto(proto), (SITE, OTHER))


def test_a_nudged_weight_changes_the_digest_of_its_site_alone() -> None:
    (all_before, before), (all_after, after) = of(model()), of(nudged(model()))
    assert all_before != all_after
    assert before["act0"] == after["act0"]
    assert before["y"] != after["y"]


def test_names_do_not_count() -> None:
    renamed = model()
    for tensor in renamed.graph.initializer:
        tensor.name += "_v2"
    for node in renamed.graph.node:
        node.input[1:] = [f"{name}_v2" for name in node.input[1:]]
    assert of(renamed) == of(model())


def test_where_the_bytes_lie_does_not_count(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "out.onnx", save_as_external_data=True, location="data", size_threshold=0)
    assert digests(load(tmp_path / "out.onnx"), (SITE, OTHER)) == of(model())


def test_how_the_values_are_written_does_not_count() -> None:
    typed = model()
    for tensor in typed.graph.initializer:
        values = np.frombuffer(tensor.raw_data, np.float32)
        tensor.ClearField("raw_data")
        tensor.float_data.extend(values.tolist())
    assert of(typed) == of(model())


def test_constant_nodes_hold_weights_too() -> None:
    nodes = model()
    for tensor in nodes.graph.initializer:
        nodes.graph.node.insert(0, helper.make_node("Constant", [], [tensor.name], value=tensor))
        nodes.graph.node[0].attribute[0].t.name = ""
    del nodes.graph.initializer[:]
    assert of(nodes) == of(model())


def test_strings_are_no_weights() -> None:
    with_text = model()
    with_text.graph.initializer.append(helper.make_tensor("text", TensorProto.STRING, [1], [b"hello"]))
    assert of(with_text) == of(model())


def test_a_site_in_another_graph_has_a_name_of_its_own() -> None:
    assert [*digests(from_proto(model()), [reports.fusion("y", "If_1/then_branch")])[1]] == [
        "y in If_1/then_branch"
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(model(), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_both_models_are_timed_on_drawn_inputs(path: Path) -> None:
    found = time_pair(path, path, Limits())
    assert found.before > 0
    assert found.after > 0
    assert found.ratio == found.after / found.before


@pytest.mark.parametrize("given", ["shapes", "inputs"])
def test_what_does_not_run_is_named(path: Path, tmp_path: Path, given: str) -> None:
    onnx.save(conv_bn_leaky(batch="N"), path)
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 1, 9), np.float32))
    limits = Limits(inputs=tmp_path / "x.npy") if given == "inputs" else Limits(shapes={"x": (1, 3, 1, 9)})
    with pytest.raises(
        ModelError, match=r"model\.onnx could not be timed: .*; give inputs or shapes that onnxruntime runs"
    ):
        time_pair(path, path, limits)


def test_timing_ends_in_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "BUDGET", 0.0)
    with pytest.raises(ModelError, match=r"could not be timed within 0\.0001 seconds a run; raise timeout"):
        time_pair(path, path, Limits(timeout=0.0001))


@pytest.mark.parametrize("ended", [BrokenProcessPool(), SystemExit(143)])
def test_a_process_that_ended_leaves_its_model_unjudged(ended: BaseException) -> None:
    future: Future[pool.Result] = Future()
    future.set_exception(ended)
    assert "the process that measured it was ended" in str(pool._result(future))


def test_a_worker_told_to_stop_twice_unwinds_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal tells it and then its parent does; the second must not end the removing of temporary files."""
    monkeypatch.setattr(pool, "_busy", ["model"])
    monkeypatch.setattr(pool, "_stopping", [])
    with pytest.raises(SystemExit) as stopped:
        pool._stop(2, None)
    assert stopped.value.code == 130
    pool._stop(15, None)
