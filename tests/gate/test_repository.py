"""A repository gated as its owners would: green, then one change at a time turns it red and is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.running import onnx_fuser
from tests.gate import repository
from tests.gate.repository import Repository, discriminator


def export(change: Callable[..., object]) -> Callable[[Repository], None]:
    """The discriminator is exported anew, with one change."""

    def run(repo: Repository) -> None:
        model = discriminator()
        change(model)
        repo.save(model, "discriminator")

    return run


def expire(repo: Repository) -> None:
    repo.edit("onnx-fuser.toml", "2999-12-31", "2020-02-29")


def test_an_unchanged_repository_is_green(repo: Repository) -> None:
    done = repo.gate()
    assert (done.status, done.err) == (0, "")
    assert (
        "passed exports/discriminator.onnx: 3 fused, 0 of 3 BatchNormalization left, parity passed"
        in flat(done.out)
    )
    assert "passed exports/generator.onnx: 2 fused" in flat(done.out)
    assert "accepted until 2999-12-31: unfused: LeakyRelu 'First' was not fused" in flat(done.out)
    assert flat(done.out).endswith("2 models: 2 passed")


def test_the_gate_leaves_no_file_behind(repo: Repository) -> None:
    before = sorted(repo.folder.rglob("*"))
    repo.gate()
    assert sorted(repo.folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param(
            export(repository.in_training_mode),
            [
                "batch-normalizations: 1 BatchNormalization left, 1 more than the 0 allowed: BatchNormalization 'BN_1':",
                "reason: Affine:batchnorm [bn] BatchNormalization 'BN_1':",
                "(not accepted: '*training*')",
                "fusion-lost: ConvLeakyRelu at 'act1' (Conv + BatchNormalization + LeakyRelu) is no longer",
                "unfused: LeakyRelu 'LeakyRelu_1' was not fused, and fusions asks for all",
                "or raise batch-normalizations in onnx-fuser.toml",
            ],
            id="BatchNormalization in training mode",
        ),
        pytest.param(
            export(repository.unknown_spelling),
            [
                "fusion-lost: ConvLeakyRelu at 'act1' (Conv + BatchNormalization + LeakyRelu) is no longer",
                "or agree to it: `onnx-fuser gate --update exports/discriminator.onnx` writes fusion.lock",
            ],
            id="a spelling that no rule knows",
        ),
        pytest.param(
            export(repository.nudged),
            ["weights: the weights are not those in fusion.lock: those of 'act1' changed", "restore them"],
            id="a weight nudged",
        ),
        pytest.param(
            export(repository.with_gelu),
            ["target: atc", "Gelu", "Fix: export at opset 18 or below, where Gelu is written with Erf"],
            id="an operator that ATC lacks",
        ),
        pytest.param(
            expire,
            [
                "exception-expired: the exception for unfused at '*' expired on 2020-02-29,",
                "the last layer is fused by the firmware",
                "in onnx-fuser.toml: accept[0]",
            ],
            id="an expired exception",
        ),
    ],
)
def test_one_change_turns_it_red_and_is_named(
    repo: Repository, change: Callable[[Repository], None], says: list[str]
) -> None:
    change(repo)
    done = repo.gate("exports/generator.onnx" if change is expire else "exports/discriminator.onnx")
    assert done.status == 1, done.out
    for sentence in says:
        assert sentence in flat(done.out)
    assert flat(done.out).endswith("1 model: 1 refused")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["export/*.onnx"], "export/*.onnx matches no file, so nothing was judged"),
        (["exports/*.onnx", "more/*.onnx"], "more/*.onnx matches no file"),
        (["gone.onnx"], "gone.onnx does not exist, so nothing was judged"),
        (["exports"], "exports is a folder; name the models in it, such as 'exports/**/*.onnx'"),
    ],
)
def test_what_is_for_no_file_is_status_2(repo: Repository, arguments: list[str], says: str) -> None:
    done = repo.gate(*arguments)
    assert (done.status, done.out) == (2, "")
    assert says in done.err


def test_agreeing_to_a_change_makes_it_green_again(repo: Repository) -> None:
    export(repository.nudged)(repo)
    before = (repo.folder / "fusion.lock").read_text("utf-8")
    done = repo.gate("exports/discriminator.onnx", "--update")
    assert done.status == 0
    assert "weights: the weights are not those in fusion.lock: those of 'act1' changed" in flat(done.out)
    after = (repo.folder / "fusion.lock").read_text("utf-8")
    changed = set(after.splitlines()) ^ set(before.splitlines())
    assert {line.split('"')[1] for line in changed} == {"act1", "model", "weights"}
    assert repo.gate("exports/discriminator.onnx").status == 0


def test_a_new_model_wants_a_baseline(repo: Repository) -> None:
    repo.save(discriminator(), "encoder")
    done = repo.gate("exports/encoder.onnx")
    assert done.status == 2
    assert "baseline: fusion.lock has no baseline of the model" in flat(done.out)
    assert "`onnx-fuser gate --update exports/encoder.onnx`" in flat(done.out)


def test_a_model_that_went_is_named_and_forgotten_on_update(repo: Repository) -> None:
    (repo.folder / "exports" / "generator.onnx").unlink()
    assert "fusion.lock has 'exports/generator.onnx', which is gone" in flat(repo.gate().out)
    assert "'exports/generator.onnx' is gone from fusion.lock" in flat(repo.gate("--update").out)
    assert "generator" not in (repo.folder / "fusion.lock").read_text("utf-8")


def test_a_model_that_can_not_be_read_keeps_no_other_from_being_judged(repo: Repository) -> None:
    repo.write("exports/broken.onnx", "this is no model")
    done = repo.gate()
    assert done.status == 2
    assert "unjudged exports/broken.onnx" in done.out
    assert "passed exports/discriminator.onnx" in done.out
    assert flat(done.out).endswith("3 models: 2 passed, 1 unjudged")


def test_renamed_values_of_the_same_weights_lose_nothing(repo: Repository) -> None:
    model = discriminator()
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = ["layer1.out" if n == "act1" else n for n in names]
    repo.save(model, "discriminator")
    done = repo.gate("exports/discriminator.onnx", "--verbose")
    assert done.status == 0, done
    assert "fusion-renamed: ConvLeakyRelu 'act1' is now called 'layer1.out'" in flat(done.out)


def test_a_fusion_gained_is_reported_and_passes(repo: Repository) -> None:
    model = discriminator()
    repository.unknown_spelling(model)
    repo.save(model, "discriminator")
    repo.gate("exports/discriminator.onnx", "--update")
    repo.save(discriminator(), "discriminator")
    done = repo.gate("exports/discriminator.onnx")
    assert "fusion-gained: ConvLeakyRelu at 'act1'" in flat(done.out)
    assert [line for line in flat(done.out).split("fusion-") if "lost" in line] == []


def test_quiet_prints_only_what_did_not_pass(repo: Repository) -> None:
    done = repo.gate("--quiet")
    assert (done.status, done.out, done.err) == (0, "", "")
    expire(repo)
    done = repo.gate("--quiet")
    assert done.status == 1
    assert done.out.startswith("refused exports/generator.onnx")
    assert "discriminator" not in done.out


def test_an_exception_that_excuses_nothing_and_an_override_for_no_model_are_named(repo: Repository) -> None:
    repo.edit("onnx-fuser.toml", 'finding = "unfused"', 'finding = "unfused"\nnode = "Other"')
    repo.edit("onnx-fuser.toml", '[models."exports/gen*.onnx"]', '[models."exports/*.ort"]')
    done = repo.gate()
    assert done.status == 1
    assert "onnx-fuser.toml: accept[0] accepts unfused at 'Other', of which there is none; remove it" in flat(
        done.out
    )
    assert 'onnx-fuser.toml: models."exports/*.ort" is for no model; correct the glob' in flat(done.out)


def test_limits_are_found_from_a_folder_below(repo: Repository) -> None:
    repo.monkeypatch.chdir(repo.folder / "exports")
    done = onnx_fuser("gate", "*.onnx")
    assert done.status == 0, done
    assert "passed exports/discriminator.onnx" in done.out


def flat(text: str) -> str:
    """The text as one line, however it was wrapped."""
    return " ".join(text.split())
