"""What the parameters of BatchNormalization say: never trained, or channels that are gone."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.advice.note import Note
from fuser.bodies import bodies
from fuser.report.facts import FUSED, name_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import NodeProto, TensorProto

    from fuser.storage import StoredModel

Tensors = ChainMap[str, "TensorProto"]
FAINT = 1e-3
"""A channel whose factor is smaller than this share of the median factor is as good as gone."""
EPSILON = 1e-5
"""ONNX's default for BatchNormalization's epsilon."""


def statistics_notes(model: StoredModel) -> Iterator[Note]:
    """Notes on every BatchNormalization whose parameters are constants of the model.

    Raises:
        ModelError: a parameter's bytes are damaged.
    """
    graph = model.proto.graph
    yield from _of_nodes(model, graph.node, ChainMap({t.name: t for t in graph.initializer}))
    for function in model.proto.functions:
        if function.domain != FUSED:
            yield from _of_nodes(model, function.node, ChainMap())


def _of_nodes(model: StoredModel, nodes: Iterable[NodeProto], known: Tensors) -> Iterator[Note]:
    for node in nodes:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            known[node.output[0]] = node.attribute[0].t
        elif node.op_type == "BatchNormalization" and node.domain in ("", "ai.onnx"):
            yield from _of_node(model, node, known)
        for body in bodies(node):
            yield from _of_nodes(model, body.node, known.new_child({t.name: t for t in body.initializer}))


def _of_node(model: StoredModel, node: NodeProto, known: Tensors) -> Iterator[Note]:
    tensors = [known.get(v) for v in node.input[1:5]]
    if len(tensors) != 4 or None in tensors:
        return
    parameters = [model.weights.read(t).astype(np.float64).reshape(-1) for t in tensors if t is not None]
    if len({p.size for p in parameters}) != 1 or not parameters[0].size:
        return
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), EPSILON)
    yield from _notes(name_of(node), parameters, epsilon)


def _notes(name: str, parameters: Sequence[NDArray[Any]], epsilon: float) -> Iterator[Note]:
    scale, shift, mean, variance = parameters
    channels = float(scale.size)
    if all((p == value).all() for p, value in ((mean, 0), (variance, 1), (scale, 1), (shift, 0))):
        yield Note(
            "bn-untrained",
            name,
            "mean 0, variance 1, scale 1 and shift 0 in every channel: what a new BatchNormalization has",
            "export the model after training, with its statistics loaded",
            (("channels", channels), ("mean", 0.0), ("variance", 1.0), ("scale", 1.0), ("shift", 0.0)),
        )
        return
    with np.errstate(all="ignore"):
        factors = np.abs(scale / np.sqrt(variance + epsilon))
    if not np.isfinite(factors).all():
        return
    dead = int(np.count_nonzero(factors == 0))
    median = float(np.median(factors[factors > 0])) if dead < factors.size else 0.0
    faint = int(np.count_nonzero((factors > 0) & (factors < FAINT * median)))
    if dead:
        yield Note(
            "channels-dead",
            name,
            f"the scale of {dead} of {scale.size} channels is 0: folding leaves only zeros in their weights",
            "prune the channels: they give a constant",
            (("channels", channels), ("with scale 0", float(dead))),
        )
    if faint:
        yield Note(
            "channels-faint",
            name,
            f"the scale of {faint} of {scale.size} channels is less than {FAINT:g} of the median channel's",
            "prune the channels if the outputs allow it",
            (
                ("channels", channels),
                ("faint", float(faint)),
                ("smallest factor", float(factors[factors > 0].min())),
                ("median factor", median),
            ),
        )
