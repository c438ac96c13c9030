"""``python -m fuser.fuzz --graphs 5000 --seed 0``: exit status 1 where a fault was found."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
import onnx
from onnx import ModelProto

from fuser.fuzz.check import KINDS, Fault, check
from fuser.fuzz.choices import replayed, seeded
from fuser.fuzz.models import draw
from fuser.fuzz.shrink import shrink
from fuser.language import RewriteRule, builtin_folder, load_rules
from fuser.parity.runner import Worker, memory_default

LARGEST_SHOWN = 12
"""Elements of a weight that is printed; the others are drawn again by the seed."""


@click.command()
@click.option("--graphs", default=1000, show_default=True, help="How many models to draw.")
@click.option(
    "--seed", default=0, show_default=True, help="Seed of the first model; the next one has the next."
)
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(sorted(KINDS)), help="Look for these faults only."
)
@click.option("--most", default=5, show_default=True, help="Stop after so many faults.")
@click.option("--shrink/--no-shrink", "make_small", default=True, help="Make the models of faults small.")
def main(graphs: int, seed: int, kinds: tuple[str, ...], most: int, *, make_small: bool) -> None:
    """Draw models, fuse them, and print those that went wrong as ONNX text."""
    rules = load_rules(builtin_folder())
    wanted = frozenset(kinds) or KINDS
    counts: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="onnx-fuser-") as name, Worker(60.0, memory_default()) as worker:
        for k in range(seed, seed + graphs):
            choices = seeded(k)
            outcome = check(draw(choices), rules, worker, Path(name), wanted)
            counts["fused"] += outcome.fused
            counts["graphs"] += 1
            skipped[outcome.skipped[:90]] += bool(outcome.skipped)
            if not outcome.faults:
                continue
            fault = outcome.faults[0]
            counts[fault.kind] += 1
            made = smallest(choices.made, fault, rules, worker, Path(name)) if make_small else choices.made
            small = draw(replayed(made))
            again = check(small, rules, worker, Path(name))
            shown = next((f for f in again.faults if f.kind == fault.kind), fault)
            click.echo(f"\n=== seed {k}: {shown.kind}: {shown.text}")
            click.echo(
                f"freeze_inputs={small.freeze_inputs} standard={small.standard}\n{readable(small.model)}"
            )
            if sum(counts[kind] for kind in KINDS) >= most:
                break
    seconds = time.perf_counter() - started
    total, faults = counts["graphs"], sum(counts[kind] for kind in KINDS)
    click.echo(
        f"{total} graphs in {seconds:.0f} s ({total / seconds:.0f} a second), {counts['fused']} operators fused"
    )
    click.echo(f"{sum(skipped.values())} models did not run: {dict(skipped.most_common(5))}")
    click.echo(
        f"{faults} faults: " + ", ".join(f"{counts[k]} {k}" for k in sorted(KINDS) if counts[k])
        if faults
        else "no fault"
    )
    raise SystemExit(1 if faults else 0)


def smallest(
    made: Sequence[int], fault: Fault, rules: Sequence[RewriteRule], worker: Worker, folder: Path
) -> list[int]:
    """The simplest decisions that lead to a fault of the same kind."""

    def fails(candidate: Sequence[int]) -> bool:
        try:
            drawn = draw(replayed(candidate))
            onnx.checker.check_model(drawn.model, full_check=True)
        except Exception:
            return False
        return any(
            f.kind == fault.kind for f in check(drawn, rules, worker, folder, frozenset({fault.kind})).faults
        )

    return shrink(made, fails)


def readable(model: ModelProto) -> str:
    """The model as ONNX text, large weights without their values."""
    small = ModelProto()
    small.CopyFrom(model)
    bodies = [small.graph]
    while bodies:
        graph = bodies.pop()
        for tensor in graph.initializer:
            if onnx.numpy_helper.to_array(tensor).size > LARGEST_SHOWN:
                dims, kind, name = list(tensor.dims), tensor.data_type, tensor.name
                tensor.Clear()
                tensor.dims.extend(dims)
                tensor.data_type, tensor.name = kind, name
        bodies += [a.g for n in graph.node for a in n.attribute if a.HasField("g")]
    return str(onnx.printer.to_text(small))


if __name__ == "__main__":
    main()
