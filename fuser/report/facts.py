"""What a model consists of: nodes by operator, bytes of weights, fused operators and where they came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from math import prod
from typing import Any

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from fuser.bodies import bodies
from fuser.errors import ModelError

FUSED = "fuser"


@dataclass(frozen=True)
class Facts:
    """Counts over the main graph, bodies and functions, but not the definitions of fused operators."""

    nodes: int
    initializer_bytes: int
    operators: Mapping[str, int]
    ir_version: int

    @classmethod
    def of(cls, model: ModelProto) -> Facts:
        """Count the model.

        Raises:
            ModelError: a name is no text, or an initializer's element type does not exist.
        """
        graphs = list(graphs_of(model))
        nodes = [node for graph in graphs for node in graph.node]
        kinds = Counter(operator_name(n.domain, n.op_type) for n in nodes)
        _refuse_bytes((*kinds, *map(name_of, nodes)))
        return cls(
            nodes=len(nodes),
            initializer_bytes=sum(_initializer_bytes(g) for g in graphs if isinstance(g, GraphProto)),
            operators=dict(sorted(kinds.items())),
            ir_version=model.ir_version,
        )


@dataclass(frozen=True)
class FusedNode:
    """A fused operator in a model, and what its ``metadata_props`` say of where it came from."""

    op: str
    name: str
    rules: str
    replaces: str


@dataclass(frozen=True)
class ModelSummary:
    """A model as ``inspect`` shows it."""

    path: str
    sha256: str
    ir_version: int
    opsets: Mapping[str, int]
    producer: str
    nodes: int
    operators: Mapping[str, int]
    initializers: int
    initializer_bytes: int
    functions: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    fused: tuple[FusedNode, ...]

    def to_json(self) -> dict[str, Any]:
        """Dicts, lists, strings and numbers."""
        found = asdict(self)
        found["inputs"], found["outputs"] = dict(self.inputs), dict(self.outputs)
        return found


def summary(model: ModelProto, path: str, sha256: str) -> ModelSummary:
    """What the model consists of."""
    facts = Facts.of(model)
    constants = {t.name for t in model.graph.initializer}
    return ModelSummary(
        path=path,
        sha256=sha256,
        ir_version=model.ir_version,
        opsets={o.domain or "ai.onnx": o.version for o in model.opset_import},
        producer=f"{model.producer_name} {model.producer_version}".strip(),
        nodes=facts.nodes,
        operators=facts.operators,
        initializers=len(model.graph.initializer),
        initializer_bytes=facts.initializer_bytes,
        functions=tuple(
            f"{f.domain}::{f.name}" + (f":{f.overload}" if f.overload else "") for f in model.functions
        ),
        inputs=tuple((v.name, _type(v.type)) for v in model.graph.input if v.name not in constants),
        outputs=tuple((v.name, _type(v.type)) for v in model.graph.output),
        fused=tuple(_fused(node) for node in nodes_of(model) if node.domain == FUSED),
    )


def graphs_of(model: ModelProto) -> Iterator[GraphProto | FunctionProto]:
    """The model's graph, its functions but the definitions of fused operators, and every body in these."""
    stack: list[GraphProto | FunctionProto] = [
        model.graph,
        *(f for f in model.functions if f.domain != FUSED),
    ]
    while stack:
        graph = stack.pop()
        yield graph
        for node in graph.node:
            stack += bodies(node)


def nodes_of(model: ModelProto) -> Iterator[NodeProto]:
    """Every node of the graphs of the model."""
    for graph in graphs_of(model):
        yield from graph.node


def names_in(model: ModelProto) -> set[str]:
    """The names of all nodes and of the values they make.

    Raises:
        ModelError: a name is no text.
    """
    found = {name for node in nodes_of(model) for name in (node.name, *node.output) if name}
    _refuse_bytes(found)
    return found


def refuse_damaged(model: ModelProto) -> None:
    """Look at every name of the model; too slow to be done before there is a sign of damage.

    Raises:
        ModelError: one is no text.
    """
    graph = model.graph
    for node in nodes_of(model):
        _refuse_bytes((node.op_type, node.domain, node.name, *node.input, *node.output))
        _refuse_bytes(attribute.name for attribute in node.attribute)
    _refuse_bytes(named.name for field in (graph.input, graph.output, graph.value_info) for named in field)
    _refuse_bytes(tensor.name for tensor in graph.initializer)


def _refuse_bytes(names: Iterable[str]) -> None:
    """Protobuf gives bytes where a string is not UTF-8."""
    wrong = next((name for name in names if isinstance(name, bytes)), None)
    if wrong is not None:
        raise ModelError(
            f"the model is damaged: {wrong!r} in it is no text; export it again, or copy it again"
        )


def operator_name(domain: str, op_type: str) -> str:
    """The operator as reports name it: ``Conv``, or ``fuser::ConvLeakyRelu``."""
    return op_type if domain in ("", "ai.onnx") else f"{domain}::{op_type}"


def name_of(node: NodeProto) -> str:
    """What people call the node: its name, or the first value it makes where it has none."""
    return node.name or next((o for o in node.output if o), "")


def _initializer_bytes(graph: GraphProto) -> int:
    """Bytes of the initializers of a graph, by shape and type; strings count nothing.

    Raises:
        ModelError: an element type does not exist.
    """
    total = 0
    for tensor in graph.initializer:
        try:
            total += prod(tensor.dims[:]) * _item_bytes(tensor.data_type)
        except KeyError:
            problem = (
                f"initializer {tensor.name!r} has element type {tensor.data_type}, which ONNX does not have"
            )
            raise ModelError(f"{problem}; export the model again") from None
    return total


@cache
def _item_bytes(dtype: int) -> int:
    return 0 if dtype == TensorProto.STRING else helper.tensor_dtype_to_np_dtype(dtype).itemsize


def _fused(node: NodeProto) -> FusedNode:
    props = {p.key: p.value for p in node.metadata_props}
    return FusedNode(
        node.op_type, name_of(node), props.get("fuser.rule", ""), props.get("fuser.replaces", "")
    )


def _type(given: Any) -> str:
    if not given.HasField("tensor_type"):
        return str(given.WhichOneof("value") or "no type").removesuffix("_type")
    tensor = given.tensor_type
    names = {number: name.lower() for name, number in TensorProto.DataType.items()}
    kind = str(names.get(tensor.elem_type, f"type {tensor.elem_type}"))
    if not tensor.HasField("shape"):
        return kind
    dims = (str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim)
    return f"{kind}[{', '.join(dims)}]"
