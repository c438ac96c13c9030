"""The generated parser plugin: it compiles without a warning and builds what the operator stands for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from onnx import AttributeProto, FunctionProto, NodeProto, parser

from fuser.api import fuse
from fuser.errors import TargetError
from fuser.targets.atc import fused_functions, plugin_files, to_atc_form
from tests.builders import conv_bn_leaky

HERE = Path(__file__).parent
INCLUDE = HERE / "include"
GXX = shutil.which("g++") or ""
needs_compiler = pytest.mark.skipif(not GXX, reason="there is no g++")
KNOWN = (
    "Data Const Conv2D Conv3D Conv2DTranspose Conv3DTranspose "
    "MatMulV2 Muls Add LeakyRelu Relu Unsqueeze Squeeze"
)
WARNINGS = ["-Wall", "-Wextra", "-Werror"]

DEFINITIONS = """
<ir_version: 10, opset_import: ["" : 17, "fuser" : 1]> main (float[1] x) => (float[1] y) { y = Identity (x) }
<domain: "fuser", opset_import: ["" : 17]>
ConvLeakyRelu <auto_pad, dilations, group, kernel_shape, negative_slope, pads, strides> (X, W, B) => (Y)
{
  c = Conv <auto_pad: string = @auto_pad, dilations: ints = @dilations, group: int = @group,
            kernel_shape: ints = @kernel_shape, pads: ints = @pads, strides: ints = @strides> (X, W, B)
  Y = LeakyRelu <alpha: float = @negative_slope> (c)
}
<domain: "fuser", opset_import: ["" : 17]>
ConvTransposeLeakyRelu <auto_pad, dilations, group, kernel_shape, negative_slope, output_padding,
                        output_shape, pads, strides> (X, W, B) => (Y)
{
  c = ConvTranspose <auto_pad: string = @auto_pad, dilations: ints = @dilations, group: int = @group,
                     kernel_shape: ints = @kernel_shape, output_padding: ints = @output_padding,
                     output_shape: ints = @output_shape, pads: ints = @pads,
                     strides: ints = @strides> (X, W, B)
  Y = LeakyRelu <alpha: float = @negative_slope> (c)
}
<domain: "fuser", opset_import: ["" : 17]>
GemmLeakyRelu <alpha, beta, negative_slope, transA, transB> (A, B, C) => (Y)
{
  g = Gemm <alpha: float = @alpha, beta: float = @beta,
            transA: int = @transA, transB: int = @transB> (A, B, C)
  Y = LeakyRelu <alpha: float = @negative_slope> (g)
}
<domain: "fuser", opset_import: ["" : 17]>
ConvScaledRelu <strides> (X, W, S) => (Y)
{
  c = Conv <kernel_shape = [3, 3], strides: ints = @strides, pads = [1, 1, 1, 1]> (X, W)
  s = Mul (c, S)
  Y = Relu (s)
}
"""


def functions() -> tuple[FunctionProto, ...]:
    """The fused operators, and one of a user's own."""
    return fused_functions(parser.parse_model(DEFINITIONS))


def write(folder: Path, which: Sequence[FunctionProto], opset: int = 11) -> list[Path]:
    """A plugin's files; the sources among them."""
    for name, content in plugin_files(which, opset).items():
        (folder / name).write_text(content, encoding="utf-8")
    return sorted(folder.glob("*.cc"))


def including(folder: Path) -> list[str]:
    """Where headers are."""
    return [f"-I{folder}", f"-I{INCLUDE}"]


