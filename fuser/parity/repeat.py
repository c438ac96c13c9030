"""What a model may give anew on every run: random values, and state that onnxruntime keeps from run to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import numpy_helper

from fuser.parity.scopes import constant, scopes
from fuser.parity.source import standard_nodes

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from fuser.parity.runner import Engine, Worker
    from fuser.parity.scopes import Scope
    from fuser.parity.source import Source

RANDOM = {
    *("Bernoulli", "Multinomial"),
    *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
}


def load(worker: Worker, engine: Engine, source: Source) -> str:
    """Load a model so that no run depends on the runs before it; returns the judge's name.

    Raises EngineError and WorkerDiedError as ``Worker.load`` does.
    """
    fresh = has_random(source.proto) or keeps_state(source.proto)
    return worker.load(engine, source.path, fresh=fresh)


def has_random(model: ModelProto) -> bool:
    """Whether an operator of the model may give something else on every run."""
    found = {node.op_type for _, node in standard_nodes(model)}
    return bool(found & RANDOM) or ("Dropout" in found and any(map(_has_dropout, scopes(model).values())))


def keeps_state(model: ModelProto) -> bool:
    """Whether a BatchNormalization trains: onnxruntime updates its running statistics in place, in the weights
    that the session keeps, so each run starts from what the run before it left."""
    return any(
        attribute.name == "training_mode" and (attribute.i or attribute.ref_attr_name)
        for _, node in standard_nodes(model)
        if node.op_type == "BatchNormalization"
        for attribute in node.attribute
    )


def _has_dropout(scope: Scope) -> bool:
    """Whether a Dropout in this graph is in training, or may be."""
    return any(node.op_type == "Dropout" and _trains(node, scope) for node in scope.nodes)


def _trains(node: NodeProto, scope: Scope) -> bool:
    """By the third input. No engine runs a Dropout of before opset 7, where an attribute said so."""
    if len(node.input) < 3 or not node.input[2]:
        return False
    training = constant(scope, node.input[2])
    return training is None or bool(numpy_helper.to_array(training).any())
