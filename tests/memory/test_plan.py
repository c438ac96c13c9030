"""Which bytes are in use when: counted by hand for graphs of one feature each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, parser, shape_inference
from onnx.reference import ReferenceEvaluator

from fuser.memory.order import order
from fuser.memory.plan import plan

KB = 1024  # one value of float[16,16]


def infer(text: str) -> ModelProto:
    """The model of a graph in ONNX's text form, with the types of its values."""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17, "other" : 1]>\n{text}')
    return shape_inference.infer_shapes(model, data_prop=True)


def used(text: str, *, in_place: bool = False) -> list[float]:
    """KiB in use at each operator."""
    return [b / KB for b in plan(order(infer(text).graph), in_place=in_place).used]


CASES = {
    "a chain holds what is read and what is made": (
        "g (float[16,16] x) => (float[16,16] y) { a = Relu(x) b = Sqrt(a) c = Sqrt(b) y = Softmax(c) }",
        [1, 2, 2, 2], [1, 1, 1, 2],
    ),
    "a value stays until its last reader": (
        "g (float[16,16] x) => (float[16,16] y) { a = Relu(x) b = Sqrt(a) c = Sqrt(b) y = Add(a, c) }",
        [1, 2, 3, 3], [1, 2, 2, 2],
    ),
    "an output stays to the end, and nothing is written over it": (
        "g (float[16,16] x) => (float[16,16] a, float[16,16] y) { a = Relu(x) b = Sqrt(a) y = Sqrt(b) }",
        [1, 2, 3], [1, 2, 2],
    ),
    "a node that reaches no output does not run": (
        "g (float[16,16] x) => (float[16,16] y) { a = Relu(x) dead = Sqrt(a) y = Sqrt(a) }",
        [1, 2], [1, 1],
    ),
    "a view is the same bytes, kept as long as either is needed": (
        "g (float[16,16] x) => (float[256] y, float[16,16] z) "
        "{ a = Relu(x) s = Constant<value_ints = [256]>() r = Reshape(a, s) y = Sqrt(r) z = Sqrt(a) }",
        [1, 1, 2, 3], [1, 1, 2, 2],
    ),
    "weights and what follows from them allocate nothing": (
        "g (float[16,16] x) => (float[16,16] y) <float[16,16] w = {0}> "
        "{ t = Transpose(w) a = MatMul(x, t) y = Relu(a) }",
        [1, 2], [1, 1],
    ),
    "a broadcast result does not fit over the small operand, but over the large one": (
        "g (float[16,16] x, float[16] v) => (float[16,16] y) { a = Relu(v) b = Relu(x) y = Add(a, b) }",
        [1 / 16, 17 / 16, 33 / 16], [1 / 16, 17 / 16, 17 / 16],
    ),
    "a Cast to a wider type does not fit": (
        "g (float[16,16] x) => (double[16,16] y) { a = Relu(x) y = Cast<to = 11>(a) }",
        [1, 3], [1, 3],
    ),
    "a value used twice by its last reader can be written over": (
        "g (float[16,16] x) => (float[16,16] y) { a = Relu(x) y = Mul(a, a) }",
        [1, 2], [1, 1],
    ),
    "the caller's input is never written over": (
        "g (float[16,16] x) => (float[16,16] y) { y = Relu(x) }", [1], [1],
    ),
    "an output that nothing reads goes at once": (
        "g (float[1,2,8,16] x) => (float[1,2,8,16] y) "
        "{ a, i = MaxPool<kernel_shape = [1, 1]>(x) b = Sqrt(a) y = Softmax(b) }",
        [3, 2, 2], [3, 1, 2],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "fresh", "in_place"), CASES.values(), ids=CASES)
def test_bytes_in_use(text: str, fresh: list[float], in_place: list[float]) -> None:
    """In KiB, operator by operator, out of place and in place."""
    assert used(text) == fresh
    assert used(text, in_place=True) == in_place


BRANCHES = """
g (bool c, float[16,16] x) => (float[16,16] y) {
  a = Relu(x)
  b = If (c) <
    then_branch = t () => (float[16,16] p) { q = Sqrt(a) r = Sqrt(q) p = Sqrt(r) },
    else_branch = e () => (float[16,16] s) { s = Sqrt(a) }
  >
  y = Sqrt(b)
}
"""
LOOP = """
g (int64 n, float[16,16] x) => (float[16,16] y) {
  c = Constant<value = bool {1}>()
  a = Relu(x)
  b = Loop (n, c, a) <body = l (int64 i, bool go, float[16,16] s) => (bool on, float[16,16] t) {
    on = Identity(go) u = Sqrt(s) v = Sqrt(a) t = Add(u, v) }>
  y = Sqrt(b)
}
"""


