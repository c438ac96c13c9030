"""The bundle's script calls atc as it should and says what is missing; its README says what to expect."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from onnx import ModelProto

from fuser.errors import ConfigError
from fuser.targets.atc import Conversion, bundle
from tests.builders import conv_bn_leaky
from tests.targets.texts import text


def relu(inputs: str) -> ModelProto:
    return text("[n] y = Relu (x)", inputs=inputs, outputs="float[] y", initializers="")


def convert(
    folder: Path, files: dict[str, str], *arguments: str, atc: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run convert.sh where atc, if there is one, prints its arguments one a line."""
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    if atc:
        (bin_folder / "atc").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        (bin_folder / "atc").chmod(0o755)
    for name, content in files.items():
        (folder / name).write_text(content)
    path = f"{bin_folder}:/usr/bin:/bin"
    return subprocess.run(
        ["sh", folder / "convert.sh", *arguments],
        env={"PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("inputs", "conversion", "options"),
    [
        (
            "float[1,3,8,8] x",
            Conversion(soc="Ascend310P3"),
            ["--input_format=NCHW", "--soc_version=Ascend310P3", "--precision_mode=force_fp16"],
        ),
        (
            "float[N,3,8,8] x",
            Conversion(soc="Ascend310B1", precision="allow_mix_precision"),
            [
                "--input_format=NCHW",
                "--input_shape=x:1,3,8,8",
                "--soc_version=Ascend310B1",
                "--precision_mode=allow_mix_precision",
            ],
        ),
        (
            "float[N,T] x, float[1,4] z",
            Conversion(soc="Ascend310P3", shapes={"x": (2, 7)}, switches={"B": False, "A": True}),
            [
                "--input_format=ND",
                "--input_shape=x:2,7;z:1,4",
                "--soc_version=Ascend310P3",
                "--precision_mode=force_fp16",
                "--fusion_switch_file=fusion_switch.cfg",
            ],
        ),
        (
            "float[1,3,4,8,8] x",
            Conversion(soc="Ascend910B3"),
            ["--input_format=NCDHW", "--soc_version=Ascend910B3", "--precision_mode=force_fp16"],
        ),
    ],
)
def test_command(inputs: str, conversion: Conversion, options: list[str], tmp_path: Path) -> None:
    """Exactly these options, and those that the caller adds."""
    files = bundle(relu(inputs), conversion)
    done = convert(tmp_path, files, conversion.soc or "", "--log=error", ASCEND_OPP_PATH="/opp")
    assert done.stderr == ""
    head = ["--framework=5", "--model=model.onnx", "--output=model"]
    tail = ["--check_report=check_result.json", "--log=error"]
    assert done.stdout.splitlines() == [*head, *options, *tail]


def test_chip_and_shape_from_outside(tmp_path: Path) -> None:
    """The argument and INPUT_SHAPE win over what the bundle was written for."""
    files = bundle(relu("float[N,3] x"), Conversion(soc="Ascend310P3"))
    done = convert(tmp_path, files, "Ascend310B1", ASCEND_OPP_PATH="/opp", INPUT_SHAPE="x:4,3")
    assert "--soc_version=Ascend310B1" in done.stdout
    assert "--input_shape=x:4,3" in done.stdout
    assert "--soc_version=Ascend310P3" in convert(tmp_path, files, ASCEND_OPP_PATH="/opp").stdout


@pytest.mark.parametrize(
    ("conversion", "atc", "environment", "message"),
    [
        (Conversion(soc="Ascend310P3"), False, {}, "there is no atc. Install the CANN toolkit"),
        (Conversion(soc="Ascend310P3"), True, {}, "ASCEND_OPP_PATH is not set"),
        (Conversion(), True, {"ASCEND_OPP_PATH": "/opp"}, "say which chip: ./convert.sh Ascend310P3"),
        (
            Conversion(soc="Ascend310P3"),
            True,
            {"ASCEND_OPP_PATH": "/opp"},
            "INPUT_SHAPE='x:1,3,<H>,<W>' ./convert.sh Ascend310P3",
        ),
        (
            Conversion(soc="Ascend310P3", shapes={"x": (1, 3, 8, 8)}, plugin=("ConvLeakyRelu",)),
            True,
            {"ASCEND_OPP_PATH": "/opp"},
            "the parser plugin for ConvLeakyRelu is not installed; run plugin/install.sh first",
        ),
    ],
)
def test_script_says_what_is_missing(
    conversion: Conversion, atc: bool, environment: dict[str, str], message: str, tmp_path: Path
) -> None:
    """Exit status 2 and the way out."""
    files = bundle(relu("float[N,3,H,W] x"), conversion)
    done = convert(tmp_path, files, atc=atc, **environment)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_installed_plugin_is_found(tmp_path: Path) -> None:
    """Where install.sh puts it; that of other operators is not it."""
    library = (
        tmp_path / "opp/vendors/onnx_fuser_conv_leaky_relu_opset11/framework/onnx/libcust_onnx_parsers.so"
    )
    library.parent.mkdir(parents=True)
    library.touch()
    for names, status in ((("ConvLeakyRelu",), 0), (("GemmLeakyRelu",), 2)):
        files = bundle(relu("float[1] x"), Conversion(soc="Ascend310P3", plugin=names))
        assert convert(tmp_path, files, ASCEND_OPP_PATH=str(tmp_path / "opp")).returncode == status


def test_names_are_quoted(tmp_path: Path) -> None:
    """Input and file names with spaces and quotes reach atc as they are."""
    model = conv_bn_leaky()
    model.graph.input[0].name = "it's x;y"
    files = bundle(model, Conversion(soc="Ascend310P3"), model_file="my model.onnx")
    done = convert(tmp_path, files, ASCEND_OPP_PATH="/opp")
    assert done.stderr == ""
    assert "--model=my model.onnx" in done.stdout.splitlines()
    assert "--input_shape=it's x;y:1,3,8,8" in done.stdout.splitlines()


def test_readme_and_switches() -> None:
    """Names, shapes, and what the precision means; nothing left to fill in."""
    files = bundle(conv_bn_leaky(), Conversion(switches={"ConvBatchnormFusionPass": False}))
    assert sorted(files) == ["README.md", "convert.sh", "fusion_switch.cfg"]
    assert files["fusion_switch.cfg"] == "ConvBatchnormFusionPass:off\n"
    assert "| `x` | input | N × 3 × 8 × 8 |" in files["README.md"]
    assert "65504" in files["README.md"]
    assert "`INPUT_SHAPE=x:1,3,8,8 ./convert.sh`" in files["README.md"]
    assert "INPUT_SHAPE=" not in bundle(conv_bn_leaky(batch=1), Conversion())["README.md"]
    assert "@" not in files["README.md"]
    assert "@" not in files["convert.sh"].replace("$@", "")
    assert "fusion_switch.cfg" not in bundle(conv_bn_leaky(), Conversion())


@pytest.mark.parametrize(
    ("conversion", "message"),
    [
        (Conversion(soc="310P3"), "'310P3' is no chip ATC knows"),
        (Conversion(precision="fp16"), "'fp16' is no --precision_mode of ATC; use one of force_fp16"),
        (Conversion(shapes={"q": (1,)}), "the model has no input 'q'; its inputs are x"),
        (Conversion(shapes={"x": (1, 2)}), r"input 'x' has 4 dims, and \[1, 2\] has 2"),
    ],
)
def test_what_atc_would_not_take(conversion: Conversion, message: str) -> None:
    """Mistakes are said here, not on the server."""
    with pytest.raises(ConfigError, match=message):
        bundle(conv_bn_leaky(), conversion)
