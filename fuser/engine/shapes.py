"""Shapes and element types of values, no more exactly than rules need them.

What follows from the weights comes first, then onnx's shape inference on the model without its value_info, which may be
stale; only what neither knows is taken from value_info.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    TypeProto,
    helper,
    numpy_helper,
    shape_inference,
)

from fuser.engine.schema import ELEMENTWISE, a_type, schema
from fuser.engine.spatial import FREE, convolved, transposed

if TYPE_CHECKING:
    from fuser.engine.context import Context
    from fuser.engine.graph import Graph
    from fuser.engine.node import Node

Shape = tuple[int, ...]
"""Dims; -1 where a dim is not known."""
SAME = frozenset(
    {"Abs", "BatchNormalization", "Cast", "CastLike", "Clip", "Dropout", "Elu", "Exp", "Identity", "InstanceNormalization",
     "LeakyRelu", "Neg", "PRelu", "Relu", "Sigmoid", "Softplus", "Sqrt", "Tanh"}
)  # fmt: skip
"""Operators whose first output has their first input's shape."""
TYPED_BY = {"DequantizeLinear": 1, "QuantizeLinear": 2, "Where": 1}
DEEPEST = 64
NOT_TYPED_BY_INPUT = frozenset(
    {"And", "Cast", "CastLike", "Constant", "ConstantOfShape", "Equal", "Greater", "GreaterOrEqual", "If",
     "Less", "LessOrEqual", "Loop", "Not", "Or", "Scan", "Shape", "Size"}
)  # fmt: skip


