"""What each exporter's files become: sites fused by onnx-fuser, and by onnxruntime, onnxsim and OnnxSlim.

A site is a Conv, ConvTranspose, Gemm or MatMul whose value goes, through a BatchNormalization or not, to a
LeakyRelu and nowhere else. How many a file has is known from the network that was exported, whatever the
exporter made of it; it stands in CASES, and neither onnx-fuser nor any rule of it is asked.

All outputs are counted alike, from the files that the tools wrote: fused operators, BatchNormalizations left,
all nodes left; a call of an exporter's function counts as the nodes in it. Each run is a process of its own,
so a tool that crashes spoils its own cell only. onnxsim and OnnxSlim come with the extra ``compare``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx.inliner
from onnx import ModelProto, NodeProto

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "models"
FUSER = "onnx-fuser"


@dataclass(frozen=True)
class Case:
    """A file: the network, who exported it, its sites, and the options it takes to fuse it."""

    network: str
    exporter: str
    file: str
    sites: int
    options: tuple[str, ...] = ()


DISCRIMINATOR, GENERATOR, YOLO, CONV1D, CONV3D = (
    "DCGAN discriminator", "DCGAN generator", "tiny YOLO", "1-D net", "3-D net"
)  # fmt: skip
CASES = (
    # Four Conv with LeakyRelu, all but the first with BatchNormalization, and a last Conv with Sigmoid.
    Case(DISCRIMINATOR, "PyTorch", "torch_discriminator", 4),
    Case(DISCRIMINATOR, "PyTorch dynamo", "torch_dynamo_discriminator", 4),
    Case(DISCRIMINATOR, "MindSpore", "mindspore_discriminator", 4),
    Case(DISCRIMINATOR, "Paddle", "paddle_discriminator", 4),
    Case(DISCRIMINATOR, "Keras, tf2onnx", "networks/keras_discriminator", 4),
    Case(DISCRIMINATOR, "Flax, jax2onnx", "networks/jax_discriminator", 4),
    # Four ConvTranspose with both (Keras: a Dense and three; Flax: a Linear and two), and one with Tanh.
    Case(GENERATOR, "PyTorch", "torch_generator", 4),
    Case(GENERATOR, "PyTorch, modules as functions", "torch_functions_generator", 4),
    Case(GENERATOR, "PyTorch dynamo", "networks/torch_dynamo_generator", 4),
    Case(GENERATOR, "Keras, tf2onnx", "keras_generator", 4),
    Case(GENERATOR, "Flax, jax2onnx", "networks/jax_generator", 3),
    # YOLOv4-tiny's and YOLOv3-tiny's layers that end in LeakyRelu; the heads end in a Conv alone.
    Case(YOLO, "darknet", "darknet_yolov4_tiny", 14, ("--freeze-inputs",)),
    Case(YOLO, "PyTorch", "networks/torch_yolo", 11),
    Case(YOLO, "PyTorch dynamo", "networks/torch_dynamo_yolo", 11),
    Case(YOLO, "Keras, tf2onnx", "networks/keras_yolo", 11),
    Case(YOLO, "Flax, jax2onnx", "networks/jax_yolo", 11),
    # Five Conv1d (Keras: four) and a Linear.
    Case(CONV1D, "PyTorch", "networks/torch_conv1d", 6),
    Case(CONV1D, "PyTorch dynamo", "networks/torch_dynamo_conv1d", 6),
    Case(CONV1D, "Keras, tf2onnx", "networks/keras_conv1d", 5),
    Case(CONV1D, "Flax, jax2onnx", "networks/jax_conv1d", 6),
    # Five Conv3d and a ConvTranspose3d.
    Case(CONV3D, "PyTorch", "networks/torch_conv3d", 6),
    Case(CONV3D, "PyTorch dynamo", "networks/torch_dynamo_conv3d", 6),
    Case(CONV3D, "Keras, tf2onnx", "networks/keras_conv3d", 6),
)


@dataclass(frozen=True)
class Tool:
    """An optimizer: the distribution it comes in, and the program that runs it on source and output."""

    name: str
    distribution: str
    program: str


TOOLS = (
    Tool(
        "onnxruntime",
        "onnxruntime",
        """
import sys
import onnxruntime
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
options.optimized_model_filepath = sys.argv[2]
options.log_severity_level = 3
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
""",
    ),
    Tool(
        "onnxsim",
        "onnxsim",
        """
import sys
import onnx
import onnxsim
onnx.save(onnxsim.simplify(sys.argv[1])[0], sys.argv[2])
""",
    ),
    Tool("OnnxSlim", "onnxslim", "import sys, onnxslim; onnxslim.slim(sys.argv[1], sys.argv[2])"),
)


@dataclass(frozen=True)
class Count:
    """What a file holds: fused operators, BatchNormalizations, and all nodes."""

    fused: int
    normalizations: int
    nodes: int

    def __str__(self) -> str:
        return f"{self.fused} / {self.normalizations} / {self.nodes}"


@dataclass(frozen=True)
class Row:
    """A case's line: what the file held, what each tool made of it (a reason where nothing), our parity."""

    case: Case
    before: Count
    fuser: Count | str
    parity: str
    others: tuple[Count | str, ...]

    @property
    def good(self) -> bool:
        """Every site fused and the same computed."""
        return (
            isinstance(self.fuser, Count)
            and self.fuser.fused == self.case.sites
            and self.parity.startswith("passed")
        )


