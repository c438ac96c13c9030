"""Models for the storage tests: random ones, one with every kind of field, and ones with external data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from hypothesis import strategies as st
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

from fuser.storage import tensors as tensors_of

BITS = {1: 32, 2: 8, 3: 8, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 16: 16, 21: 4, 22: 4}
HOLDERS = {"TensorProto", "GraphProto", "NodeProto", "AttributeProto", "SparseTensorProto", "FunctionProto"}
# Fields of a later onnx: number 1000, a string, and number 1001, a group.
UNKNOWN = b"\xc2\x3e\x03new\xcb\x3e\x10\x07\xcc\x3e"


@st.composite
def tensors(draw: st.DrawFn) -> TensorProto:
    """Raw, typed and string tensors of up to 100 bytes."""
    dims = draw(st.lists(st.integers(0, 4), max_size=3))
    tensor = TensorProto(dims=dims, name=draw(st.text(max_size=3)))
    kind = draw(st.sampled_from(["raw", "raw", "float", "int", "string"]))
    if kind == "raw":
        tensor.data_type = draw(st.sampled_from(sorted(BITS)))
        size = (int(np.prod(dims)) * BITS[tensor.data_type] + 7) // 8
        tensor.raw_data = draw(st.binary(min_size=size, max_size=size))
    elif kind == "float":
        tensor.data_type = TensorProto.FLOAT
        tensor.float_data.extend(draw(st.lists(st.floats(width=32, allow_nan=False), max_size=9)))
    elif kind == "int":
        tensor.data_type = TensorProto.INT32
        tensor.int32_data.extend(draw(st.lists(st.integers(-5, 1 << 30), max_size=9)))
    else:
        tensor.data_type = TensorProto.STRING
        tensor.string_data.extend(draw(st.lists(st.binary(max_size=5), max_size=3)))
    if draw(st.booleans()):
        tensor.doc_string = draw(st.sampled_from(["doc", "\n\x08location"]))
        tensor.metadata_props.add(key="k", value="v")
    return tensor


def _repeated(field: object) -> bool:
    known = getattr(field, "is_repeated", None)
    return field.label == 3 if known is None else known  # type: ignore[attr-defined]


def _values(draw: st.DrawFn, field: object, budget: list[int]) -> object:
    """One value of a field."""
    if field.message_type:
        return _message(draw, field.message_type._concrete_class, budget)
    if field.enum_type:
        return draw(st.sampled_from([value.number for value in field.enum_type.values]))
    if field.type == field.TYPE_BYTES:
        return draw(st.binary(max_size=4))
    return draw(
        {
            field.CPPTYPE_INT32: st.integers(-5, 9),
            field.CPPTYPE_INT64: st.integers(-5, 1 << 40),
            field.CPPTYPE_FLOAT: st.sampled_from([0.0, 1.5, -3.25]),
            field.CPPTYPE_STRING: st.sampled_from(["", "a", "ü", "\n\x08location", "onnx-fuser.payload"]),
        }[field.cpp_type]
    )


def _message(draw: st.DrawFn, kind: type, budget: list[int]) -> object:
    """Any message with any of its fields, read from its descriptor: later fields of onnx are covered."""
    if kind is TensorProto:
        return draw(tensors())
    message = kind()
    fields = st.sampled_from(list(kind.DESCRIPTOR.fields))
    # Half of the draws go where tensors can be.
    ways = [
        field for field in kind.DESCRIPTOR.fields if field.message_type and field.message_type.name in HOLDERS
    ]
    if ways:
        fields = st.sampled_from(ways) | fields
    for field in draw(st.lists(fields, max_size=4)):
        budget[0] -= 1
        if budget[0] < 0:
            break
        if _repeated(field):
            getattr(message, field.name).append(_values(draw, field, budget))
        elif field.message_type:
            getattr(message, field.name).CopyFrom(_values(draw, field, budget))
        else:
            setattr(message, field.name, _values(draw, field, budget))
    if draw(st.integers(0, 5)) == 5:
        message.MergeFromString(UNKNOWN)
    return message


@st.composite
def models(draw: st.DrawFn) -> ModelProto:
    """Random models that are models: with a graph and an opset."""
    model = _message(draw, ModelProto, [30])
    model.graph.SetInParent()
    model.opset_import.add(version=17)
    return model


def array(*shape: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def everything() -> ModelProto:
    """A model with a large tensor in every place, and with every kind of field around them."""
    large = numpy_helper.from_array(array(64, 80), "large")
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(array(5000), "sparse"), numpy_helper.from_array(np.arange(5000)), [9000]
    )
    inner = helper.make_graph([], "inner", [], [helper.make_tensor_value_info("w", 1, [64, 80])], [large])
    inner.initializer[0].name = "w"
    nodes = [
        helper.make_node("Constant", [], ["c"], "constant", value=large, doc_string="a node"),
        helper.make_node("Constant", [], ["s"], sparse_value=sparse),
        helper.make_node("If", ["cond"], ["i"], "branches", then_branch=inner, else_branch=inner),
        helper.make_node("Custom", ["c"], ["d"], domain="custom", overload="o", tensors=[large, large]),
        helper.make_node("Many", ["c"], ["e"], domain="custom", graphs=[inner], ints=list(range(9000))),
    ]
    nodes[0].metadata_props.add(key="exporter", value="test")
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", 1, ["N", 3], "an input", ["DATA_BATCH", "DATA_CHANNEL"])],
        [helper.make_tensor_value_info("d", 1, None)],
        [
            large,
            numpy_helper.from_array(np.array(["a", "ü"], dtype=object), "strings"),
            TensorProto(name="int4", data_type=TensorProto.INT4, dims=[40001], raw_data=bytes(20001)),
            helper.make_tensor("typed", 1, [9000], array(9000)),
            helper.make_tensor("bool", 9, [], [True]),
        ],
        "a graph",
        [helper.make_tensor_value_info("c", 1, [64, 80])],
        sparse_initializer=[sparse],
    )
    graph.initializer[0].doc_string = "a weight"
    graph.initializer[0].metadata_props.add(key="layout", value="OIHW")
    graph.value_info[0].metadata_props.add(key="k", value="v")
    graph.metadata_props.add(key="k", value="v")
    graph.quantization_annotation.add(tensor_name="x").quant_parameter_tensor_names.add(
        key="SCALE", value="s"
    )
    opset = [helper.make_opsetid("", 21), helper.make_opsetid("custom", 1)]
    function = helper.make_function(
        "custom",
        "Custom",
        ["a"],
        ["b"],
        [helper.make_node("Constant", [], ["b"], value=large)],
        opset,
        overload="o",
    )
    default = AttributeProto(name="default", type=AttributeProto.TENSOR, t=large)
    function.attribute_proto.append(default)
    model = helper.make_model(graph, functions=[function], opset_imports=opset, ir_version=10)
    model.producer_name, model.doc_string, model.domain, model.model_version = "p", "a model", "org", 7
    model.metadata_props.add(key="author", value="test")
    model.training_info.add().algorithm.CopyFrom(inner)
    model.MergeFromString(UNKNOWN)
    model.graph.initializer[0].MergeFromString(UNKNOWN)
    return model


def external(
    folder: Path,
    name: str = "model.onnx",
    *,
    location: str = "model.data",
    count: int = 3,
    align: int = 1,
    keys: tuple[str, ...] = ("offset", "length"),
    extra: tuple[tuple[str, str], ...] = (),
) -> ModelProto:
    """Write x + w0 + w1 … with external w's (their number is ``{}`` in the location); returns it inline."""
    weights = [array(1, 100 + index, 4, seed=index) for index in range(count)]
    model = chain(weights)
    stored = ModelProto()
    stored.CopyFrom(model)
    files: dict[str, bytearray] = {}
    for index, tensor in enumerate(stored.graph.initializer):
        where = location.format(index)
        data = files.setdefault(where, bytearray())
        data += bytes(-len(data) % align)
        values = {"location": where, "offset": str(len(data)), "length": str(len(tensor.raw_data))}
        values = {key: value for key, value in values.items() if key == "location" or key in keys}
        data += tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (*values.items(), *extra):
            tensor.external_data.add(key=key, value=value)
    folder.mkdir(exist_ok=True)
    for where, data in files.items():
        (folder / where).parent.mkdir(exist_ok=True)
        (folder / where).write_bytes(data)
    (folder / name).write_bytes(stored.SerializeToString())
    return model


def chain(weights: list[np.ndarray]) -> ModelProto:
    """A model that sums the first element of each weight onto its input."""
    nodes, value = [], "x"
    for index in range(len(weights)):
        nodes.append(helper.make_node("ReduceSum", [f"w{index}"], [f"r{index}"], f"sum{index}", keepdims=0))
        nodes.append(helper.make_node("Add", [value, f"r{index}"], [f"y{index}"], f"add{index}"))
        value = f"y{index}"
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", 1, [2])],
        [helper.make_tensor_value_info(value, 1, [2])],
        [numpy_helper.from_array(weight, f"w{index}") for index, weight in enumerate(weights)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def listing(folder: Path) -> dict[str, bytes]:
    """Every file under a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def loaded(path: Path) -> ModelProto:
    """What onnx itself reads, external data included."""
    model = onnx.load(path)
    for tensor in tensors_of(model):
        tensor.ClearField("data_location")  # which onnx.load leaves behind, as its default
    return model


def run(path: Path) -> np.ndarray:
    """What onnxruntime computes for x = [1, 2]."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.array([1.0, 2.0], np.float32)})[0]
