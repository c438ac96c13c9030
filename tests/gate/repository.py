"""A repository of someone who exports models and gates them: two models, limits, an agreed baseline."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper

from tests.builders import conv_bn_leaky, tensor
from tests.cli.running import Done, onnx_fuser

LIMITS = """\
fusions = "all"
batch-normalizations = 0
tolerance = 1e-5
refuse-reasons = ["*training*"]
targets = ["atc"]
weights = "locked"
max-size-increase = 0.05

[models."exports/gen*.onnx"]
tolerance = 1e-4

[[accept]]
model = "exports/generator.onnx"
finding = "unfused"
reason = "the last layer is fused by the firmware"
expires = 2999-12-31
"""


@dataclass(frozen=True)
class Repository:
    """Its folder is where the commands run."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch

    def gate(self, *arguments: object) -> Done:
        """Run the gate there, in this process, on all models where none is named."""
        self.monkeypatch.chdir(self.folder)
        named = any(not str(a).startswith("-") for a in arguments[:1])
        models = () if named else ("exports/*.onnx",)
        return onnx_fuser("gate", "--jobs", 1, *models, *arguments)

    def write(self, name: str, text: str) -> None:
        """Write a text file."""
        (self.folder / name).write_text(text, encoding="utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace what is there once."""
        text = (self.folder / name).read_text("utf-8")
        assert text.count(old) == 1, (name, old)
        self.write(name, text.replace(old, new))

    def save(self, model: ModelProto, name: str) -> None:
        """Export a model."""
        path = self.folder / "exports" / f"{name}.onnx"
        path.parent.mkdir(exist_ok=True)
        onnx.save(model, path)


def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """The repository, with its baseline written."""
    repository = Repository(folder, monkeypatch)
    repository.write("onnx-fuser.toml", LIMITS)
    repository.save(discriminator(), "discriminator")
    repository.save(generator(), "generator")
    done = repository.gate("--update")
    assert done.status == 0, (done.out, done.err)
    return repository


def discriminator() -> ModelProto:
    """Three fusible blocks, of fixed batch, as ATC wants it."""
    return conv_bn_leaky(channels=(3, 4, 5, 6), batch=1, size=6)


def generator() -> ModelProto:
    """Two blocks of ConvTranspose, and a LeakyRelu on the input that nothing comes before."""
    model = conv_bn_leaky(channels=(3, 4, 5), batch=1, size=4, transpose=True, seed=1)
    model.graph.node.insert(0, helper.make_node("LeakyRelu", ["x"], ["first"], "First", alpha=0.1))
    model.graph.node[1].input[0] = "first"
    onnx.checker.check_model(model, full_check=True)
    return model


def in_training_mode(model: ModelProto) -> ModelProto:
    """The exporter left the second BatchNormalization in training mode."""
    (node,) = (n for n in model.graph.node if n.name == "BN_1")
    node.attribute.append(helper.make_attribute("training_mode", 1))
    node.output.extend(["running_mean", "running_var"])
    onnx.checker.check_model(model, full_check=True)
    return model


def unknown_spelling(model: ModelProto) -> ModelProto:
    """The exporter writes the second LeakyRelu as x * where(x > 0) arithmetic that no rule has."""
    at = next(i for i, n in enumerate(model.graph.node) if n.name == "LeakyRelu_1")
    old = model.graph.node[at]
    value, slope = old.input[0], old.attribute[0].f
    nodes = [
        helper.make_node("Greater", [value, "spell.zero"], ["spell.positive"], "Spell_Greater"),
        helper.make_node("Cast", ["spell.positive"], ["spell.mask"], "Spell_Cast", to=1),
        helper.make_node("Mul", ["spell.mask", "spell.rest"], ["spell.more"], "Spell_Mul"),
        helper.make_node("Add", ["spell.more", "spell.slope"], ["spell.factor"], "Spell_Add"),
        helper.make_node("Mul", [value, "spell.factor"], [old.output[0]], "Spell_Scale"),
    ]
    del model.graph.node[at]
    for i, node in enumerate(nodes):
        model.graph.node.insert(at + i, node)
    constants = {"spell.zero": 0.0, "spell.rest": 1 - slope, "spell.slope": slope}
    model.graph.initializer.extend(tensor(name, np.float32(v)) for name, v in constants.items())
    onnx.checker.check_model(model, full_check=True)
    return model


def nudged(model: ModelProto) -> ModelProto:
    """One number of one weight moved a little."""
    (weight,) = (t for t in model.graph.initializer if t.name == "W1")
    values = numpy_helper.to_array(weight).copy()
    values.flat[7] += 1e-3
    weight.CopyFrom(numpy_helper.from_array(values, "W1"))
    return model


def with_gelu(model: ModelProto) -> ModelProto:
    """The exporter's new opset ends the model with Gelu, which no ATC has."""
    model.opset_import[0].version = 20
    model.graph.node[-1].output[0] = "before_gelu"
    model.graph.node.append(helper.make_node("Gelu", ["before_gelu"], ["y"], "Gelu"))
    onnx.checker.check_model(model, full_check=True)
    return model
