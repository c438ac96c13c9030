"""The ONNX parser plugin that teaches ATC a fused operator: C++ written from the operator's own definition.

ATC's parser calls a plugin twice. First it hands over the node, of which the plugin keeps what it needs;
then it asks for the GE operators that stand for it. Facts about GE's operators (names, ports, order of
attributes) are those of CANN's documentation of its operators; the sources are ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx import defs, helper

from fuser.errors import TargetError
from fuser.targets.atc.templates import render

if TYPE_CHECKING:
    from onnx import FunctionProto, NodeProto

# ONNX operator → GE operator, its ports, and its attributes: GE name → ONNX name. All of one output.
_SIMPLE: dict[str, tuple[str, tuple[str, ...], dict[str, str]]] = {
    "Abs": ("Abs", ("x",), {}),
    "Add": ("Add", ("x1", "x2"), {}),
    "Div": ("RealDiv", ("x1", "x2"), {}),
    "Elu": ("Elu", ("x",), {"alpha": "alpha"}),
    "Exp": ("Exp", ("x",), {}),
    "HardSwish": ("HardSwish", ("x",), {}),
    "Identity": ("Identity", ("x",), {}),
    "LeakyRelu": ("LeakyRelu", ("x",), {"negative_slope": "alpha"}),
    "Max": ("Maximum", ("x1", "x2"), {}),
    "Min": ("Minimum", ("x1", "x2"), {}),
    "Mish": ("Mish", ("x",), {}),
    "Mul": ("Mul", ("x1", "x2"), {}),
    "Neg": ("Neg", ("x",), {}),
    "Relu": ("Relu", ("x",), {}),
    "Sigmoid": ("Sigmoid", ("x",), {}),
    "Softplus": ("Softplus", ("x",), {}),
    "Sqrt": ("Sqrt", ("x",), {}),
    "Sub": ("Sub", ("x1", "x2"), {}),
    "Tanh": ("Tanh", ("x",), {}),
}

SWITCH = "fuse_leaky_relu"  # attribute of the node form: 0 leaves the LeakyRelu at the end out


@dataclass(frozen=True)
class _Body:
    """One definition on its way to C++: names of its values there."""

    function: FunctionProto
    variables: dict[str, str]
    optional: frozenset[str]  # inputs a node may lack

    def refuse(self, why: str) -> TargetError:
        return TargetError(
            f"no ATC plugin can be written for {self.function.name}: {why}; "
            "use --fused-as standard, or write the plugin by hand"
        )


def plugin_files(functions: Sequence[FunctionProto], opset: int) -> dict[str, str]:
    """File name → text of a plugin for these fused operators in the default domain at one opset.

    Raises TargetError where a definition holds what no GE operator is known for.
    """
    sources = {f"{_snake(f.name)}_plugin.cc": _source(f, opset) for f in functions}
    names = ", ".join(f.name for f in functions)
    words = {"NAMES": names, "OPSET": str(opset), "VENDOR": vendor([f.name for f in functions], opset)}
    return {
        "fused_ops.h": render("fused_ops.h", {}),
        **sources,
        "CMakeLists.txt": render(
            "CMakeLists.txt", words | {"SOURCES": "\n".join(f"    {name}" for name in sources)}
        ),
        "install.sh": render("install.sh", words | {"SOURCES": " ".join(sources)}),
    }


def vendor(names: Sequence[str], opset: int) -> str:
    """The folder below vendors/ for a plugin of these operators: another plugin does not replace it."""
    return "_".join(["onnx_fuser", *map(_snake, names), f"opset{opset}"])


def is_switched(function: FunctionProto) -> bool:
    """Whether the definition ends with a LeakyRelu of what it computed: the node form can switch it off."""
    last = function.node[-1] if function.node else None
    return (
        last is not None
        and last.op_type == "LeakyRelu"
        and list(last.output) == list(function.output)
        and last.input[0] not in function.input
    )


def _source(function: FunctionProto, opset: int) -> str:
    body = _body(function)
    if len(function.output) != 1:
        raise body.refuse("it has more than one output")
    statements = [*_inputs(body)]
    for i, node in enumerate(function.node):
        if i == len(function.node) - 1 and is_switched(function):
            value = body.variables[node.input[0]]
            statements.append(f'if (attributes.Int("{SWITCH}", 1) == 0) return build.Finish({value}, graph);')
        statements += _node(node, body)
    name = function.name
    return render(
        "plugin.cc",
        {
            "BODY": "\n".join(f"//   {_shown(node)}" for node in function.node),
            "NAME": name,
            "OPSET": str(opset),
            "KEY": f"ai.onnx::{opset}::{name}",
            "LEAST": str(len(function.input) - len(body.optional)),
            "STATEMENTS": "\n".join(f"  {line}" for line in statements),
            "OUTPUT": body.variables[function.output[0]],
        },
    )


def _body(function: FunctionProto) -> _Body:
    values = [*function.input, *(value for node in function.node for value in node.output)]
    variables: dict[str, str] = {}
    for value in dict.fromkeys(values):
        base = "v_" + re.sub(r"\W", "_", value)
        taken = set(variables.values())
        variables[value] = next(
            name for name in (base, *(f"{base}_{i}" for i in range(len(values)))) if name not in taken
        )
    optional: list[str] = []
    for value in reversed(function.input):  # a node can leave out inputs at its end only
        if not all(_may_lack(node, value) for node in function.node):
            break
        optional.append(value)
    return _Body(function, variables, frozenset(optional))


def _may_lack(node: NodeProto, value: str) -> bool:
    third = {"Conv", "ConvTranspose", "Gemm"}
    return all(i == 2 and node.op_type in third for i, name in enumerate(node.input) if name == value)


def _inputs(body: _Body) -> Iterator[str]:
    for i, value in enumerate(body.function.input):
        name = body.variables[value]
        if value in body.optional:
            yield f"ge::Operator {name};"
            yield f'if (build.Has({i})) {name} = build.Input({i}, "{name[2:]}");'
        else:
            yield f'const ge::Operator {name} = build.Input({i}, "{name[2:]}");'


def _node(node: NodeProto, body: _Body) -> Iterator[str]:
    if node.domain not in {"", "ai.onnx"}:
        raise body.refuse(f"its definition calls {node.domain}::{node.op_type}")
    if node.op_type in {"Conv", "ConvTranspose"}:
        yield from _convolution(node, body)
    elif node.op_type == "Gemm":
        yield from _gemm(node, body)
    elif node.op_type in _SIMPLE:
        yield from _simple(node, body)
    else:
        raise body.refuse(f"its definition has {node.op_type}, for which no GE operator is known here")


def _simple(node: NodeProto, body: _Body) -> Iterator[str]:
    kind, ports, attributes = _SIMPLE[node.op_type]
    if len(node.input) != len(ports):
        raise body.refuse(f"its definition has a {node.op_type} of {len(node.input)} inputs")
    result = body.variables[node.output[0]]
    values = ", ".join(
        f'"{port}", {body.variables[value]}' for port, value in zip(ports, node.input, strict=True)
    )
    constant = "" if attributes else "const "
    yield f'{constant}ge::Operator {result} = build.Apply("{kind}", "{result[2:]}", {values});'
    for theirs, ours in attributes.items():
        yield f'{result}.SetAttr("{theirs}", {_attribute(node, ours, body)});'


def _convolution(node: NodeProto, body: _Body) -> Iterator[str]:
    result = body.variables[node.output[0]]
    named = {a.name: a for a in node.attribute}
    if "auto_pad" in named:
        pad = _attribute(node, "auto_pad", body)
        yield f'if ({pad}.compare(0, 4, "SAME") == 0) return domi::FAILED;  // pads say it all'
    extra = "onnx_fuser::Ints()"
    if node.op_type == "ConvTranspose":
        extra = _attribute(node, "output_padding", body)
        if "output_shape" in named:
            shape = _attribute(node, "output_shape", body)
            yield f"if (!{shape}.empty()) return domi::FAILED;  // pads say this too"
    attributes = [_attribute(node, name, body) for name in ("kernel_shape", "strides", "dilations", "pads")]
    yield from _call(
        f"const onnx_fuser::Window {result}_window", *attributes, extra, _attribute(node, "group", body)
    )
    transposed = "true" if node.op_type == "ConvTranspose" else "false"
    x, w = (body.variables[value] for value in node.input[:2])
    yield from _call(
        f"const ge::Operator {result} = onnx_fuser::Convolve",
        f'build, "{result[2:]}", {transposed}, {result}_window, {x}, {w}',
        _third(node, body),
    )


def _gemm(node: NodeProto, body: _Body) -> Iterator[str]:
    result = body.variables[node.output[0]]
    a, b = (body.variables[value] for value in node.input[:2])
    yield from _call(
        f"const ge::Operator {result} = onnx_fuser::Multiply",
        f'build, "{result[2:]}"',
        _attribute(node, "alpha", body),
        _attribute(node, "beta", body),
        *(f"{_attribute(node, name, body)} != 0" for name in ("transA", "transB")),
        f"{a}, {b}, {_third(node, body)}",
    )


def _call(head: str, *arguments: str) -> Iterator[str]:
    """A statement with one argument a line."""
    yield f"{head}("
    for i, argument in enumerate(arguments):
        yield f"    {argument}{');' if i == len(arguments) - 1 else ','}"


def _third(node: NodeProto, body: _Body) -> str:
    """Address of the third operand, or null."""
    if len(node.input) < 3 or not node.input[2]:
        return "nullptr"
    name = body.variables[node.input[2]]
    if node.input[2] not in body.optional:
        return f"&{name}"
    index = list(body.function.input).index(node.input[2])
    return f"build.Has({index}) ? &{name} : nullptr"


_KINDS = {  # of attributes, and how fused_ops.h reads them
    defs.OpSchema.AttrType.INT: "Int",
    defs.OpSchema.AttrType.FLOAT: "Float",
    defs.OpSchema.AttrType.STRING: "Text",
    defs.OpSchema.AttrType.INTS: "List",
}


def _attribute(node: NodeProto, name: str, body: _Body) -> str:
    """C++ for an attribute of a definition's node: read from the fused node, or written in the definition."""
    formal = defs.get_schema(node.op_type, body.function.opset_import[0].version, "").attributes[name]
    default = formal.default_value
    kind = _KINDS[formal.type]
    fallback = _literal(kind, helper.get_attribute_value(default) if default.type else None)
    for attribute in node.attribute:
        if attribute.name == name and attribute.ref_attr_name:
            return f'attributes.{kind}("{attribute.ref_attr_name}", {fallback})'
        if attribute.name == name:
            written = _literal(kind, helper.get_attribute_value(attribute))
            return f"std::string({written})" if kind == "Text" else written
    return f"std::string({fallback})" if kind == "Text" else fallback


def _literal(kind: str, value: object) -> str:
    if kind == "List":
        numbers = list(value) if isinstance(value, Sequence) else []
        return f"onnx_fuser::Ints{{{', '.join(map(str, numbers))}}}" if numbers else "onnx_fuser::Ints()"
    if kind == "Float":
        digits = f"{value if isinstance(value, float) else 0.0:.9g}"
        return f"{digits}F" if re.search(r"[.e]", digits) else f"{digits}.0F"
    if kind == "Text":
        return f'"{value.decode()}"' if isinstance(value, bytes) else '""'
    return str(value if isinstance(value, int) else 0)


def _shown(node: NodeProto) -> str:
    return f"{', '.join(node.output)} = {node.op_type}({', '.join(node.input)})"


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", re.sub(r"\W", "_", name)).lower()
