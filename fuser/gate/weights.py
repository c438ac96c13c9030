"""Digests of weights as the model has them, before anything is folded: the same on any machine."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from onnx import NodeProto, TensorProto, numpy_helper

from fuser.report.facts import name_of, nodes_of
from fuser.storage import StoredModel, tensors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fuser.report import Fusion

LENGTH = 16
"""Hex digits: 64 bits tell a changed tensor from an unchanged one."""


def digests(stored: StoredModel, fusions: Iterable[Fusion]) -> tuple[str, dict[str, str]]:
    """A digest of all weights of the model, and of those that the nodes of each fusion read, by its key.

    Names don't count, so that an exporter that only names things anew changes nothing.
    """
    graph_tensors = [t for t in tensors(stored.proto) if t.data_type != TensorProto.STRING]
    by_name = {t.name: _digest(stored, t) for t in graph_tensors if t.name}
    everything = _joined(by_name[t.name] if t.name else _digest(stored, t) for t in graph_tensors)
    nodes: dict[str, NodeProto] = {}
    for node in nodes_of(stored.proto):
        nodes.setdefault(name_of(node), node)
        if node.op_type == "Constant":
            value = next((a.t for a in node.attribute if a.HasField("t")), None)
            if value is not None:
                by_name[node.output[0]] = _digest(stored, value)
    return everything, {key(f): _joined(_read(f, nodes, by_name)) for f in fusions}


def key(fusion: Fusion) -> str:
    """What a site is called in the baseline: its output, and the graph where that is not the main one."""
    return f"{fusion.output} in {fusion.graph}" if fusion.graph else fusion.output


def _read(fusion: Fusion, nodes: Mapping[str, NodeProto], by_name: Mapping[str, str]) -> list[str]:
    read = [value for name in fusion.nodes if name in nodes for value in nodes[name].input]
    return [by_name[value] for value in read if value in by_name]


def _joined(found: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()[:LENGTH]


def _digest(stored: StoredModel, tensor: TensorProto) -> str:
    digest = hashlib.sha256(f"{tensor.data_type} {list(tensor.dims)} ".encode())
    payload = stored.weights.payload(tensor)
    if payload is not None:
        for chunk in payload.chunks():
            digest.update(chunk)
    elif tensor.HasField("raw_data"):
        digest.update(tensor.raw_data)
    else:
        digest.update(numpy_helper.to_array(tensor).tobytes())
    return digest.hexdigest()