def compiled(arguments: Sequence[object]) -> None:
    """Run the compiler, and show what it has to say."""
    done = subprocess.run([GXX, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@needs_compiler
@pytest.mark.parametrize("abi", [0, 1])
@pytest.mark.parametrize("standard", ["c++11", "c++14", "c++17"])
def test_compiles_without_warning(standard: str, abi: int, tmp_path: Path) -> None:
    """Every fused operator, every standard, both ABIs."""
    for source in write(tmp_path, functions()):
        compiled(
            [
                f"-std={standard}",
                f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
                *WARNINGS,
                "-fsyntax-only",
                *including(tmp_path),
                source,
            ]
        )


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin linked with what plays ATC's parser."""
    folder = tmp_path_factory.mktemp("plugin")
    sources = write(folder, functions())
    program = folder / "harness"
    compiled(
        [
            "-std=c++11",
            *WARNINGS,
            *including(folder),
            *sources,
            INCLUDE / "harness.cc",
            "-o",
            program,
        ]
    )
    return program


def expand(program: Path, op: str, inputs: int, attributes: str, known: str = KNOWN) -> tuple[int, str]:
    """Exit status (11: refused while parsing, 12: while building) and the graph as text."""
    done = subprocess.run(
        [program, f"ai.onnx::11::{op}", str(inputs), known],
        input=attributes,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout


def as_atc_says(attributes: Sequence[AttributeProto]) -> str:
    """ATC's JSON text of a node's attributes: keys in order, floats as text of six digits."""
    listed = []
    for a in attributes:
        entry: dict[str, object] = {"name": a.name, "type": int(a.type)}
        if a.type == AttributeProto.FLOAT:
            entry["f"] = f"{a.f:g}"
        elif a.type == AttributeProto.INT:
            entry["i"] = a.i
        elif a.type == AttributeProto.INTS:
            entry["ints"] = list(a.ints)
        elif a.type == AttributeProto.STRING:
            entry["s"] = a.s.decode()
        listed.append(dict(sorted(entry.items())))
    return json.dumps({"attribute": listed}, indent=2) if listed else ""


def node(text: str) -> Sequence[AttributeProto]:
    """Attributes of a node written as ``<name = value, ...>``."""
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 11]> g (float[1] x) => (float[1] y) {{ y = N {text} (x) }}'
    )
    found: NodeProto = model.graph.node[0]
    return found.attribute


CASES = {
    "two axes": (
        "ConvLeakyRelu",
        3,
        "<kernel_shape = [3,3], strides = [2,1], pads = [1,2,3,4], group = 2, negative_slope = 0.2>",
        ["Conv2D node_c", "pads = 1,3,2,4", "strides = 1,1,2,1", "dilations = 1,1,1,1", "groups = 2",
         "bias <- node_B", "filter <- node_W", "x <- node_X", "data_format = NCHW", "LeakyRelu node_Y",
         "x <- node_c", "negative_slope = 0.2"],
        ["Squeeze"],
    ),
    "no bias": (
        "ConvLeakyRelu", 2, "<kernel_shape = [3,3]>", ["negative_slope = 0.01", "inputs=2"], ["bias"],
    ),
    "switched off": (
        "ConvLeakyRelu", 3, "<kernel_shape = [3,3], fuse_leaky_relu = 0>",
        ["Conv2D node_c"], ["LeakyRelu node_Y"],
    ),
    "one axis": (
        "ConvLeakyRelu",
        2,
        "<kernel_shape = [3], strides = [2], pads = [1,0], dilations = [4]>",
        ["Unsqueeze node_c_UnsqueezeX", "Unsqueeze node_c_UnsqueezeW", "axes = 2", "pads = 0,0,1,0",
         "strides = 1,1,1,2", "dilations = 1,1,1,4", "Squeeze node_c_SqueezeY", "axis = 2"],
        [],
    ),
    "three axes": (
        "ConvLeakyRelu",
        2,
        "<kernel_shape = [3,3,3], strides = [1,2,3], pads = [1,2,3,4,5,6]>",
        ["Conv3D node_c", "pads = 1,4,2,5,3,6", "strides = 1,1,1,2,3", "data_format = NCDHW", "x : 30"],
        [],
    ),
    "transposed": (
        "ConvTransposeLeakyRelu",
        3,
        "<kernel_shape = [4,4], strides = [2,2], pads = [1,1,1,1], output_padding = [1,0]>",
        ["Conv2DTranspose node_c", "output_padding = 0,0,1,0", "input_size <- node_c_size", "value = 32"],
        [],
    ),
    "Gemm": (
        "GemmLeakyRelu",
        3,
        "<alpha = 0.5, beta = 2.0, transB = 1, negative_slope = 0.3>",
        ["MatMulV2 node_g", "transpose_x1 = false", "transpose_x2 = true", "Muls node_g_alpha", "value = 0.5",
         "Muls node_g_beta", "value = 2", "x1 <- node_g_alpha", "x2 <- node_g_beta", "x <- node_g_sum"],
        [],
    ),
    "Gemm, plain": ("GemmLeakyRelu", 2, "", ["MatMulV2 node_g", "x <- node_g"], ["Muls", "Add"]),
    "of a user's own": (
        "ConvScaledRelu",
        3,
        "<strides = [2,2]>",
        ["strides = 1,1,2,2", "pads = 1,1,1,1", "Mul node_s", "x2 <- node_S", "Relu node_Y", "x <- node_s"],
        ["LeakyRelu"],
    ),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_graph(name: str, harness: Path) -> None:
    """What GE gets: operators, connections, attributes in GE's order."""
    op, inputs, attributes, present, absent = CASES[name]
    status, graph = expand(harness, op, inputs, as_atc_says(node(attributes)), f"{KNOWN} Mul")
    assert status == 0
    assert graph.startswith(f"PartitionedCall ai.onnx::11::{op} args={inputs} inputs={inputs}")
    lines = [line.strip() for line in graph.splitlines()]
    assert [part for part in present if part not in lines and part not in lines[0]] == []
    assert [part for part in absent if part in graph] == []


@needs_compiler
@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "known", "status"),
    [
        ("ConvLeakyRelu", 1, "<kernel_shape = [3,3]>", KNOWN, 11),
        ("ConvLeakyRelu", 2, "<kernel_shape = [3,3]>", "Data LeakyRelu", 12),
        ("ConvLeakyRelu", 2, "<strides = [1,1]>", KNOWN, 12),
        ("ConvLeakyRelu", 2, "<kernel_shape = [1,1,1,1]>", KNOWN, 12),
        ("ConvLeakyRelu", 2, '<kernel_shape = [3,3], auto_pad = "SAME_UPPER">', KNOWN, 12),
        ("ConvLeakyRelu", 2, '<kernel_shape = [3,3], auto_pad = "VALID">', KNOWN, 0),
        ("ConvTransposeLeakyRelu", 2, "<kernel_shape = [3,3], output_shape = [9,9]>", KNOWN, 12),
    ],
)
def test_refusals(*, op: str, inputs: int, attributes: str, known: str, status: int, harness: Path) -> None:
    """What can't be built right is refused, not guessed."""
    assert expand(harness, op, inputs, as_atc_says(node(attributes)), known)[0] == status


