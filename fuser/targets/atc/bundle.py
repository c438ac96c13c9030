"""What lies beside the model for the machine with CANN: atc's command as a script, and what to expect."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuser.errors import ConfigError
from fuser.report.markdown import code
from fuser.targets.atc.facts import is_soc
from fuser.targets.atc.inputs import Input, graph_inputs, input_shape, shape_advice
from fuser.targets.atc.plugin import vendor
from fuser.targets.atc.templates import render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onnx import ModelProto

# --precision_mode of the ATC guide; the first is ATC's own default.
PRECISION_MODES = (
    "force_fp16",
    "force_fp32",
    "cube_fp16in_fp32out",
    "allow_fp32_to_fp16",
    "must_keep_origin_dtype",
    "allow_mix_precision",
    "allow_mix_precision_fp16",
    "allow_mix_precision_bf16",
    "allow_fp32_to_bf16",
)

# GE's own fusions around a convolution, for those who look for the pass that changes a result.
FUSION_PASSES = ("ConvBatchnormFusionPass", "MulMaximumFusionPass", "TbeConvCommonRules0FusionPass")


@dataclass(frozen=True)
class Conversion:
    """How the model is to be compiled.

    ``shapes`` are sizes for inputs that the model leaves open. ``switches`` turns GE's fusion passes on and
    off, by name; None writes no file. ``plugin`` are the operators that the plugin beside the model
    registers.
    """

    soc: str | None = None
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    precision: str = PRECISION_MODES[0]
    switches: Mapping[str, bool] | None = None
    plugin: tuple[str, ...] = ()


def bundle(model: ModelProto, conversion: Conversion, *, model_file: str = "model.onnx") -> dict[str, str]:
    """File name → text of everything but the model, the report and the plugin's sources.

    Raises ConfigError where the conversion is not one ATC has, or gives shapes to what is no input.
    """
    inputs = graph_inputs(model.graph)
    _check(inputs, conversion)
    opset = next((entry.version for entry in model.opset_import if entry.domain in {"", "ai.onnx"}), 0)
    files = {
        "convert.sh": _script(inputs, conversion, model_file, opset),
        "README.md": _readme(model, inputs, conversion, model_file, opset),
    }
    if conversion.switches is not None:
        files["fusion_switch.cfg"] = "".join(
            f"{name}:{'on' if value else 'off'}\n" for name, value in sorted(conversion.switches.items())
        )
    return files


def _check(inputs: Sequence[Input], conversion: Conversion) -> None:
    if conversion.soc is not None and not is_soc(conversion.soc):
        raise ConfigError(
            f"{conversion.soc!r} is no chip ATC knows; write Ascend before the name npu-smi info prints"
        )
    if conversion.precision not in PRECISION_MODES:
        raise ConfigError(
            f"{conversion.precision!r} is no --precision_mode of ATC; use one of {', '.join(PRECISION_MODES)}"
        )
    ranks = {item.name: None if item.dims is None else len(item.dims) for item in inputs}
    for name, shape in conversion.shapes.items():
        if name not in ranks:
            raise ConfigError(f"the model has no input {name!r}; its inputs are {', '.join(ranks)}")
        if ranks[name] not in {None, len(shape)}:
            raise ConfigError(f"input {name!r} has {ranks[name]} dims, and {list(shape)} has {len(shape)}")


def _shape(inputs: Sequence[Input], conversion: Conversion) -> str | None:
    """--input_shape as far as it can be said: None where ATC needs none, "" where the user has to."""
    advice = shape_advice([item for item in inputs if item.name not in conversion.shapes])
    if advice is None:
        return input_shape(inputs, conversion.shapes)
    guessed = {item.name: _batch_of_one(item) for item in inputs if item.is_open}
    sizes = {name: shape for name, shape in guessed.items() if shape is not None} | dict(conversion.shapes)
    return input_shape(inputs, sizes) if len(sizes.keys() & guessed.keys()) == len(guessed) else ""


def _batch_of_one(item: Input) -> list[int] | None:
    if item.dims is None or item.open_axes != (0,):
        return None
    return [1, *(dim for dim in item.dims[1:] if isinstance(dim, int))]


def _format(inputs: Sequence[Input]) -> str:
    ranks = {len(item.dims) if item.dims is not None else 0 for item in inputs}
    return {frozenset({4}): "NCHW", frozenset({5}): "NCDHW"}.get(frozenset(ranks), "ND")


def _script(inputs: Sequence[Input], conversion: Conversion, model_file: str, opset: int) -> str:
    output = re.sub(r"\.onnx$", "", model_file)
    shape = _shape(inputs, conversion)
    options = [
        "--framework=5",
        f"--model={shlex.quote(model_file)}",
        f"--output={shlex.quote(output)}",
        f"--input_format={_format(inputs)}",
        *(['--input_shape="$shape"'] if shape is not None else []),
        '--soc_version="$soc"',
        f"--precision_mode={conversion.precision}",
        *(["--fusion_switch_file=fusion_switch.cfg"] if conversion.switches is not None else []),
        "--check_report=check_result.json",
    ]
    words = {
        "SHAPE": "" if shape is None else _SHAPE.format(shape=shlex.quote(shape), example=_example(inputs)),
        "PLUGIN": _plugin(conversion.plugin, opset),
        "OPTIONS": " \\\n".join(f"    {option}" for option in options),
        "SOC": shlex.quote(conversion.soc) if conversion.soc else "",
        "MODEL": model_file,
        "OUTPUT": output,
    }
    return render("convert.sh", words)


_SHAPE = """
shape=${{INPUT_SHAPE:-{shape}}}
[ -n "$shape" ] || fail \\
    "the model leaves sizes open; say which, such as" \\
    "INPUT_SHAPE='{example}' ./convert.sh $soc"
