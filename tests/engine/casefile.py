"""Case files: what goes in, `# output`, what comes out, and the reasons for what stays; see tests/cases/README.md.

``python -m tests.engine.casefile FILE...`` writes the outputs and reasons anew; read the difference before you believe it.
"""

from __future__ import annotations

import itertools
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import onnx.printer
from numpy.typing import NDArray
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

FOLDER = Path(__file__).parent.parent / "cases"
OPTIONS = frozenset({"opset", "ir", "type", "args", "verdict", "reason", "xfail", "check"})
CAST_TARGET = {"float": 1, "float16": 10, "double": 11, "bfloat16": 16}


@dataclass(frozen=True)
class Case:
    """One case at one opset, IR version and element type."""

    file: Path
    name: str
    before: str
    after: str | None
    reasons: tuple[str, ...]
    options: dict[str, list[str]] = field(default_factory=dict)
    opset: int = 0
    ir: int = 0
    dtype: str = "float"

    def __str__(self) -> str:
        variant = [
            str(v)
            for k, v in (("opset", self.opset), ("ir", self.ir), ("type", self.dtype))
            if k in self.options
        ]
        return "-".join([self.file.stem, self.name, *variant])

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for fuser.fuse: ``freeze_inputs`` alone means True."""
        pairs = (a.partition("=") for a in self.options.get("args", []))
        return {
            name: value.split(",") if name in ("only", "disable") else value or True
            for name, _, value in pairs
        }

    @property
    def verdict(self) -> str:
        """What the parity check must say."""
        return next(iter(self.options.get("verdict", [])), "passed")

    def model(self) -> ModelProto:
        """What goes in, its weights drawn."""
        model = parse(self._variant(self.before))
        draw_weights(model)
        return model

    def expected(self) -> ModelProto:
        """What must come out; its weights hold nothing."""
        return parse(self._variant(self.before if self.after is None else self.after))

    def _variant(self, text: str) -> str:
        if self.opset:
            text = re.sub(r'("" ?: ?)\d+', rf"\g<1>{self.opset}", text)
        if self.ir:
            ir = max(self.ir, 8) if '"fuser"' in text else self.ir  # functions need IR 8
            text = re.sub(r"(ir_version: ?)\d+", rf"\g<1>{ir}", text)
        if self.dtype != "float":
            text = re.sub(r"\bfloat(?=\[|\s+[\w{])", self.dtype, text)
        return text


def parse(text: str) -> ModelProto:
    """The model of a text; the parser's own errors come as bytes."""
    try:
        return onnx.parser.parse_model(text)
    except onnx.parser.ParseError as e:
        raise ValueError(e.args[0].decode() if isinstance(e.args[0], bytes) else str(e)) from None


# ---- reading files


def sections(file: Path) -> Iterator[tuple[str, str]]:
    """Name and text of each case of a file."""
    parts = re.split(r"^=== (\S+)\n", file.read_text(), flags=re.M)
    yield from zip(parts[1::2], parts[2::2], strict=True)


def read_case(file: Path, name: str, text: str) -> Case:
    """The case without its variants."""
    options: dict[str, list[str]] = {}
    reasons: list[str] = []
    head, _, body = f"\n{text}".partition("\n<")
    before, mark, after = ("<" + body).partition("\n# output\n")
    for line in head.splitlines():
        key, colon, value = line.removeprefix("# ").partition(": ")
        if not colon or key not in OPTIONS:
            continue
        if key == "reason":
            reasons.append(value)
        elif key == "xfail":
            options[key] = [value]
        else:
            options[key] = value.split()
    return Case(file, name, before, after if mark else None, tuple(reasons), options)


def all_cases(folder: Path = FOLDER) -> list[Case]:
    """Every case of the folder in every variant it asks for."""
    found = []
    for file in sorted(folder.glob("*.txt")):
        for name, text in sections(file):
            case = read_case(file, name, text)
            spans = (
                case.options.get("opset", ["0"]),
                case.options.get("ir", ["0"]),
                case.options.get("type", ["float"]),
            )
            for opset, ir, dtype in itertools.product(*spans):
                found.append(replace(case, opset=int(opset), ir=int(ir), dtype=dtype))
    return found


# ---- drawing weights


