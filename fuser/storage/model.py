"""A model in memory: the skeleton, and its weights wherever they are."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onnx.onnx_ml_pb2 import ModelProto

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from onnx.onnx_ml_pb2 import AttributeProto, GraphProto, NodeProto, TensorProto

    from fuser.storage.payload import Payload
    from fuser.storage.weights import Weights


@dataclass
class StoredModel:
    """``proto`` is the skeleton: every tensor in it is small, large ones are marked and found through
    ``weights``."""

    proto: ModelProto
    weights: Weights
    path: Path | None
    source: Payload  # the bytes the model was made from
    _digests: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    @property
    def sha256(self) -> str:
        """Hex digest of the model's file, as ``sha256sum`` prints it; of a model from memory, of its
        serialized bytes.

        Computed when first asked for, which reads the file. External data are not part of it.
        """
        return self._digest("", self.source)

    @property
    def data_sha256(self) -> dict[str, str]:
        """Hex digest of each external data file of the source, by the location its tensors give."""
        return {location: self._digest(location, file) for location, file in self.weights.sources.items()}

    def _digest(self, key: str, payload: Payload) -> str:
        if key not in self._digests:
            digest = hashlib.sha256()
            for block in payload.chunks():
                digest.update(block)
            self._digests[key] = digest.hexdigest()
        return self._digests[key]

    def materialize(self) -> ModelProto:
        """A ModelProto of its own with all bytes inline, external data included; maybe larger than 2 GiB."""
        whole = ModelProto()
        whole.CopyFrom(self.proto)
        for tensor in tensors(whole):
            payload = self.weights.payload(tensor)
            if payload is not None:
                self.weights.detach(tensor)
                tensor.raw_data = b"".join(payload.chunks())
        return whole


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every TensorProto of a model: initializers, attributes, sparse parts, in subgraphs, functions and
    training info."""
    yield from _of_graph(model.graph)
    for training in model.training_info:
        yield from _of_graph(training.initialization)
        yield from _of_graph(training.algorithm)
    for function in model.functions:
        yield from _of_nodes(function.node)
        yield from _of_attributes(function.attribute_proto)


def _of_graph(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        if node.attribute:
            yield from _of_attributes(node.attribute)


def _of_attributes(attributes: Iterable[AttributeProto]) -> Iterator[TensorProto]:
    # HasField before access: reading an absent submessage builds one, and there are many attributes.
    for attribute in attributes:
        if attribute.HasField("t"):
            yield attribute.t
        if attribute.HasField("g"):
            yield from _of_graph(attribute.g)
        if attribute.HasField("sparse_tensor"):
            yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
        yield from attribute.tensors
        for graph in attribute.graphs:
            yield from _of_graph(graph)
        for sparse in attribute.sparse_tensors:
            yield from (sparse.values, sparse.indices)