"""

_PLUGIN = """
installed=$(find "$ASCEND_OPP_PATH/vendors" "${{ASCEND_CUSTOM_OPP_PATH:-/nowhere}}" \\
    -path '*/{vendor}/*' -name libcust_onnx_parsers.so 2>/dev/null || true)
[ -n "$installed" ] || fail \\
    "the parser plugin for {names} is not installed; run plugin/install.sh first"
"""


def _plugin(names: Sequence[str], opset: int) -> str:
    return _PLUGIN.format(names=", ".join(names), vendor=vendor(names, opset)) if names else ""


def _example(inputs: Sequence[Input]) -> str:
    advice = shape_advice(inputs)
    found = re.search(r'--input_shape="([^"]*)"', advice.fixed if advice else "")
    return found[1] if found else ""


def _readme(
    model: ModelProto, inputs: Sequence[Input], conversion: Conversion, model_file: str, opset: int
) -> str:
    rows = [f"| `{item.name}` | input | {_show(item)} |" for item in inputs]
    rows += [f"| `{value.name}` | output | |" for value in model.graph.output]
    names = ", ".join(conversion.plugin)
    words = {
        "OPSET": str(opset),
        "NODES": str(len(model.graph.node)),
        "ROWS": "\n".join(rows),
        "SOC": conversion.soc or "Ascend310P3",
        "PLUGIN": f"$ (cd plugin && ./install.sh)   # registers {names}\n" if names else "",
        "SIZES": _sizes(inputs, _shape(inputs, conversion)),
        "PRECISION": conversion.precision,
        "NUMBERS": _NUMBERS.get(conversion.precision, _MIXED),
        "MODEL": model_file,
    }
    return render("bundle.md", words)


def _sizes(inputs: Sequence[Input], shape: str | None) -> str:
    if shape is None:
        return ""
    given = f"INPUT_SHAPE={shlex.quote(shape or _example(inputs))} ./convert.sh"
    return f"\nOther sizes are given before the command, as here: {code(given)}"


def _show(item: Input) -> str:
    if item.dims is None:
        return "any"
    return " × ".join("?" if dim is None else str(dim) for dim in item.dims)


_NUMBERS = {
    "force_fp16": """ATC's default. The model is computed in float16, whatever its weights' type. A float16
number has 11 significant bits, so each rounding changes a value by up to one part in 2048, and it ends at
65504: a value beyond that becomes infinity. How roundings add up depends on the model; `onnx-fuser optimize
--target atc --precision fp16` compares a float16 copy beforehand.""",
    "must_keep_origin_dtype": """the types of the model. Convolutions in float32 are refused on most chips
(EZ3003); where they are not, differences are those between two implementations in float32.""",
    "force_fp32": "float32 where a kernel has it, which is slower; some chips have no float32 convolution.",
}
_MIXED = """ATC decides by operator which are computed in 16 bits: roundings of one part in 2048 (float16)
or 256 (bfloat16), and infinity beyond the type's range."""
