"""Ten times the nodes cost ten times the work: lines that the engine and its passes run are counted, not seconds."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, checker, helper, numpy_helper

import fuser
from fuser.language import builtin_folder, load_rules
from fuser.pipeline import Rewritten, rewrite
from fuser.storage import from_proto

SMALL, LARGE = 300, 3_000
MOST = 10.5
"""How many times the lines of the small model the large one may run."""
COUNTED = tuple(str(Path(next(iter(fuser.__path__))) / part) for part in ("engine", "passes", "pipeline"))
RULES = load_rules(builtin_folder())
CHANNELS = 2
RANDOM = np.random.default_rng(0)


class Builder:
    """A model that grows node by node; ``value`` is what the last node gave."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.tensors: list[TensorProto] = []
        self.outputs: list[str] = []
        self.value = "x"
        self.weight = ""

    def constant(self, *shape: int) -> str:
        """A new initializer of values between 0.5 and 1.5."""
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(RANDOM.uniform(0.5, 1.5, shape).astype(np.float32), name))
        return name

    def number(self, value: float) -> str:
        """A new scalar initializer."""
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Append a node that reads the last value, unless inputs are given in full as ``reads``."""
        reads = attributes.pop("reads", None) or [self.value, *inputs]
        self.value = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, reads, [self.value], name=f"n{len(self.nodes)}", **attributes))
        return self.value

    def model(self) -> ModelProto:
        """The model, checked."""
        shape: list[str | int | None] = ["N", CHANNELS, 4, 4]
        graph = helper.make_graph(
            self.nodes,
            "g",
            [
                helper.make_tensor_value_info("x", TensorProto.FLOAT, shape),
                helper.make_tensor_value_info("mean", TensorProto.FLOAT, [CHANNELS]),
            ],
            [
                helper.make_tensor_value_info(o, TensorProto.FLOAT, shape)
                for o in self.outputs or [self.value]
            ],
            self.tensors,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        checker.check_model(model)
        return model


def fusing(b: Builder) -> None:
    """Conv, BatchNormalization, LeakyRelu: one fused operator."""
    b.add("Conv", b.constant(CHANNELS, CHANNELS, 1, 1), kernel_shape=[1, 1])
    b.add("BatchNormalization", *(b.constant(CHANNELS) for _ in range(4)))
    b.add("LeakyRelu", alpha=0.1)


def spelled(b: Builder) -> None:
    """Conv, Mul and Add by constants, Max(x, 0.1 x): two rewrites more, one fused operator."""
    b.add("Conv", b.constant(CHANNELS, CHANNELS, 1, 1), kernel_shape=[1, 1])
    b.add("Mul", b.constant(1, CHANNELS, 1, 1))
    x = b.add("Add", b.constant(1, CHANNELS, 1, 1))
    scaled = b.add("Mul", b.number(0.1))
    b.add("Max", reads=[x, scaled])


def declining(b: Builder) -> None:
    """Conv and a BatchNormalization whose mean the caller gives: a near miss."""
    b.add("Conv", b.constant(CHANNELS, CHANNELS, 1, 1), kernel_shape=[1, 1])
    b.add("BatchNormalization", b.constant(CHANNELS), b.constant(CHANNELS), "mean", b.constant(CHANNELS))


def adding(b: Builder) -> None:
    """An Add of a constant after an Add of a constant, with no anchor in sight."""
    b.add("Add", b.constant(1, CHANNELS, 1, 1))


def fanning_out(b: Builder) -> None:
    """One value read by every LeakyRelu, which is spelled Max(x, 0.1 x)."""
    if not b.nodes:
        b.add("Conv", b.constant(CHANNELS, CHANNELS, 1, 1), kernel_shape=[1, 1])
        b.number(0.1)
    scaled = b.add("Mul", reads=["v0", "c1"])
    b.outputs.append(b.add("Max", reads=["v0", scaled]))


def sharing_a_weight(b: Builder) -> None:
    """Conv, BatchNormalization, LeakyRelu, where all Convs share a weight and all BatchNormalizations their constants."""
    if not b.tensors:
        b.constant(CHANNELS, CHANNELS, 1, 1)
        for _ in range(4):
            b.constant(CHANNELS)
    b.add("Conv", "c0", kernel_shape=[1, 1])
    b.add("BatchNormalization", "c1", "c2", "c3", "c4")
    b.add("LeakyRelu", alpha=0.1)


def identities_on_one_weight(b: Builder) -> None:
    """Each Conv's weight is the one before it, through one Identity more: constants computed through more and more nodes."""
    weight = f"w{len(b.nodes)}"
    before = b.weight or b.constant(CHANNELS, CHANNELS, 1, 1)
    b.nodes.append(helper.make_node("Identity", [before], [weight], name=weight))
    b.weight = weight
    b.add("Conv", weight, kernel_shape=[1, 1])
    b.add("LeakyRelu", alpha=0.1)


