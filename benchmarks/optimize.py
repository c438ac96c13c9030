"""CPU time and memory of `onnx-fuser optimize`, against onnxruntime's offline optimizer and a load and save.

Each run is a process of its own, start of Python and imports included; what counts is what the operating
system says it used: user and system seconds together, and the peak of its resident memory. The tools take
turns (A B C A B C …), so that a machine that gets slower does so for all, and the table shows medians. No
parity check is run: the others have none. onnxruntime optimizes at its level "extended", which fuses Conv and
LeakyRelu as onnx-fuser does, with one thread.

This process imports nothing large: on Linux the memory of a new process counts from its parent's.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "build" / "bench"
FUSER, ORT, COPY = "onnx-fuser", "onnxruntime", "onnx.load + onnx.save"

COMMANDS: dict[str, list[str]] = {
    FUSER: [str(ROOT / "cli.py"), "optimize", "{model}", "-o", "{output}", "--no-parity", "--quiet"],
    ORT: [
        "-c",
        """
import sys
import onnxruntime
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
options.optimized_model_filepath = sys.argv[2]
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.log_severity_level = 3
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
""",
        "{model}",
        "{output}",
    ],
    COPY: ["-c", "import sys, onnx; onnx.save(onnx.load(sys.argv[1]), sys.argv[2])", "{model}", "{output}"],
}
COUNT = "import sys, onnx; print(len(onnx.load(sys.argv[1], load_external_data=False).graph.node))"


@dataclass(frozen=True)
class Case:
    """A network: what it is, and the command (after ``python``) that writes it to ``{output}``."""

    name: str
    title: str
    build: tuple[str, ...]
    left: int  # nodes when every site is fused
    skip: tuple[str, ...] = ()


def chain(blocks: int, channels: int, kernel: int) -> tuple[str, ...]:
    """The command that writes a chain of Conv, BatchNormalization and LeakyRelu."""
    sizes = {"--blocks": blocks, "--channels": channels, "--kernel": kernel}
    options = [word for option, number in sizes.items() for word in (option, str(number))]
    return (str(ROOT / "benchmarks" / "networks.py"), "{output}", *options)


CASES = [
    Case("parameters", "75 layers, 60 M parameters", chain(75, 300, 3), left=75),
    Case("nodes", "10,000 nodes", chain(3333, 4, 1), left=3333),
    Case("more-nodes", "100,000 nodes", chain(33333, 4, 1), left=33333, skip=(ORT,)),
    Case("dcgan", "DCGAN discriminator", (str(ROOT / "models" / "build_dcgan.py"), "-o", "{output}"), left=6),
]


@dataclass(frozen=True)
class Usage:
    """What one process used, or the medians of several."""

    cpu: float  # user and system, seconds
    wall: float  # seconds
    peak: float  # resident, MB of 10⁶ bytes


Results = Mapping[tuple[str, str], Usage]  # by names of case and tool


def measure(command: Sequence[str], log: Path) -> Usage:
    """Run ``python`` with these words and say what it used; RuntimeError with its output if it fails."""
    start = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, *command], stdout=output, stderr=output, cwd=MODELS)
        _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)  # or Popen would wait for it once more
    if process.returncode != 0:
        raise RuntimeError(
            f"exit status {process.returncode} from {command}\n{log.read_text(errors='replace')}"
        )
    unit = 1 if sys.platform == "darwin" else 1024
    return Usage(used.ru_utime + used.ru_stime, wall, used.ru_maxrss * unit / 1e6)


def place(words: Sequence[str], **paths: Path) -> list[str]:
    """The command with its paths filled in."""
    filled = {f"{{{name}}}": str(path) for name, path in paths.items()}
    return [filled.get(word, word) for word in words]


def built(case: Case) -> Path:
    """The case's model, written on first use."""
    path = MODELS / f"{case.name}.onnx"
    if not path.exists():
        part = path.with_suffix(".part")
        measure(place(case.build, output=part), MODELS / "build.log")
        part.rename(path)
    return path