def draw_weights(model: ModelProto) -> None:
    """Values that nothing makes become initializers, Constants without data get some; both drawn from their names."""
    graphs: list[GraphProto] = [model.graph]
    nodes: list[NodeProto] = [*itertools.chain.from_iterable(f.node for f in model.functions)]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            _draw_undefined(graph)
            nodes += graph.node
            continue
        node = nodes.pop()
        for a in node.attribute:
            if a.type == AttributeProto.GRAPH:
                graphs.append(a.g)
            elif a.type == AttributeProto.TENSOR and not has_data(a.t):
                a.t.CopyFrom(drawn(node.output[0], a.t.data_type, list(a.t.dims)))
                a.t.name = ""


def _draw_undefined(graph: GraphProto) -> None:
    defined = {o for n in graph.node for o in n.output} | {i.name for i in graph.input if i.name}
    initializers = {t.name for t in graph.initializer}
    undefined = [v for v in graph.value_info if v.name not in defined | initializers]
    kept = [v for v in graph.value_info if v.name in defined | initializers]
    for value in undefined:
        tensor = value.type.tensor_type
        graph.initializer.append(drawn(value.name, tensor.elem_type, [d.dim_value for d in tensor.shape.dim]))
    del graph.value_info[:]
    graph.value_info.extend(kept)
    read = {v for n in graph.node for v in n.input}
    for value in graph.input:  # an input called init_… has a default: it is an initializer as well
        if value.name.startswith("init_") and value.name in read:
            tensor = value.type.tensor_type
            graph.initializer.append(
                drawn(value.name, tensor.elem_type, [d.dim_value for d in tensor.shape.dim])
            )


def has_data(tensor: TensorProto) -> bool:
    """Whether the tensor's text gave it as many values as it has elements."""
    return numpy_size(tensor) == int(np.prod(tensor.dims))


def numpy_size(tensor: TensorProto) -> int:
    """How many values the tensor's text gave."""
    fields = (
        tensor.float_data,
        tensor.int32_data,
        tensor.int64_data,
        tensor.double_data,
        tensor.uint64_data,
        tensor.string_data,
    )
    return max(map(len, fields))


def drawn(name: str, elem_type: int, dims: list[int]) -> TensorProto:
    """The tensor that a name stands for: the same name and shape, the same values.

    What a name begins with says what is drawn: var, div: positive. zero, one: that. same: 0.2 in every element.
    nan, inf: one such element. tiny, big: near 1e-30, 1e4. negative: below zero. Else standard normal, scaled down for weights.
    """
    random = np.random.default_rng([zlib.crc32(name.removeprefix("init_").encode()), *dims])
    kind = helper.tensor_dtype_to_np_dtype(elem_type)
    if np.dtype(kind).kind in "iub":
        return numpy_helper.from_array(random.integers(0, 3, dims).astype(kind), name)
    values = _values(name.removeprefix("init_"), random, dims)
    if dims and len(dims) > 2:
        values = values if _role(name) else values / np.sqrt(np.prod(dims[1:]))
    return numpy_helper.from_array(np.asarray(values).astype(kind), name)


def _role(name: str) -> str:
    words = ("var", "div", "zero", "one", "same", "nan", "inf", "tiny", "big", "negative")
    return next((w for w in words if name.removeprefix("init_").startswith(w)), "")