@needs_compiler
def test_attributes_that_mean_nothing_here_are_skipped(harness: Path) -> None:
    """Tensors, strings with quotes, nesting, and a float that did not fit its text and came as a number."""
    text = (
        '{"attribute": [{"name": "t", "t": {"dims": [1, 2], "float_data": [1.5, {"a": ["]", "}"]}]}},'
        ' {"name": "q", "s": "a\\"]}", "type": 3}, {"ints": [3, 3], "name": "kernel_shape", "type": 7},'
        ' {"f": 1.2345e-05, "name": "negative_slope", "type": 1}]}'
    )
    status, graph = expand(harness, "ConvLeakyRelu", 2, text)
    assert status == 0
    assert "negative_slope = 1.2345e-05" in graph


@needs_compiler
def test_broken_text_is_refused(harness: Path) -> None:
    """Cut anywhere, the text of the attributes is refused and nothing hangs."""
    text = as_atc_says(node('<kernel_shape = [3,3], negative_slope = 0.2, auto_pad = "NOTSET">'))
    assert {expand(harness, "ConvLeakyRelu", 2, text[:end])[0] for end in range(1, len(text) - 1, 11)} == {11}


@needs_compiler
def test_emitted_node_expands(tmp_path: Path) -> None:
    """From a model of today's opset to GE's graph: fused, in node form, through the plugin written for it."""
    fused = fuse(
        conv_bn_leaky(opset=21, ir=10, stride=2, slope=0.25), fused_as="function", parity=False
    ).model
    emitted, _ = to_atc_form(fused, fused_as="node")
    [found] = emitted.graph.node
    sources = write(tmp_path, fused_functions(fused), emitted.opset_import[0].version)
    compiled(
        [
            "-std=c++11",
            *including(tmp_path),
            *sources,
            INCLUDE / "harness.cc",
            "-o",
            tmp_path / "h",
        ]
    )
    done = subprocess.run(
        [tmp_path / "h", "ai.onnx::18::ConvLeakyRelu", str(len(found.input)), KNOWN],
        input=as_atc_says(found.attribute), capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = {line.strip() for line in done.stdout.splitlines()}
    assert lines >= {"strides = 1,1,2,2", "pads = 1,1,1,1", "negative_slope = 0.25", "bias <- node_B"}


@needs_compiler
def test_install_script(tmp_path: Path) -> None:
    """It builds, puts the library where ATC looks, and enters the vendor once; another plugin's stays."""
    opp, toolkit = tmp_path / "opp", tmp_path / "toolkit"
    (opp / "vendors").mkdir(parents=True)
    (opp / "vendors" / "config.ini").write_text("load_priority=customize,other\n")
    shutil.copytree(INCLUDE, toolkit / "include")
    paths = {"ASCEND_OPP_PATH": str(opp), "ASCEND_TOOLKIT_HOME": str(toolkit)}
    environment = {**os.environ, **paths, "CXXFLAGS": "-O0"}
    vendors = ["onnx_fuser_conv_leaky_relu_opset11", "onnx_fuser_conv_transpose_leaky_relu_opset11"]
    for i, vendor in enumerate(vendors):
        plugin = tmp_path / vendor
        plugin.mkdir()
        write(plugin, functions()[i : i + 1])
        for _ in range(2):
            subprocess.run(["sh", plugin / "install.sh"], env=environment, check=True, capture_output=True)
    for vendor in vendors:
        assert (opp / f"vendors/{vendor}/framework/onnx/libcust_onnx_parsers.so").stat().st_size > 0
    listed = ",".join([*reversed(vendors), "customize", "other"])
    assert (opp / "vendors/config.ini").read_text() == f"load_priority={listed}\n"


def test_install_script_says_what_is_missing(tmp_path: Path) -> None:
    """No toolkit, no traceback."""
    write(tmp_path, functions())
    bare = {"PATH": os.environ["PATH"]}
    for environment, missing in (
        (bare, "ASCEND_OPP_PATH is not set"),
        ({**bare, "ASCEND_OPP_PATH": str(tmp_path)}, "there is no include/register/register.h"),
    ):
        done = subprocess.run(
            ["sh", tmp_path / "install.sh"], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert missing in done.stderr


def test_files() -> None:
    """One source per operator, for the opset that was asked for, and everything that builds them."""
    files = plugin_files(functions()[:2], 15)
    assert sorted(files) == [
        "CMakeLists.txt",
        "conv_leaky_relu_plugin.cc",
        "conv_transpose_leaky_relu_plugin.cc",
        "fused_ops.h",
        "install.sh",
    ]
    assert '"ai.onnx::15::ConvLeakyRelu"' in files["conv_leaky_relu_plugin.cc"]
    assert "conv_transpose_leaky_relu_plugin.cc" in files["CMakeLists.txt"]
    assert not any("@" in text.replace("$@", "") for text in files.values())
    assert plugin_files(functions()[:2], 15) == files


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("Y = Softmax (X)", "its definition has Softmax"),
        ("Y = com.x.F (X)", "its definition calls com.x::F"),
        ("Y = Max (X, X, X)", "its definition has a Max of 3 inputs"),
    ],
)
def test_definition_beyond_what_is_known(body: str, why: str) -> None:
    """A user's own operator whose body maps to nothing is refused, with the way out."""
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 17, "fuser" : 1]> g (float[1] x) => (float[1] y)'
        "{ y = fuser.Own (x) }"
        f'<domain: "fuser", opset_import: ["" : 17, "com.x" : 1]> Own (X) => (Y) {{ {body} }}'
    )
    with pytest.raises(
        TargetError, match=f"no ATC plugin can be written for Own: {why}.*--fused-as standard"
    ):
        plugin_files(fused_functions(model), 17)
