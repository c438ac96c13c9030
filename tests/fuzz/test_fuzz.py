"""Drawn models keep their results, lose nothing, are stable, and have a reason for what stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
import pytest
from hypothesis import HealthCheck, given, settings

from fuser.fuzz.check import Fault, check
from fuser.fuzz.choices import replayed, seeded
from fuser.fuzz.models import Drawn, draw
from fuser.fuzz.shrink import shrink
from fuser.fuzz.strategy import models
from fuser.language import builtin_folder, load_rules
from fuser.parity.runner import Worker, memory_default

RULES = load_rules(builtin_folder())
BATCH, BATCHES = 250, 20


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """One process runs all models."""
    with Worker(60.0, memory_default()) as running:
        yield running


@pytest.mark.parametrize("batch", range(BATCHES))
def test_seeded_models_have_no_fault(batch: int, worker: Worker, tmp_path: Path) -> None:
    """`python -m fuser.fuzz --graphs 1 --seed SEED` prints a small model for a seed that is listed here."""
    found: dict[int, tuple[Fault, ...]] = {}
    ran = 0
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        outcome = check(draw(seeded(seed)), RULES, worker, tmp_path)
        ran += not outcome.skipped
        if outcome.faults:
            found[seed] = outcome.faults
    assert not found
    assert ran > BATCH * 3 // 4


@given(models())
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_what_hypothesis_draws_has_no_fault(
    worker: Worker, tmp_path_factory: pytest.TempPathFactory, model: Drawn
) -> None:
    """The same models through hypothesis, which looks for extremes and shrinks."""
    assert not check(model, RULES, worker, tmp_path_factory.getbasetemp()).faults


def test_every_model_is_valid() -> None:
    """What is drawn is a model, so that every fault is the fuser's."""
    for seed in range(300):
        onnx.checker.check_model(draw(seeded(seed)).model, full_check=True)


def test_draws_can_be_replayed() -> None:
    """The recorded decisions give the same model again."""
    choices = seeded(7)
    first = draw(choices).model
    assert draw(replayed(choices.made)).model.SerializeToString(
        deterministic=True
    ) == first.SerializeToString(deterministic=True)


def test_a_fault_is_found_and_shrunk(worker: Worker, tmp_path: Path) -> None:
    """A rule with a wrong sign shows, and the model that shows it becomes small."""
    for file in builtin_folder().glob("*.onnxtxt"):
        text = file.read_text()
        (tmp_path / file.name).write_text(text.replace("less = Neg(c)", "less = Identity(c)"))
    rules = load_rules(tmp_path)
    wanted = frozenset({"wrong"})

    def wrong(made: Sequence[int]) -> bool:
        faults = check(draw(replayed(made)), rules, worker, tmp_path, wanted).faults
        return any(f.kind == "wrong" and "agrees" not in f.text for f in faults)

    made = next(made for made in map(decisions, range(500)) if wrong(made))
    small = draw(replayed(shrink(made, wrong, 200))).model
    assert "Sub" in {node.op_type for node in small.graph.node}
    assert len(small.graph.node) <= 4
    assert not small.functions


def decisions(seed: int) -> list[int]:
    """What the seed decides."""
    choices = seeded(seed)
    draw(choices)
    return choices.made