def run_case(case: Case, runs: int) -> tuple[dict[tuple[str, str], Usage], dict[str, str]]:
    """Medians per tool, and how many nodes each tool's output has."""
    model = built(case)
    tools = [tool for tool in COMMANDS if tool not in case.skip]
    usages: dict[str, list[Usage]] = {tool: [] for tool in tools}
    nodes: dict[str, str] = {}
    for number in range(runs):
        for tool in tools:
            print(f"{case.name}: run {number + 1} of {runs}, {tool}", file=sys.stderr)
            with tempfile.TemporaryDirectory(dir=MODELS) as folder:
                output = Path(folder) / "output.onnx"
                usages[tool].append(
                    measure(place(COMMANDS[tool], model=model, output=output), MODELS / "run.log")
                )
                if number == 0:
                    counted = subprocess.run(
                        [sys.executable, "-c", COUNT, str(output)], check=True, capture_output=True, text=True
                    )
                    nodes[tool] = counted.stdout.strip()
    if nodes[FUSER] != str(case.left):
        raise RuntimeError(
            f"{case.name}: onnx-fuser left {nodes[FUSER]} nodes and not {case.left}: not the job"
        )
    medians = {
        (case.name, tool): Usage(
            median(u.cpu for u in used), median(u.wall for u in used), median(u.peak for u in used)
        )
        for tool, used in usages.items()
    }
    return medians, nodes


def rows(case: Case, results: Results, nodes: Mapping[str, str]) -> list[list[str]]:
    """The case's lines of the table."""
    fuser = results[case.name, FUSER]
    lines = []
    for tool in COMMANDS:
        if tool in case.skip:
            lines.append([case.title, tool, "not run: 100 times the time of 10,000", *["–"] * 5])
            continue
        used = results[case.name, tool]
        ratios = (
            ["", ""] if tool == FUSER else [f"{fuser.cpu / used.cpu:.2f}", f"{fuser.peak / used.peak:.2f}"]
        )
        numbers = [f"{used.cpu:.2f}", f"{used.wall:.2f}", f"{used.peak:.0f}"]
        lines.append([case.title, tool, nodes[tool], *numbers, *ratios])
    return lines


HEADER = ["network", "tool", "nodes left", "CPU s", "wall s", "peak MB", "onnx-fuser's CPU to it", "its peak"]


@dataclass(frozen=True)
class Target:
    """How much onnx-fuser may use on a case, as a multiple of what a tool used on a case."""

    title: str
    quantity: str  # a field of Usage
    case: str
    other: tuple[str, str]
    limit: float

    def ratio(self, results: Results) -> float | None:
        """The multiple measured; None if either was not run."""
        if (self.case, FUSER) not in results or self.other not in results:
            return None
        ours, theirs = results[self.case, FUSER], results[self.other]
        return float(getattr(ours, self.quantity) / getattr(theirs, self.quantity))


TARGETS = [
    Target("60 M parameters, CPU to onnxruntime's", "cpu", "parameters", ("parameters", ORT), 0.8),
    Target("60 M parameters, peak to onnxruntime's", "peak", "parameters", ("parameters", ORT), 0.3),
    Target("10,000 nodes, CPU to onnxruntime's", "cpu", "nodes", ("nodes", ORT), 0.7),
    Target("100,000 nodes, CPU to that of 10,000", "cpu", "more-nodes", ("nodes", FUSER), 11),
]


def table(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table, columns aligned."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [
        " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    ]
    padded.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in padded)


def main() -> int:
    """Run the cases, print the table; with --check, 1 if a target is missed and 2 if none could be judged."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = [case.name for case in CASES]
    parser.add_argument("--only", action="append", choices=names, metavar="CASE", help=", ".join(names))
    parser.add_argument(
        "--runs", type=int, default=5, help="runs of each tool, of which the median counts (5)"
    )
    parser.add_argument("--check", action="store_true", help="exit status 1 if a target is missed")
    arguments = parser.parse_args()
    if shutil.disk_usage(ROOT).free < 2e9:
        parser.error(f"{MODELS} needs 2 GB of free space")
    MODELS.mkdir(parents=True, exist_ok=True)
    # As installers do: where Python is told to write no bytecode, each run would compile the checkout.
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(ROOT / "fuser")], check=True)

    results: dict[tuple[str, str], Usage] = {}
    lines = [HEADER]
    for case in CASES:
        if arguments.only and case.name not in arguments.only:
            continue
        medians, nodes = run_case(case, arguments.runs)
        results.update(medians)
        lines += rows(case, results, nodes)
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("onnx", "onnxruntime", "numpy")
    )
    print(f"Python {platform.python_version()}, {versions}; medians of {arguments.runs}\n\n{table(lines)}\n")

    judged = [(target, ratio) for target in TARGETS if (ratio := target.ratio(results)) is not None]
    for target, ratio in judged:
        verdict = "met   " if ratio <= target.limit else "MISSED"
        print(f"{verdict} {target.title}: {ratio:.2f}, at most {target.limit}")
    if not arguments.check:
        return 0
    if not judged:
        print("No target concerns these cases alone.", file=sys.stderr)
        return 2
    return int(any(ratio > target.limit for target, ratio in judged))


if __name__ == "__main__":
    sys.exit(main())
