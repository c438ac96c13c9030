"""Pairs of models for the parity check: A as exported, B folded and fused by hand, and the places where."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

from fuser.parity import Site
from tests.builders import conv_bn_leaky


def fused(a: ModelProto) -> tuple[ModelProto, list[Site]]:
    """``a``, a chain of conv_bn_leaky, with every block one fuser::ConvLeakyRelu; and its sites."""
    b = ModelProto()
    b.CopyFrom(a)
    sites = fuse_graph(b.graph)
    add_definition(b)
    return b, sites


def fuse_graph(graph: GraphProto, path: str = "") -> list[Site]:
    """Fold and fuse the Conv, BatchNormalization, LeakyRelu blocks of a graph in place, one after another."""
    weights = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    types = {t.name: t.data_type for t in graph.initializer}
    nodes, sites = [], []
    for conv, bn, act in zip(graph.node[::3], graph.node[1::3], graph.node[2::3], strict=True):
        w, (scale, shift, mean, var) = (weights[conv.input[1]], (weights[name] for name in bn.input[1:]))
        factor = scale.astype(np.float64) / np.sqrt(var.astype(np.float64) + bn.attribute[0].f)
        bias = weights[conv.input[2]].astype(np.float64) if len(conv.input) > 2 else 0.0
        folded = {
            f"{conv.input[1]}_folded": w.astype(np.float64) * factor[:, None, None, None],
            f"{conv.input[1]}_bias": (bias - mean.astype(np.float64)) * factor + shift.astype(np.float64),
        }
        for name, values in folded.items():
            weights[name], types[name] = values.astype(w.dtype), types[conv.input[1]]
        node = helper.make_node(
            "ConvLeakyRelu", [conv.input[0], *folded], act.output, f"fused_{conv.name}", domain="fuser"
        )
        node.attribute.extend(conv.attribute)
        node.attribute.append(helper.make_attribute("negative_slope", act.attribute[0].f))
        nodes.append(node)
        replaced = (conv.name, bn.name, act.name)
        sites.append(Site(path, act.output[0], (conv.input[0],), "ConvLeakyRelu", replaced))
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    del graph.initializer[:]
    graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in weights.items() if n in used)
    return sites


def add_definition(model: ModelProto) -> None:
    """Ship fuser::ConvLeakyRelu as a function."""
    opset = next(o.version for o in model.opset_import if not o.domain)
    model.opset_import.append(helper.make_opsetid("fuser", 1))
    conv = helper.make_node("Conv", ["X", "W", "B"], ["conv"])
    for name, kind in (
        ("kernel_shape", onnx.AttributeProto.INTS),
        ("strides", onnx.AttributeProto.INTS),
        ("pads", onnx.AttributeProto.INTS),
        ("group", onnx.AttributeProto.INT),
    ):
        conv.attribute.add(name=name, ref_attr_name=name, type=kind)
    leaky = helper.make_node("LeakyRelu", ["conv"], ["Y"])
    leaky.attribute.add(name="alpha", ref_attr_name="negative_slope", type=onnx.AttributeProto.FLOAT)
    model.functions.append(
        helper.make_function(
            "fuser",
            "ConvLeakyRelu",
            ["X", "W", "B"],
            ["Y"],
            [conv, leaky],
            [helper.make_opsetid("", opset)],
            ["kernel_shape", "strides", "pads", "group", "negative_slope"],
        )
    )


def in_branch() -> tuple[ModelProto, ModelProto, list[Site]]:
    """Two blocks in the then-branch of an If; A, B fused in there, and the sites."""
    inner = conv_bn_leaky(channels=(3, 4, 5), batch=1).graph
    then, other = GraphProto(), GraphProto()
    then.CopyFrom(inner)
    del then.input[:]
    then.name, then.node[-1].output[0], then.output[0].name = "then", "p", "p"
    other.name = "else"
    other.initializer.append(numpy_helper.from_array(np.zeros((1, 5, 8, 8), np.float32), "q"))
    other.output.append(helper.make_tensor_value_info("q", TensorProto.FLOAT, [1, 5, 8, 8]))
    choose = helper.make_node("If", ["c"], ["y"], "choose", then_branch=then, else_branch=other)
    a = helper.make_model(
        helper.make_graph(
            [choose],
            "outer",
            [*inner.input, helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
            inner.output,
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    b = ModelProto()
    b.CopyFrom(a)
    body = next(attribute for attribute in b.graph.node[0].attribute if attribute.name == "then_branch").g
    sites = fuse_graph(body, "choose/then_branch")
    add_definition(b)
    return a, b, sites


def initializer(graph: GraphProto, name: str) -> TensorProto:
    """The graph's tensor of that name."""
    return next(tensor for tensor in graph.initializer if tensor.name == name)


def change(tensor: TensorProto, index: tuple[int, ...] | slice, value: float) -> None:
    """Set some of a tensor's values."""
    values = numpy_helper.to_array(tensor).copy()
    values[index] = value
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