class Shapes:
    """Answers of one model, remembered by graph and value; a value keeps its shape as long as it keeps its name."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._shapes: dict[tuple[int, str], Shape | None] = {}
        self._inferred: dict[str, TypeProto] | None = None
        self._stated: dict[int, dict[str, TypeProto]] = {}
        self._dtypes: dict[tuple[int, str], int] = {}

    def shape(self, graph: Graph, value: str, depth: int = 0) -> Shape | None:
        """The value's shape, a dim that is not known being -1; None where not even the rank is known."""
        key = (id(graph), value)
        if key not in self._shapes:
            found = self._of_weights(graph, value, depth) if depth < DEEPEST else None
            if found is None:
                found = _dims(self._type(graph, value))
            if found is None and depth >= DEEPEST:
                return None
            if found is None:
                found = self._of_node(graph, value, depth)
            self._shapes[key] = found
        return self._shapes[key]

    def _of_weights(self, graph: Graph, value: str, depth: int) -> Shape | None:
        """What the producer and its constants say of the shape."""
        const_shape = self._constant_shape(graph, value)
        if const_shape is not None:
            return const_shape
        home = graph.home(value)
        if home is not graph and home is not None:
            return self.shape(home, value, depth + 1)
        node = graph.producer.get(value)
        if node is None or node.outputs[0] != value or node.kind[0] not in ("", "fuser"):
            return None
        op = node.op_type
        if op in SAME or op == "Affine":
            return self.shape(graph, node.inputs[0], depth + 1)
        if op in ELEMENTWISE:
            return _broadcast([self.shape(graph, v, depth + 1) for v in node.inputs])
        if op.startswith("Conv") and len(node.inputs) > 1:
            return self._convolution(graph, node, depth)
        if op == "Transpose":
            return self._transpose(graph, node, depth)
        if op in ("Gemm", "GemmLeakyRelu", "MatMul") and len(node.inputs) > 1:
            return self._matrix_product(graph, node, depth)
        return None

    def _constant_shape(self, graph: Graph, value: str) -> Shape | None:
        home = graph.home(value)
        if home is None:
            return None
        if value in home.made_constants:
            return home.made_constants[value].shape
        tensor = home.initializers.get(value)
        if tensor is not None:
            return tuple(tensor.dims[:])
        node = home.producer.get(value)
        const = home.constant(value) if node is not None and node.kind == ("", "Constant") else None
        return None if const is None else const.shape

    def _convolution(self, graph: Graph, node: Node, depth: int) -> Shape | None:
        """[N, M, …] by the weight: M is its first dim, for ConvTranspose its second times the group."""
        const = graph.constant(node.inputs[1])
        w = self.shape(graph, node.inputs[1], depth + 1) if const is None else const.shape
        if w is None or len(w) < 3:
            return None
        x = self.shape(graph, node.inputs[0], depth + 1)
        group = graph.attribute(node, "group")
        channels = w[0] if "Transpose" not in node.op_type else w[1] * (group.i if group is not None else 1)
        if x is None or len(x) != len(w):
            return (FREE, channels, *[FREE] * (len(w) - 2))
        if "Transpose" in node.op_type:
            return (x[0], channels, *transposed(node.attributes, x[2:], w[2:]))
        return (x[0], channels, *convolved(node.attributes, x[2:], w[2:]))

    def _matrix_product(self, graph: Graph, node: Node, depth: int) -> Shape | None:
        """Gemm gives [M, N], MatMul by a matrix its first operand's shape with N for the last dim."""
        a = self.shape(graph, node.inputs[0], depth + 1)
        b = self.shape(graph, node.inputs[1], depth + 1)
        columns = FREE
        if b is not None and len(b) == 2:
            turned = graph.attribute(node, "transB") if node.op_type != "MatMul" else None
            columns = b[0] if turned is not None and turned.i else b[1]
        if node.op_type != "MatMul":
            turned = graph.attribute(node, "transA")
            rows = FREE if a is None or len(a) != 2 else a[1] if turned is not None and turned.i else a[0]
            return (rows, columns)
        if a is None or b is None or len(a) < 2 or len(b) != 2:
            return None
        return (*a[:-1], columns)

    def _transpose(self, graph: Graph, node: Node, depth: int) -> Shape | None:
        x = self.shape(graph, node.inputs[0], depth + 1)
        perm = node.attributes.get("perm")
        if x is None or (
            perm is not None and (perm.ref_attr_name or sorted(perm.ints) != list(range(len(x))))
        ):
            return None
        return tuple(x[k] for k in perm.ints) if perm is not None else x[::-1]

    def _of_node(self, graph: Graph, value: str, depth: int) -> Shape | None:
        """What onnx infers for the one node that makes the value: in bodies and opened functions nothing else is known."""
        home = graph.home(value)
        node = None if home is None else home.producer.get(value)
        if (
            node is None
            or home is None
            or any(a.ref_attr_name or a.HasField("g") for a in node.attributes.values())
        ):
            return None
        domain, op = node.kind
        found = schema(op, home.opset(domain), domain)
        if found is None:
            return None
        types: dict[str, TypeProto] = {}
        data: dict[str, TensorProto] = {}
        for k, v in enumerate(node.inputs):
            if not v:
                continue
            shape = self.shape(home, v, depth + 1)
            dims = None if shape is None else [None if d == FREE else d for d in shape]
            types[v] = helper.make_tensor_type_proto(
                self.dtype(home, v) or a_type(op, home.opset(domain), k), dims
            )
            const = home.constant(v) if shape is not None and len(shape) < 2 else None
            if const is not None and not const.is_float and not const.is_partial:
                data[v] = numpy_helper.from_array(const.native(), v)
        proto = NodeProto(
            op_type=op,
            domain=domain,
            input=node.inputs,
            output=node.outputs,
            attribute=node.attributes.values(),
        )
        imports = [OperatorSetIdProto(domain=d, version=n) for d, n in home.opsets.items()]
        try:
            inferred = shape_inference.infer_node_outputs(found, proto, types, data, opset_imports=imports)
        except Exception:
            return None  # the model contradicts itself here, or onnx can't tell
        return _dims(inferred.get(value))

    def dtype(self, graph: Graph, value: str, depth: int = 0) -> int:
        """The value's element type, 0 where it is not known."""
        key = (id(graph), value)
        if not self._dtypes.get(key):
            self._dtypes[key] = self._dtype(graph, value, depth)
        return self._dtypes[key]

    def _dtype(self, graph: Graph, value: str, depth: int) -> int:
        home = graph.home(value)
        if home is None or depth > DEEPEST:
            return 0
        if value in home.made_constants:
            return home.made_constants[value].dtype
        tensor = home.initializers.get(value)
        if tensor is not None:
            return tensor.data_type
        node = home.producer.get(value)
        if node is not None:
            if node.kind == ("", "Cast"):
                return node.attributes["to"].i
            if node.kind == ("", "CastLike"):
                return self.dtype(home, node.inputs[1], depth + 1)
            if node.kind == ("", "Constant"):
                found = home.constant(value)
                return 0 if found is None else found.dtype
            if (
                node.kind[0] in ("", "fuser")
                and node.outputs[0] == value
                and node.op_type not in NOT_TYPED_BY_INPUT
            ):
                at = 1 if "Conv" in node.op_type or "Gemm" in node.op_type else TYPED_BY.get(node.op_type, 0)
                if at < len(node.inputs):
                    found_type = self.dtype(home, node.inputs[at], depth + 1)
                    if found_type:
                        return found_type
        stated = self._type(home, value)
        return 0 if stated is None else stated.tensor_type.elem_type

    def _type(self, graph: Graph, value: str) -> TypeProto | None:
        """What shape inference, else value_info, says of a value that the model itself names."""
        stated = self._stated.get(id(graph))
        if stated is None:
            stated = self._stated[id(graph)] = _stated_types(graph.proto)
        if value in graph.inputs and value in stated:
            return stated[value]
        if graph.is_function or graph.parent is not None:
            return stated.get(value)
        if self._inferred is None:
            self._inferred = self._infer()
        return self._inferred.get(value) or stated.get(value)

    def _infer(self) -> dict[str, TypeProto]:
        """onnx's shape inference over the main graph, once; nothing where it fails."""
        bare = ModelProto()
        bare.CopyFrom(self.context.stored.proto)
        del bare.graph.value_info[:]
        try:
            inferred = shape_inference.infer_shapes(bare, data_prop=True)
        except Exception:
            return {}
        return _stated_types(inferred.graph)


def _stated_types(proto: GraphProto | FunctionProto) -> dict[str, TypeProto]:
    if isinstance(proto, FunctionProto):
        return {v.name: v.type for v in proto.value_info}
    return {v.name: v.type for vs in (proto.value_info, proto.output, proto.input) for v in vs}


def _dims(kind: TypeProto | None) -> Shape | None:
    if kind is None or not kind.tensor_type.HasField("shape"):
        return None
    return tuple(d.dim_value if d.HasField("dim_value") else FREE for d in kind.tensor_type.shape.dim)


def _broadcast(shapes: list[Shape | None]) -> Shape | None:
    """The shape of an elementwise result; a dim is known where the operands leave one possibility."""
    out: Shape = ()
    for s in shapes:
        if s is None:
            return None
        rank = max(len(s), len(out))
        a, b = ((1,) * (rank - len(v)) + v for v in (out, s))
        out = tuple(_dim(x, y) for x, y in zip(a, b, strict=True))
    return out


def _dim(x: int, y: int) -> int:
    """The dim of two that are broadcast: one of them is 1 or both are equal."""
    if x in (1, y):
        return y
    if y in (1, FREE):
        return x
    return y if x == FREE else FREE
