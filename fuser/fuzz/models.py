"""Whole drawn models: a line of operators, more readers of it, and the place it stands in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from fuser.fuzz.activations import activation
from fuser.fuzz.body import Body, Shape
from fuser.fuzz.operators import AFFINE, between, conv, conv_transpose, gemm
from fuser.fuzz.quantized import can_be_quantized, pair

if TYPE_CHECKING:
    from fuser.fuzz.choices import Choices

LOCAL = "local"
KINDS = (
    *("initializer", "initializer", "node", "identity", "cast", "reshape", "transpose"),
    *("like", "halved", "product", "expand"),
)
"""The ways to keep or compute a constant that one model may mix."""
Typed = tuple[str, Shape, int]


@dataclass(frozen=True)
class Drawn:
    """A model, and how it is to be fused."""

    model: ModelProto
    freeze_inputs: bool = False
    standard: bool = False
    external: bool = False  # its weights are in a file of their own


@dataclass
class _Main:
    """The main graph around a body."""

    ir: int
    nodes: list[NodeProto] = field(default_factory=list)
    weights: list[TensorProto] = field(default_factory=list)
    inputs: list[ValueInfoProto] = field(default_factory=list)
    functions: list[FunctionProto] = field(default_factory=list)


def draw(choices: Choices) -> Drawn:
    """A model that onnx.checker accepts."""
    body = _body(choices)
    outputs = _line(body)
    place = choices.pick((in_main, in_main, in_main, in_if, in_loop, in_scan, in_function))
    if place in (in_loop, in_scan) and body.opset < 11:
        place = in_if
    main = _Main(ir=8 if place is in_function else choices.pick((8, 10, 4, 3)))
    outputs = place(body, outputs, main)
    x = main.inputs[0]
    if not body.fixed_batch and place is not in_scan and choices.once_in(2):
        x.type.tensor_type.shape.dim[0].dim_param = "N"
    if place is in_main:
        outputs += _more_readers(body, main)
    freeze = _overridable(choices, main)
    graph = helper.make_graph(main.nodes, "drawn", main.inputs, _results(outputs), main.weights)
    imports = [helper.make_opsetid("", body.opset)]
    if main.functions:
        imports.append(helper.make_opsetid(LOCAL, 1))
    model = helper.make_model(graph, opset_imports=imports, ir_version=main.ir, functions=main.functions)
    _decorate(choices, model)
    return Drawn(model, freeze, choices.once_in(6), choices.once_in(8))


def _body(c: Choices) -> Body:
    opset = c.pick((17, 17, 13, 14, 15, 9, 7, 11, 12, 18, 21, 22))
    dtype = c.pick((TensorProto.FLOAT,) * 6 + (TensorProto.FLOAT16, TensorProto.DOUBLE))
    rank = c.pick(
        (2, 2, 4, 3) if dtype == TensorProto.DOUBLE else (4, 4, 4, 3, 2, 5)
    )  # few run Conv in float64
    shape = (c.pick((2, 1, 3, 4)), *(c.pick((4, 3, 2, 6)) for _ in range(rank - 1)))
    body = Body(c, opset, dtype, shape, named=c.pick(("label",) * 9 + ("none", "none", "same")))
    kinds = (
        "initializer",
        "initializer",
        "node",
        "identity",
        "cast",
        "reshape",
        "transpose",
        "like",
        "halved",
        "product",
        "expand",
    )
    body.constants = c.pick((kinds[:1], kinds[:1], kinds, ("node",)))
    body.quantized = can_be_quantized(body) and c.once_in(6)
    return body


def _line(body: Body) -> list[Typed]:
    """Draw the line; gives the values that leave it, its end first."""
    c = body.choices
    for _ in range(c.pick((1, 1, 2, 3))):
        if c.once_in(4) and len(body.shape) > 1:
            c.pick(AFFINE)(body)
        _anchor(body)
        for _ in range(c.pick((1, 0, 2, 3))):
            c.pick((*AFFINE, between))(body)
        if not c.once_in(4):
            activation(body)
        if body.quantized and can_be_quantized(body) and c.once_in(2):
            pair(body)
    if not body.nodes or body.value == "x":
        body.op("Identity", [body.value], body.shape)
    outputs = [(body.value, body.shape, body.dtype)]
    outputs.extend(seen for seen in body.seen[:-1] if c.once_in(12))
    return list(dict.fromkeys(outputs))


def _anchor(body: Body) -> None:
    rank = len(body.shape)
    if rank == 2:
        gemm(body)
    elif 3 <= rank <= 5 and body.shape[1] <= 24 and max(body.shape[2:]) <= 16:
        (conv_transpose if body.dtype != TensorProto.DOUBLE and body.choices.once_in(3) else conv)(body)


# ---- places


def in_main(body: Body, outputs: list[Typed], main: _Main) -> list[Typed]:
    """The line is the main graph."""
    main.inputs.append(helper.make_tensor_value_info("x", *_input_type(body)))
    main.nodes += body.nodes
    main.weights += body.weights.values()
    return outputs


def in_if(body: Body, outputs: list[Typed], main: _Main) -> list[Typed]:
    """The line is one branch; its weights are in there or outside."""
    main.inputs.append(helper.make_tensor_value_info("x", *_input_type(body)))
    main.weights.append(numpy_helper.from_array(np.asarray(True), "taken"))
    inside = main.ir > 3 and body.choices.once_in(2)
    line = helper.make_graph(
        body.nodes, "line", [], _results(outputs), list(body.weights.values()) if inside else []
    )
    main.weights += [] if inside else body.weights.values()
    nodes = []
    for name, shape, dtype in outputs:
        zero = numpy_helper.from_array(np.zeros(shape, helper.tensor_dtype_to_np_dtype(dtype)))
        nodes.append(helper.make_node("Constant", [], [f"else_{name}"], value=zero))
    otherwise = helper.make_graph(
        nodes, "otherwise", [], _results([(f"else_{n}", s, t) for n, s, t in outputs])
    )
    main.nodes.append(
        helper.make_node(
            "If", ["taken"], [n for n, _, _ in outputs], "if", then_branch=line, else_branch=otherwise
        )
    )
    return outputs


def in_loop(body: Body, outputs: list[Typed], main: _Main) -> list[Typed]:
    """The line is the body of a Loop of two rounds, which gives what each round gave."""
    main.inputs.append(helper.make_tensor_value_info("x", *_input_type(body)))
    inside = main.ir > 3 and body.choices.once_in(2)
    main.weights += [] if inside else body.weights.values()
    main.weights += [
        numpy_helper.from_array(np.asarray(2), "rounds"),
        numpy_helper.from_array(np.asarray(True), "go"),
    ]
    loop = helper.make_graph(
        [helper.make_node("Identity", ["go_in"], ["go_out"]), *body.nodes],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go_in", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("go_out", TensorProto.BOOL, []), *_results(outputs)],
        list(body.weights.values()) if inside else [],
    )
    main.nodes.append(
        helper.make_node("Loop", ["rounds", "go"], [n for n, _, _ in outputs], "loop", body=loop)
    )
    return [(n, (2, *s), t) for n, s, t in outputs]


def in_scan(body: Body, outputs: list[Typed], main: _Main) -> list[Typed]:
    """The line is the body of a Scan over two frames."""
    dtype, shape = _input_type(body)
    main.inputs.append(helper.make_tensor_value_info("frames", dtype, (2, *shape)))
    inside = main.ir > 3 and body.choices.once_in(2)
    main.weights += [] if inside else body.weights.values()
    x = helper.make_tensor_value_info("x", dtype, shape)
    weights = list(body.weights.values()) if inside else []
    scan = helper.make_graph(body.nodes, "body", [x], _results(outputs), weights)
    names = [n for n, _, _ in outputs]
    main.nodes.append(helper.make_node("Scan", ["frames"], names, "scan", body=scan, num_scan_inputs=1))
    return [(n, (2, *s), t) for n, s, t in outputs]


def in_function(body: Body, outputs: list[Typed], main: _Main) -> list[Typed]:
    """The line is a function of the model, called once or twice; its weights are arguments or Constants in it."""
    c = body.choices
    main.inputs.append(helper.make_tensor_value_info("x", *_input_type(body)))
    names, made = list(body.weights), [n for n, _, _ in outputs]
    arguments = body.opset < 9 or c.once_in(2)
    constants = [helper.make_node("Constant", [], [n], value=t) for n, t in body.weights.items()]
    slopes: dict[str, Any] = {}
    if c.once_in(3) and (slope := _slope_as_attribute(body)) is not None:
        slopes["slope"] = slope
    taken = ["x", *names] if arguments else ["x"]
    nodes = body.nodes if arguments else [*constants, *body.nodes]
    imports = [helper.make_opsetid("", body.opset)]
    main.functions.append(helper.make_function(LOCAL, "line", taken, made, nodes, imports, list(slopes)))
    main.weights += body.weights.values() if arguments else []
    name = "line"
    if not slopes and c.once_in(4):
        inner = helper.make_node("line", taken, made, "inner", domain=LOCAL)
        imports = [*imports, helper.make_opsetid(LOCAL, 1)]
        main.functions.append(helper.make_function(LOCAL, "outer", taken, made, [inner], imports))
        name = "outer"
    main.nodes.append(helper.make_node(name, taken, made, "call", domain=LOCAL, **slopes))
    if c.once_in(3):
        given = _other_weights(body, main) if arguments and c.once_in(2) else taken
        again = [f"again_{n}" for n in made]
        main.nodes.append(helper.make_node(name, given, again, "call_again", domain=LOCAL, **slopes))
        outputs = [*outputs, *((f"again_{n}", s, t) for n, s, t in outputs)]
    return outputs


def _slope_as_attribute(body: Body) -> float | None:
    """Let the first LeakyRelu take its slope from the function; gives the slope."""
    for node in body.nodes:
        if node.op_type == "LeakyRelu" and node.attribute:
            slope = float(node.attribute[0].f)
            node.attribute[0].ClearField("f")
            node.attribute[0].ref_attr_name = "slope"
            return slope
    return None


def _other_weights(body: Body, main: _Main) -> list[str]:
    """Arguments for another call: some weights are half of what they are in the first, some are Constants."""
    given = ["x"]
    for name, tensor in body.weights.items():
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind != "f" or body.choices.once_in(2):
            given.append(name)
            continue
        other = numpy_helper.from_array((array / 2).astype(array.dtype), f"{name}_half")
        given.append(other.name)
        if body.opset >= 9 and body.choices.once_in(3):
            main.nodes.append(helper.make_node("Constant", [], [other.name], value=other))
        else:
            main.weights.append(other)
    return given


def _input_type(body: Body) -> tuple[int, list[int]]:
    """Element type and shape that the line began with."""
    first = body.start
    return first[1], list(first[0])


def _results(outputs: Sequence[Typed]) -> list[ValueInfoProto]:
    return [helper.make_tensor_value_info(n, t, [None] * len(s)) for n, s, t in outputs]


# ---- around the line


def _more_readers(body: Body, main: _Main) -> list[Typed]:
    """Further readers of values inside: one that counts, a dead one, a body that captures; and names that are taken."""
    c, outputs = body.choices, []
    for value, shape, dtype in body.seen[:-1]:
        kind = c.pick(("none",) * 12 + ("reader", "dead", "body"))
        if kind == "reader":
            main.nodes.append(helper.make_node("Abs", [value], [f"read_{value}"], f"read_{value}"))
            outputs.append((f"read_{value}", shape, dtype))
        elif kind == "dead":
            main.nodes.append(helper.make_node("Neg", [value], [f"dead_{value}"], f"dead_{value}"))
        elif kind == "body":
            main.nodes.append(_capture(value, shape, dtype))
            outputs.append((f"captured_{value}", shape, dtype))
            if all(i.name != "flag" for i in main.inputs):
                main.inputs.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
    if c.once_in(6):
        names = [c.pick(("conv0_b", "batchnormalization1_b1", "w0_1", "leakyrelu2_b1", "v1_b1"))]
        main.weights += [numpy_helper.from_array(np.asarray([1.0], np.float32), n) for n in names]
        main.nodes.append(helper.make_node("Neg", names, ["extra"], "extra"))
        outputs.append(("extra", (1,), TensorProto.FLOAT))
    return outputs


def _capture(value: str, shape: Shape, dtype: int) -> NodeProto:
    def branch(op: str) -> GraphProto:
        result = _results([(f"{op}_{value}", shape, dtype)])
        return helper.make_graph([helper.make_node(op, [value], [f"{op}_{value}"])], op, [], result)

    then_branch, else_branch = branch("Identity"), branch("Neg")
    return helper.make_node(
        "If", ["flag"], [f"captured_{value}"], f"if_{value}", then_branch=then_branch, else_branch=else_branch
    )


def _overridable(c: Choices, main: _Main) -> bool:
    """List initializers as inputs: all before IR 4, now and then some from then on. Whether nobody overrides them."""
    if main.ir >= 4 and not c.once_in(8):
        return False
    chosen = [t for t in main.weights if main.ir < 4 or c.once_in(2)]
    main.inputs += [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in chosen]
    return main.ir >= 4 and c.once_in(2)


def _decorate(c: Choices, model: ModelProto) -> None:
    """Fields that a rewrite must carry along."""
    if not c.once_in(2):
        return
    model.producer_name, model.doc_string, model.graph.doc_string = "drawn", "a model", "a graph"
    helper.set_model_props(model, {"key": "value"})
    for node in model.graph.node:
        if c.once_in(3):
            node.doc_string = f"about {node.output[0]}"
            node.metadata_props.add(key="note", value=node.output[0])
    for tensor in model.graph.initializer:
        if c.once_in(6):
            tensor.doc_string = f"about {tensor.name}"