def test_a_branch_counts_on_top_of_what_is_around_it() -> None:
    """The captured value lives through the If; the branch's output is the If's."""
    assert used(BRANCHES) == [1, 3, 2]
    assert used(BRANCHES, in_place=True) == [1, 2, 1]


def test_a_loop_counts_one_round_and_its_result() -> None:
    """The captured a, and inside: counter, condition, state, what a round makes.

    A state may change its shape, so the result's size is not known.
    """
    assert used(LOOP) == [1, 1 + 3 + (8 + 1) / KB, 1]
    assert order(infer(LOOP).graph).unknown == 1


def test_moved_bytes_count_weights_and_each_value_once_per_operator() -> None:
    """Read x and w, write a; read a twice but once in memory, write y; a view and a Shape move nothing."""
    model = infer(
        "g (float[16,16] x) => (float[16,16] y, int64 n) <float[16,16] w = {0}> "
        "{ a = MatMul(x, w) b = Identity(a) y = Mul(b, b) n = Size(y) }"
    )
    assert order(model.graph).moved == 3 * KB + 2 * KB + 8


def test_a_value_of_unknown_size_is_counted_and_takes_nothing() -> None:
    """NonZero's size depends on the data."""
    found = order(infer("g (float[16,16] x) => (int64[2,K] y) { a = Relu(x) y = NonZero(a) }").graph)
    assert found.unknown == 1
    assert plan(found, in_place=False).used == [KB, KB]


OPS = ("Relu", "Sqrt", "Add", "Softmax", "Identity", "Mul")


@st.composite
def graphs(draw: st.DrawFn) -> str:
    """A random graph of values of one size, some of them outputs."""
    names, lines = ["x"], []
    for i in range(draw(st.integers(1, 12))):
        op = draw(st.sampled_from(OPS))
        inputs = [draw(st.sampled_from(names)) for _ in range(2 if op in ("Add", "Mul") else 1)]
        lines.append(f"v{i} = {op}({', '.join(inputs)})")
        names.append(f"v{i}")
    outputs = sorted(draw(st.sets(st.sampled_from(names[1:]), min_size=1, max_size=3)))
    return (
        f"g (float[16,16] x) => ({', '.join(f'float[16,16] {o}' for o in outputs)}) {{ {' '.join(lines)} }}"
    )


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_in_place_never_needs_more(text: str) -> None:
    """It saves no more than what it wrote over, and never less than one value is in use."""
    found = order(infer(text).graph)
    fresh, reused = plan(found, in_place=False), plan(found, in_place=True)
    assert all(b <= a for a, b in zip(fresh.used, reused.used, strict=True))
    assert KB <= reused.peak <= fresh.peak <= KB * len(found.operators)
    assert fresh.peak - reused.peak <= sum(size for _, _, size in reused.reuses)


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_in_place_computes_the_same(text: str) -> None:
    """Running the plan on real memory, one array per buffer, gives what onnx's reference gives."""
    model = infer(text)
    x = np.random.default_rng(0).uniform(0.1, 1, (16, 16)).astype(np.float32)
    evaluator = ReferenceEvaluator(model)
    wanted = dict(zip(evaluator.output_names, evaluator.run(None, {"x": x}), strict=True))
    found = order(model.graph)
    over = {o.outputs[0]: v for o, v, _ in plan(found, in_place=True).reuses}
    memory = {"x": x.copy()}
    for o in found.operators:
        feeds = dict(zip("ab", [memory[v] for v in o.inputs], strict=False))
        made = ReferenceEvaluator(_one(o.op, len(o.inputs))).run(None, feeds)[0]
        if o.view and o.inputs[0] != "x":
            memory[o.outputs[0]] = memory[o.inputs[0]]
        elif o.outputs[0] in over:
            memory[over[o.outputs[0]]][...] = made
            memory[o.outputs[0]] = memory[over[o.outputs[0]]]
        else:
            memory[o.outputs[0]] = made.copy()
    for name, value in wanted.items():
        np.testing.assert_array_equal(memory[name], value)
    np.testing.assert_array_equal(memory["x"], x)


def _one(op: str, inputs: int) -> ModelProto:
    names = "ab"[:inputs]
    declared = ", ".join(f"float[16,16] {n}" for n in names)
    graph = f"g ({declared}) => (float[16,16] y) {{ y = {op}({', '.join(names)}) }}"
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{graph}')
