"""Every BatchNormalization and LeakyRelu that still stands within reach of an anchor must have a reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

if TYPE_CHECKING:
    from fuser.pipeline import Rewritten

ANCHORS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
FUSED = frozenset({"ConvLeakyRelu", "ConvTransposeLeakyRelu", "GemmLeakyRelu"})
PASSED = frozenset({"Identity", "Dropout", "Cast", "Transpose", "BatchNormalization"})
"""What an affine operator or an activation may be moved past."""
FARTHEST = 8


def unexplained(model: ModelProto, done: Rewritten) -> list[str]:
    """What stands there unfused and unexplained, a sentence each."""
    told = {d.node for d in done.declined}
    written = {f.output for f in done.fusions}
    found: list[str] = []
    graphs: list[GraphProto | FunctionProto] = [
        *(f for f in model.functions if f.domain != "fuser"),
        *_graphs(model.graph),
    ]
    for graph in graphs:
        producer = {o: n for n in graph.node for o in n.output}
        for node in _live(graph):
            if node.op_type in ("BatchNormalization", "LeakyRelu") and node.output[0] not in written:
                chain = _up(node, producer, ANCHORS)
            elif node.op_type in ANCHORS | FUSED:
                chain = _up(node, producer, frozenset({"BatchNormalization"}))
            else:
                continue
            weights = _above([v for c in chain for v in c.input[1:]], producer)
            if chain and not told.intersection(n for c in (*chain, *weights) for n in _names(c)):
                found.append(f"{_shown(chain[0])} and {_shown(chain[-1])} before it: no reason")
    return found


def _up(node: NodeProto, producer: dict[str, NodeProto], ends: frozenset[str]) -> list[NodeProto]:
    """The nodes from this one up to the first of ``ends`` that only what may be passed separates from it; [] without one."""
    chain = [node]
    for _ in range(FARTHEST):
        above = producer.get(chain[-1].input[0]) if chain[-1].input else None
        if above is None:
            return []
        chain.append(above)
        if above.op_type in ends:
            return chain
        if above.op_type not in PASSED:
            return []
    return []


def _above(values: list[str], producer: dict[str, NodeProto]) -> list[NodeProto]:
    """The nodes that the values are computed by, some of them at least: what keeps a weight from being known may stand there."""
    found: list[NodeProto] = []
    while values and len(found) < 8 * FARTHEST:
        node = producer.get(values.pop(0))
        if node is not None:
            found.append(node)
            values.extend(node.input)
    return found


def _names(node: NodeProto) -> Iterator[str]:
    """What reasons may call the node: its name, its values, and the nodes that it stands for."""
    yield node.name or node.output[0]
    yield from node.output
    for entry in node.metadata_props:
        if entry.key == "fuser.replaces":
            yield from entry.value.split(", ")


def _shown(node: NodeProto) -> str:
    return f"{node.op_type} {node.name or node.output[0]!r}"


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for a in node.attribute:
            if a.type == AttributeProto.GRAPH:
                yield from _graphs(a.g)


def _live(graph: GraphProto | FunctionProto) -> list[NodeProto]:
    """The nodes that reach an output."""
    wanted = set(graph.output) if isinstance(graph, FunctionProto) else {o.name for o in graph.output}
    live = []
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            live.append(node)
            wanted.update(node.input)
            for a in node.attribute:
                if a.type == AttributeProto.GRAPH:
                    wanted.update(v for g in _graphs(a.g) for n in g.node for v in n.input)
                    wanted.update(o.name for o in a.g.output)
    return live[::-1]