def walk(nodes: Sequence[NodeProto]) -> Iterator[NodeProto]:
    """The nodes and those of their bodies."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from walk(graph.node)


def is_fused(node: NodeProto) -> bool:
    """Whether the node is an anchor and a LeakyRelu in one: ours, or onnxruntime's."""
    if node.domain == "fuser":
        return node.op_type in {"ConvLeakyRelu", "ConvTransposeLeakyRelu", "GemmLeakyRelu"}
    activations = (a.s for a in node.attribute if a.name == "activation")
    return (node.domain, node.op_type) in {
        ("com.microsoft", "FusedConv"),
        ("com.microsoft", "FusedGemm"),
    } and b"LeakyRelu" in activations


def count(model: ModelProto) -> Count:
    """Count a model, each call of a function of the exporter's as the nodes in it."""
    own = [f for f in model.functions if f.domain != "fuser"]
    if own:
        model = onnx.inliner.inline_selected_functions(model, [(f.domain, f.name) for f in own])
    nodes = list(walk(model.graph.node))
    normalizations = sum(
        node.op_type == "BatchNormalization" and node.domain in {"", "ai.onnx"} for node in nodes
    )
    return Count(sum(map(is_fused, nodes)), normalizations, len(nodes))


def run(words: Sequence[str | Path], output: Path, timeout: float = 300) -> Count | str:
    """Run ``python`` with these words and count the output; or say how it failed."""
    try:
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            capture_output=True, text=True, check=False, timeout=timeout, cwd=output.parent,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "timed out"
    if done.returncode < 0:
        return f"crashed, signal {-done.returncode}"
    if done.returncode > 0 or not output.exists():
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        return f"failed: {last[:80]}"
    return count(onnx.load(output))


def is_installed(tool: Tool) -> bool:
    """Whether the distribution is there; nothing of it is imported."""
    try:
        importlib.metadata.version(tool.distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def parity_in(report: Path) -> str:
    """The verdict, and the least tolerance that would pass every output."""
    found = json.loads(report.read_text(encoding="utf-8"))["parity"]
    needed = [o["smallest_tolerance"] for o in found["outputs"] if o["smallest_tolerance"] is not None]
    return f"{found['verdict']}, {max(needed):.0e}" if needed else str(found["verdict"])


def run_case(case: Case, folder: Path, tools: Sequence[Tool] = TOOLS) -> Row:
    """Optimize the case's file with onnx-fuser and the tools; they write to the folder."""
    source, output, report = MODELS / f"{case.file}.onnx", folder / "fused.onnx", folder / "report.json"
    command: list[str | Path] = [
        ROOT / "cli.py",
        "optimize",
        source,
        "-o",
        output,
        "--report",
        report,
        "--quiet",
    ]
    fuser = run([*command, *case.options], output)
    others = []
    for tool in tools:
        made = folder / f"{tool.distribution}.onnx"
        others.append(
            run(["-c", tool.program, source, made], made) if is_installed(tool) else "not installed"
        )
    parity = parity_in(report) if report.exists() else "–"
    return Row(case, count(onnx.load(source)), fuser, parity, tuple(others))


HEADER = ["network", "exporter", "sites", "as exported", FUSER, "parity", *(tool.name for tool in TOOLS)]


def cells(row: Row) -> list[str]:
    """The row's line of the table."""
    case = row.case
    exporter = " ".join((case.exporter, *(f"({option})" for option in case.options)))
    counts = [str(row.before), str(row.fuser), row.parity, *map(str, row.others)]
    return [case.network, exporter, str(case.sites), *counts]


def table(lines: Sequence[Sequence[str]], *, markdown: bool) -> str:
    """The lines with their columns aligned; the first is the header."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    joint = " | " if markdown else "  "
    padded = [
        joint.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    ]
    padded.insert(1, joint.join("-" * width for width in widths))
    return "\n".join(f"| {line} |" if markdown else line.rstrip() for line in padded)


def versions() -> str:
    """What the numbers were made with."""
    names = ["onnx", *(tool.distribution for tool in TOOLS if is_installed(tool))]
    installed = [f"{name} {importlib.metadata.version(name)}" for name in names]
    return ", ".join([f"Python {platform.python_version()}", *installed])


def main() -> int:
    """Print the table; exit status 1 if a site is not fused or parity did not pass."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--markdown", action="store_true", help="as a Markdown table")
    parser.add_argument("--only", metavar="WORD", default="", help="files whose name contains this")
    arguments = parser.parse_args()
    cases = [case for case in CASES if arguments.only in case.file]
    if not cases:
        parser.error(f"no file's name contains {arguments.only!r}")
    rows = []
    for case in cases:
        print(case.file, file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            rows.append(run_case(case, Path(folder)))
    print("Cells: fused operators / BatchNormalizations / nodes.", versions(), end="\n\n")
    print(table([HEADER, *map(cells, rows)], markdown=arguments.markdown))
    return int(not all(row.good for row in rows))


if __name__ == "__main__":
    sys.exit(main())