def _values(name: str, random: np.random.Generator, dims: list[int]) -> NDArray[Any]:
    normal = np.asarray(random.standard_normal(dims))
    match _role(name):
        case "var" | "div":
            return np.asarray(random.uniform(0.5, 2.0, dims))
        case "zero" | "one" | "same":
            return np.full(dims, {"zero": 0.0, "one": 1.0, "same": 0.2}[_role(name)])
        case "nan" | "inf":
            normal.reshape(-1)[normal.size // 2] = {"nan": np.nan, "inf": np.inf}[_role(name)]
            return normal
        case "tiny":
            return normal * 1e-30
        case "big":
            return np.asarray(random.uniform(0.5, 2.0, dims)) * 1e4
        case "negative":
            return -np.asarray(random.uniform(0.5, 2.0, dims))
        case _:
            return normal


# ---- comparing structure


def structure(model: ModelProto, known: set[str]) -> str:
    """The model as text: weights reduced to their types, names that are not in ``known`` numbered as they appear.

    Provenance and the definitions of the fused operators are left out.
    """
    bare = ModelProto()
    bare.CopyFrom(model)
    kept = [f for f in bare.functions if f.domain != "fuser"]
    del bare.functions[:]
    bare.functions.extend(kept)
    new: dict[str, str] = {}
    for part in (*bare.functions, bare.graph):
        _bare(part, known, new)
    return onnx.printer.to_text(bare)


def _bare(part: GraphProto | FunctionProto, known: set[str], new: dict[str, str]) -> None:
    def named(name: str) -> str:
        if not name or name in known:
            return name
        return new.setdefault(name, f"new{len(new) + 1}")

    for node in part.node:
        del node.metadata_props[:]
        for names in (node.input, node.output):
            renamed = [named(v) for v in names]
            del names[:]
            names.extend(renamed)
        node.name = named(node.name)
        for a in node.attribute:
            if a.type == AttributeProto.GRAPH:
                _bare(a.g, known, new)
            elif a.type == AttributeProto.TENSOR and int(np.prod(a.t.dims)) > 1:
                dims, kind = list(a.t.dims), a.t.data_type
                a.t.Clear()
                a.t.dims.extend(dims)
                a.t.data_type = kind
    if isinstance(part, FunctionProto):
        return
    weights = {
        t.name: helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in part.initializer
    }
    made = {o for n in part.node for o in n.output} | {i.name for i in part.input}
    weights.update(
        {v.name: v for v in _copies(part.value_info) if v.name not in made and v.name not in weights}
    )
    listed = {i.name for i in part.input}
    order = {v: k for k, v in reversed(list(enumerate(v for n in part.node for v in n.input)))}
    del part.initializer[:], part.value_info[:]
    for value in weights.values():
        was, value.name = value.name, named(value.name)
        if was not in listed:
            part.value_info.append(value)
    part.value_info.sort(key=lambda v: (order.get(v.name, len(order)), v.name))


def _copies(values: Any) -> list[ValueInfoProto]:
    out = []
    for v in values:
        copy = ValueInfoProto()
        copy.CopyFrom(v)
        out.append(copy)
    return out


def names_of(model: ModelProto) -> set[str]:
    """Every value's and node's name."""
    found: set[str] = set()

    def visit(part: GraphProto | FunctionProto) -> None:
        if isinstance(part, GraphProto):
            found.update(
                v.name for vs in (part.input, part.output, part.value_info, part.initializer) for v in vs
            )
        for node in part.node:
            found.update([node.name, *node.input, *node.output])
            for a in node.attribute:
                if a.type == AttributeProto.GRAPH:
                    visit(a.g)

    for part in (model.graph, *model.functions):
        visit(part)
    return found


# ---- renewing


def renew(file: Path) -> None:
    """Write what the engine does today into the file."""
    import fuser

    out = [re.split(r"^=== ", file.read_text(), maxsplit=1, flags=re.M)[0]]
    for name, text in sections(file):
        case = read_case(file, name, text)
        if "xfail" in case.options:  # what should come out is not what does
            out.append(f"=== {name}\n{text.strip()}\n\n")
            continue
        first = next(iter(case.options.get("type", ["float"])))
        case = replace(case, dtype=first if first == "float" else "float")
        model = case.model()
        result = fuser.fuse(model, **case.arguments, parity=False)
        head, _, _ = f"\n{text}".partition("\n<")
        lines = [line for line in head.splitlines() if not line.startswith("# reason: ")]
        lines += [f"# reason: {d}" for d in result.report.declined]
        known = names_of(model)
        same = structure(model, known) == structure(result.model, known)
        after = "" if same else "\n# output\n" + _readable(result.model, known) + "\n"
        out.append(
            f"=== {name}\n" + "\n".join(lines).strip() + "\n" + case.before.rstrip() + "\n" + after + "\n"
        )
    file.write_text("".join(out).rstrip() + "\n")


def _readable(model: ModelProto, known: set[str]) -> str:
    """The model as text, its weights as declarations, under the names it has."""
    text = structure(model, known | names_of(model))
    text = re.sub(r"<\n +(ir_version: \d+),\n +(opset_import: .*)\n>", r"<\1, \2>", text)
    return re.sub(r" +$", "", text, flags=re.M).strip()


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        renew(Path(argument))
