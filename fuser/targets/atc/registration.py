"""Whether every operator is registered at exactly the opset the model imports: E13010, E16005 and kin."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from fuser.targets.atc.facts import (
    REPLACEMENTS,
    UNVERSIONED,
    Release,
    registered_names,
    release,
    show_ranges,
)
from fuser.targets.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from onnx import ModelProto, NodeProto

    from fuser.targets.atc.names import Scope

_DEFAULT = "ai.onnx"
_Key = tuple[str, int, str]  # domain, opset, op_type: what the parser looks up


@dataclass
class _Seen:
    first: str  # name of the first node
    count: int = 1


def check_registration(
    model: ModelProto, found: Sequence[Scope], chosen: Release, plugin: Collection[str]
) -> Iterator[Finding]:
    """Findings about imports and operators. Nodes of one type are one finding, at the first of them.

    ``plugin`` are operators of the default domain that a plugin registers at the model's opset.
    """
    imports = {entry.domain: int(entry.version) for entry in model.opset_import}
    normal = {domain or _DEFAULT: version for domain, version in imports.items()}
    operators: dict[_Key, _Seen] = {}
    without_opset: dict[str, _Seen] = {}
    ambiguous: _Seen | None = None
    borrowing: dict[_Key, _Seen] = {}
    for scope in found:
        for node, name in zip(scope.graph.node, scope.names, strict=True):
            if node.op_type in UNVERSIONED:
                continue
            if chosen.several_imports and not node.domain and len(imports) != 1:
                ambiguous = _count(ambiguous, name)
            key = _lookup(node, imports, normal, chosen)
            if isinstance(key, str):
                without_opset[key] = _count(without_opset.get(key), name)
            elif not node.domain and key[0] != _DEFAULT:
                borrowing[key] = _count(borrowing.get(key), name)
            elif key[0] != _DEFAULT or node.op_type not in plugin:
                operators[key] = _count(operators.get(key), name)
    if ambiguous is not None:
        yield _several_imports(len(imports), ambiguous)
    elif len(normal) > 1:
        yield Finding(
            None,
            "note",
            "",
            f"the model imports {len(normal)} opsets; ATC before CANN 9.2 takes one only (E16005)",
            "drop the unused imports; `onnx-fuser optimize --target atc` does",
            "several-imports",
        )
    for domain, seen in without_opset.items():
        yield Finding(
            "E19999",
            "error",
            seen.first,
            f"domain {domain!r} is in no opset import as ATC reads them, but {seen.count} nodes are of it",
            'write the default domain as "" in nodes and imports alike'
            if domain == _DEFAULT
            else "import it",
            "missing-import",
        )
    for key, seen in list(borrowing.items())[:1]:
        count = sum(other.count for other in borrowing.values())
        why = f"{count} nodes have no domain, and {key[0]!r} is all the model imports"
        yield _refused(chosen, (key, _Seen(seen.first)), why, "import the default domain", "missing-import")
    yield from _unregistered(model, operators, chosen)
    yield from _assumed(operators, chosen)


def _count(seen: _Seen | None, name: str) -> _Seen:
    if seen is None:
        return _Seen(name)
    seen.count += 1
    return seen


def _lookup(node: NodeProto, imports: dict[str, int], normal: dict[str, int], chosen: Release) -> _Key | str:
    """The key the parser looks up, or the domain that has no opset."""
    if not chosen.several_imports:
        domain = node.domain or _DEFAULT
        return (domain, normal[domain], node.op_type) if domain in normal else domain
    if node.domain:  # compared with the import as it is spelled
        return (node.domain, imports[node.domain], node.op_type) if node.domain in imports else node.domain
    if len(imports) == 1:  # whatever it is the import of
        [(domain, version)] = imports.items()
        return domain or _DEFAULT, version, node.op_type
    return (_DEFAULT, normal[_DEFAULT], node.op_type) if _DEFAULT in normal else _DEFAULT


def _several_imports(number: int, seen: _Seen) -> Finding:
    return Finding(
        "E16005",
        "error",
        seen.first,
        f"the model has {number} opset imports, used or not, and {seen.count} nodes without a domain; "
        "ATC before CANN 9.2 takes exactly one then",
        "drop the unused imports and inline functions; `onnx-fuser optimize --target atc` does both",
        "several-imports",
    )


def _unregistered(model: ModelProto, operators: dict[_Key, _Seen], chosen: Release) -> Iterator[Finding]:
    functions = {(f.domain or _DEFAULT, f.name) for f in model.functions}
    everywhere = _common_opsets(operators, chosen)
    elsewhere: dict[int, list[tuple[_Key, _Seen]]] = {}  # opset of the model → operators that are not at it
    for key, seen in operators.items():
        domain, version, op_type = key
        opsets = chosen.opsets(domain, op_type)
        if version in opsets:
            continue
        if (domain, op_type) in functions:
            yield _refused(
                chosen,
                (key, seen),
                "ATC reads no local functions, so this call is to an operator it does not know",
                "inline the functions; `onnx-fuser optimize --target atc` does",
                "local-function",
            )
        elif opsets and domain == _DEFAULT:
            elsewhere.setdefault(version, []).append((key, seen))
        elif opsets:
            why = f"registered at {domain} {show_ranges(opsets)} only"
            yield _refused(chosen, (key, seen), why, "import that opset of the domain", "opset")
        else:
            later = release("master").opsets(domain, op_type)
            why = "this CANN has it at no opset" if later else "no CANN registers it"
            fix = f"the newest CANN has it, at opset {show_ranges(later)}: use that, or replace the operator"
            yield _refused(
                chosen, (key, seen), why, fix if later else _instead(domain, op_type), "unregistered"
            )
    for version, lacking in elsewhere.items():
        yield from _wrong_opset(chosen, version, lacking, everywhere)


def _refused(chosen: Release, operator: tuple[_Key, _Seen], why: str, fix: str, rule: str) -> Finding:
    (domain, version, op_type), seen = operator
    more = f" (and {seen.count - 1} more)" if seen.count > 1 else ""
    message = f"{domain}::{version}::{op_type}{more} is not registered: {why}"
    return Finding(chosen.unregistered, "error", seen.first, message, fix, rule)


def _wrong_opset(
    chosen: Release, version: int, lacking: list[tuple[_Key, _Seen]], everywhere: frozenset[int]
) -> Iterator[Finding]:
    """One finding where the whole opset is too new or too old, else one for each operator."""
    good = (
        f"export or convert to opset {show_ranges(everywhere)}; `onnx-fuser optimize --target atc` converts"
    )
    none = "no opset has all operators of this model; replace this one"
    fix = good if everywhere else none
    if 8 <= version <= 18 or len(lacking) == 1:
        for key, seen in lacking:
            opsets = show_ranges(chosen.opsets(key[0], key[2]))
            yield _refused(chosen, (key, seen), f"it is at opset {opsets}", fix, "opset")
        return
    (key, seen), *others = lacking
    names = ", ".join(sorted(other[2] for other, _ in others))
    count = sum(seen.count for _, seen in lacking)
    why = f"opset {version} is not one ATC knows, so neither is {names} ({count} nodes)"
    yield _refused(chosen, (key, _Seen(seen.first)), why, fix, "opset")


def _common_opsets(operators: dict[_Key, _Seen], chosen: Release) -> frozenset[int]:
    """Opsets at which every operator of the default domain that is registered at all is registered."""
    known = [chosen.opsets(domain, op_type) for domain, _, op_type in operators if domain == _DEFAULT]
    return frozenset.intersection(*(opsets for opsets in known if opsets)) if any(known) else frozenset()


def _instead(domain: str, op_type: str) -> str:
    if op_type in REPLACEMENTS:
        return REPLACEMENTS[op_type]
    if domain == "com.microsoft":
        return "save the model before onnxruntime's optimizer ran: ATC knows no com.microsoft operators"
    near = get_close_matches(op_type, registered_names(), n=1, cutoff=0.7)
    nearest = f"; the nearest that is registered is {near[0]}" if near else ""
    return f"write it with standard operators, or install an ATC plugin that registers it{nearest}"


def _assumed(operators: dict[_Key, _Seen], chosen: Release) -> Iterator[Finding]:
    names = sorted(op_type for domain, _, op_type in operators if chosen.assumed(domain, op_type))
    if names:
        yield Finding(
            None,
            "note",
            "",
            f"the plugins of {', '.join(names)} were not public in CANN {chosen.name}; later ones were read",
            "check with atc --mode=3 if one of them is refused",
            "assumed-registration",
        )
