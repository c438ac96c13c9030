"""What an operator's plugin refuses or ignores: the ``checks`` of operators.json applied to one node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from onnx import AttributeProto, NodeProto, TensorProto

from fuser.targets.atc.facts import parse_ranges, table
from fuser.targets.finding import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# The attribute kinds that checks read.
_READ: dict[int, Callable[[AttributeProto], Any]] = {
    AttributeProto.INT: lambda a: a.i,
    AttributeProto.FLOAT: lambda a: a.f,
    AttributeProto.STRING: lambda a: a.s.decode("utf-8", "replace"),
    AttributeProto.INTS: lambda a: list(a.ints),
}
LACKING = {"double": TensorProto.DOUBLE, "int64": TensorProto.INT64}


@cache
def checked(op_type: str, *, types: bool) -> bool:
    """Whether there is anything to check about an operator; ``types``: in a model with double or int64."""
    return any(types or "lacks" not in check for check in table()["checks"].get(op_type, ()))


def check_node(
    node: NodeProto, name: str, opset: int, types: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
) -> Iterator[Finding]:
    """Findings about one node. ``types`` and ``shapes`` are what is known of values."""
    values = {a.name: _READ[a.type](a) for a in node.attribute if a.type in _READ}
    seen = _Seen(node, values, _rank(node, values, shapes), types)
    for check in table()["checks"].get(node.op_type, ()):
        if "opsets" in check and opset not in parse_ranges(check["opsets"]):
            continue
        for kind, apply in _KINDS.items():
            if kind in check:
                said = apply(check, seen)
                if said is not None:
                    severity, message, fix, rule = said
                    yield Finding(check.get("code"), severity, name, f"{node.op_type} {message}", fix, rule)
                break


_Said: TypeAlias = "tuple[Severity, str, str, str] | None"  # severity, message, fix, rule


@dataclass(frozen=True)
class _Seen:
    node: NodeProto
    values: Mapping[str, Any]  # attributes
    rank: int | None  # number of spatial axes
    types: Mapping[str, int]


def _rank(node: NodeProto, values: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> int | None:
    """Number of spatial axes."""
    for key, per_axis in (("kernel_shape", 1), ("strides", 1), ("dilations", 1), ("pads", 2)):
        if values.get(key):
            return len(values[key]) // per_axis
    weight = shapes.get(node.input[1]) if len(node.input) > 1 else None
    return len(weight) - 2 if weight else None


def _needs_one_of(check: Any, seen: _Seen) -> _Said:
    if any(seen.values.get(key) for key in check["needs_one_of"]):
        return None
    names = ", ".join(check["needs_one_of"])
    return (
        "error",
        f"has none of the attributes {names}",
        "write them all, from the weight's shape",
        "attribute",
    )


def _needs(check: Any, seen: _Seen) -> _Said:
    if seen.values.get(check["needs"]):
        return None
    return (
        "error",
        f"has no attribute {check['needs']}",
        "write it; the plugin does not derive it",
        "attribute",
    )


def _even(check: Any, seen: _Seen) -> _Said:
    found = seen.values.get(check["even"], [])
    if len(found) % 2 == 0:
        return None
    return (
        "error",
        f"has {len(found)} {check['even']}, an odd number",
        "give a begin and an end per axis",
        "attribute",
    )


def _inputs(check: Any, seen: _Seen) -> _Said:
    low, high = check["inputs"]
    if low <= len(seen.node.input) <= high:
        return None
    message = f"has {len(seen.node.input)} inputs; its plugin takes {low} to {high}"
    return "error", message, "write the missing inputs, or export at another opset", "inputs"


def _outputs(check: Any, seen: _Seen) -> _Said:
    if len(seen.node.output) <= check["outputs"]:
        return None
    return (
        "error",
        f"has {len(seen.node.output)} outputs; its plugin writes {check['outputs']}",
        "do not use the others",
        "outputs",
    )


def _ranks(check: Any, seen: _Seen) -> _Said:
    if seen.rank is None or seen.rank in check["ranks"]:
        return None
    dims = ", ".join(map(str, check["ranks"]))
    return "error", f"has {seen.rank} spatial axes; ATC takes {dims}", "reshape to fewer axes", "rank"


def _attribute(check: Any, seen: _Seen) -> _Said:
    key = check["attribute"]
    found = seen.values.get(key)
    if found is None or check.get("rank", seen.rank) != seen.rank:
        return None
    if "allowed" in check and found not in check["allowed"]:
        allowed = " or ".join(map(str, check["allowed"]))
        return (
            "error",
            f"has {key} {found}; its plugin takes {allowed}",
            f"write it with {allowed}",
            "attribute",
        )
    if "ignored" in check and (check["ignored"] == "any" or found in check["ignored"]):
        return "warning", f"has {key} {found}, which ATC ignores", "export without it", "ignored-attribute"
    if "doubtful" in check and found in check["doubtful"]:
        return (
            "warning",
            f"has {key} {found}, which is not documented as supported",
            "write explicit pads",
            "limit",
        )
    if "between" in check:
        low, high = check["between"]
        if any(not low <= number <= high for number in found):
            message = f"has {key} {found}; documented are {low} to {high}"
            return (
                "warning",
                message,
                "split the operator, or expect E19999 or EZ3003 when it is compiled",
                "limit",
            )
    return None


def _some_input_of(check: Any, seen: _Seen) -> _Said:
    if any(len(seen.node.input) > i and seen.node.input[i] for i in check["some_input_of"]):
        return None
    return "error", "has neither min nor max", "give one, or remove the node: it does nothing", "inputs"


def _explicit(check: Any, seen: _Seen) -> _Said:
    """ATC derives the number of axes from the attributes; with kernel_shape alone, three come out wrong."""
    missing = [key for key in check["explicit"] if key not in seen.values]
    if not missing or seen.rank is None:
        return None
    if "kernel_shape" in seen.values and (seen.rank < 3 or len(missing) < 3):
        return None
    message = f"has no {', '.join(missing)}, from which ATC derives its number of axes"
    return "warning", message, "write kernel_shape, strides, pads and dilations", "explicit"


def _lacks(check: Any, seen: _Seen) -> _Said:
    for name in check["lacks"]:
        for i, value in enumerate(seen.node.input):
            if i in check.get("at", (i,)) and seen.types.get(value) == LACKING[name]:
                message = f"has the {name} input {value!r}, which the parser takes and no kernel computes"
                narrower = "float" if name == "double" else "int32"
                return "warning", message, f"export with {narrower}", "dtype"
    return None


_KINDS = {
    "needs_one_of": _needs_one_of,
    "needs": _needs,
    "even": _even,
    "inputs": _inputs,
    "outputs": _outputs,
    "ranks": _ranks,
    "attribute": _attribute,
    "some_input_of": _some_input_of,
    "explicit": _explicit,
    "lacks": _lacks,
}
