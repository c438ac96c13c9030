"""A model with every kind of field is fused: what no rule touched comes out field for field as it went in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import FunctionProto, ModelProto, StringStringEntryProto, TensorProto, helper, numpy_helper

import fuser
from tests.builders import conv_bn_leaky

TOUCHED = {"Conv_0", "BN_0", "LeakyRelu_0"}


def entry(key: str, value: str) -> StringStringEntryProto:
    """One metadata_props entry."""
    return StringStringEntryProto(key=key, value=value)


def every_field() -> ModelProto:
    """Conv, BatchNormalization and LeakyRelu in the middle of everything that a model may hold."""
    model = conv_bn_leaky(opset=21, ir=11, check=False)
    model.producer_name, model.producer_version, model.domain = "an exporter", "1.2.3", "com.example"
    model.model_version, model.doc_string = 7, "a model"
    model.metadata_props.extend([entry("author", "somebody"), entry("licence", "MIT")])
    graph = model.graph
    graph.doc_string = "a graph"
    graph.metadata_props.append(entry("graph", "main"))
    graph.input[0].doc_string = "pixels"
    graph.input[0].metadata_props.append(entry("layout", "NCHW"))
    graph.input[0].type.denotation = "IMAGE"
    for dim, denotation in zip(
        graph.input[0].type.tensor_type.shape.dim, ("DATA_BATCH", "DATA_CHANNEL"), strict=False
    ):
        dim.denotation = denotation
    graph.output[0].doc_string = "features"
    graph.output[0].type.tensor_type.shape.dim[0].dim_param = "batch size"
    for node in graph.node:
        node.doc_string = f"about {node.name}"
        node.metadata_props.append(entry("pkg.torch.onnx.name", node.name))
    _neighbours(model)
    _functions(model)
    onnx.checker.check_model(model)
    return model


def _neighbours(model: ModelProto) -> None:
    """A branch beside the site that uses rare types: sparse, string, int4, bfloat16, float8, sequence, optional."""
    graph = model.graph
    int4 = helper.make_tensor("quarter", TensorProto.INT4, [3], [1, -2, 7])
    int4.doc_string = "four bits"
    int4.metadata_props.append(entry("tensor", "int4"))
    words = helper.make_tensor("words", TensorProto.STRING, [2], [b"one", b"two"])
    rare = [
        int4,
        words,
        helper.make_tensor("brain", TensorProto.BFLOAT16, [2], [1.5, -2.0]),
        helper.make_tensor("eight", TensorProto.FLOAT8E4M3FN, [2], [0.5, -0.25]),
        numpy_helper.from_array(np.asarray([1 + 2j], np.complex64), "complex"),
        helper.make_tensor("typed", TensorProto.FLOAT, [2], [1.0, 2.0]),
        numpy_helper.from_array(np.zeros((0, 3), np.float32), "empty"),
    ]
    graph.initializer.extend(rare)
    values = helper.make_tensor("sparse", TensorProto.FLOAT, [2], [3.0, 4.0])
    places = helper.make_tensor("places", TensorProto.INT64, [2], [1, 3])
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [5]))
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("", TensorProto.FLOAT, [1], [9.0]),
        helper.make_tensor("", TensorProto.INT64, [1], [2]),
        [4],
    )
    nodes = [
        helper.make_node("Constant", [], ["held_sparse"], "sparse_constant", sparse_value=sparse),
        helper.make_node("Constant", [], ["held_words"], "string_constant", value_strings=["a", "b"]),
        helper.make_node("SequenceConstruct", ["typed", "typed"], ["sequence"], "sequence"),
        helper.make_node(
            "Blob", ["quarter"], ["blob"], "custom", domain="com.example", floats=[0.5], strings=["x"]
        ),
        helper.make_node("StringConcat", ["words", "held_words"], ["joined"], "concat"),
    ]
    nodes[3].overload = ""
    for node in nodes:
        node.doc_string = f"about {node.name}"
        node.metadata_props.append(entry("note", node.name))
    graph.node.extend(nodes)
    model.opset_import.append(helper.make_opsetid("com.example", 3))
    graph.output.append(helper.make_tensor_value_info("joined", TensorProto.STRING, [2]))
    graph.output.append(helper.make_tensor_value_info("blob", TensorProto.FLOAT, None))
    graph.output[-1].type.tensor_type.shape.Clear()
    known = helper.make_tensor_value_info("held_words", TensorProto.STRING, [2])
    known.doc_string = "words"
    known.metadata_props.append(entry("value", "words"))
    graph.value_info.append(known)
    annotation = graph.quantization_annotation.add(tensor_name="x")
    annotation.quant_parameter_tensor_names.append(entry("SCALE_TENSOR", "typed"))


def _functions(model: ModelProto) -> None:
    """Two overloads of one function, one of them called in the main graph, both with every field."""
    for overload, op in (("up", "Neg"), ("down", "Abs")):
        function = helper.make_function(
            "local", "twist", ["u"], ["v"], [helper.make_node(op, ["u"], ["v"], f"{op}_in")],
            [helper.make_opsetid("", 21)], attributes=["unused"], overload=overload, doc_string=f"{overload}wards",
            value_info=[helper.make_tensor_value_info("v", TensorProto.FLOAT, [2])],
        )  # fmt: skip
        function.metadata_props.append(entry("overload", overload))
        function.attribute_proto.append(helper.make_attribute("steps", 3))
        model.functions.append(function)
    call = helper.make_node("twist", ["typed"], ["twisted"], "call", domain="local", overload="down")
    model.graph.node.append(call)
    model.opset_import.append(helper.make_opsetid("local", 1))
    model.graph.output.append(helper.make_tensor_value_info("twisted", TensorProto.FLOAT, [2]))


def untouched(model: ModelProto) -> ModelProto:
    """The model without the nodes, weights, imports and definitions that fusing is about."""
    rest = ModelProto()
    rest.CopyFrom(model)
    graph = rest.graph
    weights = {v for n in graph.node if n.name in TOUCHED for v in n.input[1:]}
    _without(graph.node, lambda n: n.name in TOUCHED)
    _without(
        graph.initializer,
        lambda t: t.name in weights or t.name in ("scale0", "shift0", "mean0", "var0", "W0"),
    )
    _without(rest.functions, lambda f: f.domain == "fuser")
    _without(rest.opset_import, lambda o: o.domain == "fuser")
    return rest


def _without(field: Any, unwanted: Any) -> None:
    kept = [m for m in field if not unwanted(m)]
    copies = [type(m)() for m in kept]
    for copy, message in zip(copies, kept, strict=True):
        copy.CopyFrom(message)
    del field[:]
    field.extend(copies)


def fields(message: Any, path: str = "") -> Iterator[str]:
    """The paths of all fields that are set."""
    for descriptor, value in message.ListFields():
        name = f"{path}.{descriptor.name}"
        yield name
        if descriptor.message_type is not None:
            repeated = not hasattr(value, "ListFields")
            for item in value if repeated else [value]:
                yield from fields(item, name)


@pytest.mark.parametrize("fused_as", ["function", "standard"])
def test_what_no_rule_touched_is_equal_field_for_field(fused_as: Any) -> None:
    """In memory."""
    model = every_field()
    result = fuser.fuse(model, parity=False, fused_as=fused_as)
    assert len(result.report.fusions) == 1
    assert untouched(result.model) == untouched(model)


@pytest.mark.filterwarnings("ignore:Ignoring unknown external data key")
def test_what_no_rule_touched_is_equal_in_files(tmp_path: Path) -> None:
    """From file to file, weights in external data whose entries have keys that nobody knows."""
    model = every_field()
    for tensor in model.graph.initializer:
        if tensor.name in ("W0", "typed"):
            values = numpy_helper.to_array(tensor)
            tensor.ClearField("float_data")
            tensor.raw_data = values.tobytes()
            onnx.external_data_helper.set_external_data(
                tensor, f"{tensor.name}.bin", 0, values.nbytes, checksum="abc"
            )
            (tmp_path / f"{tensor.name}.bin").write_bytes(values.tobytes())
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.append(entry("vendor_key", "vendor value"))
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    result = fuser.fuse(tmp_path / "in.onnx", parity=False)
    (tmp_path / "out").mkdir()
    result.save(tmp_path / "out" / "out.onnx")
    written = onnx.load(tmp_path / "out" / "out.onnx", load_external_data=False)
    after = next(t for t in written.graph.initializer if t.name == "typed")
    keys = {e.key: e.value for e in after.external_data}
    assert keys["vendor_key"] == "vendor value"
    onnx.load_external_data_for_model(written, str(tmp_path / "out"))
    onnx.load_external_data_for_model(model, str(tmp_path))
    for loaded in (written, model):
        for tensor in loaded.graph.initializer:
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
    assert untouched(written) == untouched(model)


def test_the_model_has_every_field_that_matters() -> None:
    """So that the tests above compare something."""
    there = set(fields(every_field()))
    wanted = {
        ".metadata_props", ".doc_string", ".domain", ".model_version", ".graph.metadata_props", ".graph.doc_string",
        ".graph.node.metadata_props", ".graph.node.doc_string", ".graph.node.overload", ".graph.value_info.metadata_props",
        ".graph.value_info.doc_string", ".graph.initializer.metadata_props", ".graph.initializer.doc_string",
        ".graph.initializer.string_data", ".graph.sparse_initializer", ".graph.quantization_annotation",
        ".graph.input.type.denotation", ".graph.input.type.tensor_type.shape.dim.denotation", ".functions.overload",
        ".functions.doc_string", ".functions.metadata_props", ".functions.attribute_proto", ".functions.value_info",
        ".graph.node.attribute.sparse_tensor", ".graph.output.type.tensor_type.shape.dim.dim_param",
    }  # fmt: skip
    assert wanted <= there


def test_provenance_says_what_the_fused_node_stands_for() -> None:
    """The fused node keeps name and output, carries what its nodes carried, and says which rule made it of which nodes."""
    model = every_field()
    fused = next(n for n in fuser.fuse(model, parity=False).model.graph.node if n.domain == "fuser")
    carried = {e.key: e.value for e in fused.metadata_props}
    assert (fused.name, list(fused.output)) == ("Conv_0", ["y"])
    assert carried["fuser.replaces"].split(", ") == ["Conv_0", "BN_0", "LeakyRelu_0"]
    assert "ConvLeakyRelu" in carried["fuser.rule"]
    assert carried["pkg.torch.onnx.name"] == "Conv_0"
    assert fused.doc_string.splitlines() == ["about Conv_0", "about BN_0", "about LeakyRelu_0"]


def test_the_definition_ships_once_and_is_the_operators_own() -> None:
    """Two sites, one FunctionProto, at the model's opset."""
    model = conv_bn_leaky(channels=(3, 4, 4), opset=18)
    fused = fuser.fuse(model, parity=False).model
    definitions: list[FunctionProto] = [f for f in fused.functions if f.domain == "fuser"]
    assert [f.name for f in definitions] == ["ConvLeakyRelu"]
    assert {o.domain: o.version for o in definitions[0].opset_import} == {"": 18}
    assert [n.op_type for n in definitions[0].node] == ["Conv", "LeakyRelu"]
