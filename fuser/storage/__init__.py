"""Weights stay on disk: a model in memory is its skeleton, and large tensors are byte ranges of their files.

``load`` reads a model, ``save`` writes one, ``from_proto`` takes one that is already in memory. Between them
the engine edits ``StoredModel.proto`` as any ModelProto; a tensor whose bytes are elsewhere carries a mark
that ``Weights`` reads.
"""

from __future__ import annotations

from fuser.storage.loader import from_proto, load
from fuser.storage.model import StoredModel, tensors
from fuser.storage.payload import Block, ByteRange, Payload
from fuser.storage.weights import Weights
from fuser.storage.writer import Written, save

__all__ = [
    "Block",
    "ByteRange",
    "Payload",
    "StoredModel",
    "Weights",
    "Written",
    "from_proto",
    "load",
    "save",
    "tensors",
]