def folding_into_one(b: Builder) -> None:
    """One Conv and then Mul after Mul by constants, which all go into its weight."""
    if not b.nodes:
        b.add("Conv", b.constant(CHANNELS, CHANNELS, 1, 1), kernel_shape=[1, 1])
    b.add("Mul", b.constant(1, CHANNELS, 1, 1))


SITES = [
    folding_into_one, fusing, spelled, declining, adding, fanning_out, sharing_a_weight, identities_on_one_weight,
]  # fmt: skip


def built(site: Callable[[Builder], None], nodes: int) -> ModelProto:
    """Sites one after the other, until the model has so many nodes."""
    builder = Builder()
    while len(builder.nodes) < nodes:
        site(builder)
    return builder.model()


def counted(model: ModelProto) -> tuple[Rewritten, Counter[str]]:
    """What a rewrite did, and how many lines each function of the engine and the passes ran, loops included."""
    ran: dict[CodeType, int] = {}

    def count(frame: FrameType, event: str, _: object) -> object:
        if event == "line":
            ran[frame.f_code] += 1
        return count

    def enter(frame: FrameType, event: str, _: object) -> object:
        if frame.f_code not in ran and not frame.f_code.co_filename.startswith(COUNTED):
            return None
        ran.setdefault(frame.f_code, 0)
        return count

    stored = from_proto(model)
    before = sys.gettrace()
    sys.settrace(enter)
    try:
        done = rewrite(stored, RULES)
    finally:
        sys.settrace(before)
    lines: Counter[str] = Counter()
    for code, number in ran.items():
        lines[f"{Path(code.co_filename).stem}.{code.co_name}"] += number
    return done, lines


@pytest.mark.parametrize("site", SITES, ids=lambda s: s.__name__)
def test_ten_times_the_nodes_take_ten_times_the_work(site: Callable[[Builder], None]) -> None:
    """Neither all lines together nor rule attempts nor any one busy function grow faster than the model."""
    small, few = counted(built(site, SMALL))
    large, many = counted(built(site, LARGE))

    assert sum(many.values()) <= MOST * sum(few.values())
    assert sum(r.tries for r in large.rules) <= MOST * sum(r.tries for r in small.rules) + 1
    grown = {
        name: (few[name], n) for name, n in many.items() if n > LARGE and n > 1.1 * MOST * max(few[name], 1)
    }
    assert not grown


def test_the_sites_are_what_they_are_called() -> None:
    """Those that should fuse do, once each; those that should not don't, and say why."""
    fused = {s: len(rewrite(from_proto(built(s, 300)), RULES).fusions) for s in SITES}
    assert fused[fusing] == 100
    assert fused[spelled] == 60
    assert fused[sharing_a_weight] == 100
    assert fused[declining] == fused[adding] == 0
    assert len(rewrite(from_proto(built(declining, 300)), RULES).declined) == 150


def test_a_chain_of_100_000_nodes_meets_no_recursion_limit() -> None:
    """Shape, type and constness of a value are asked at the end of a long chain, and of a weight behind a long one."""
    b = Builder()
    weight = b.constant(CHANNELS, CHANNELS, 1, 1)
    for _ in range(50_000):
        b.add("Neg")
    last = b.value
    b.value = weight
    for _ in range(50_000):
        b.add("Identity")
    weight, b.value = b.value, last
    b.add("Conv", weight, kernel_shape=[1, 1])
    b.add("BatchNormalization", *(b.constant(CHANNELS) for _ in range(4)))
    b.add("LeakyRelu", alpha=0.1)

    done = rewrite(from_proto(b.model()), RULES)

    assert any("more than" in d.reason or "computed by" in d.reason for d in done.declined)
