"""Whether A and B are the same but for their sites: what judging sites alone takes for granted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from fuser.parity.scopes import Scope, region, used

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from onnx import NodeProto

    from fuser.parity.cut import Cutter
    from fuser.parity.pair import Pair
    from fuser.parity.result import Site


def outside_change(pair: Pair, sites: Sequence[Site]) -> str:
    """The first difference outside the sites, as a sentence's end; "" when there is none."""
    a, b = pair.a, pair.b
    before, after = ({o.domain or "ONNX": o.version for o in c.source.proto.opset_import} for c in (a, b))
    for domain in before:
        if after.get(domain) != before[domain]:
            return f"the opset of {domain} is {before[domain]} in A and {after.get(domain, 'none')} in B"
    for path, scope in a.scopes.items():
        other = b.scopes.get(path)
        if other is None and scope.function is not None:
            continue  # B calls it nowhere; that A's calls belong to sites is seen where they stand
        if other is None:
            return f"B lacks {path or 'the main graph'}"
        here = [replace(site, inputs=pair.border(site)) for site in sites if site.graph == path]
        one, two = _summary(a, scope, here), _summary(b, other, here)
        if one != two:
            name = next(iter((one - two) or (two - one)))[-1]
            return f"what gives {name!r} in {path or 'the main graph'} is not the same in both"
    return ""


def _summary(cutter: Cutter, scope: Scope, sites: Sequence[Site]) -> Counter[tuple[str, ...]]:
    """The nodes that some output needs and no site covers, the outputs and the inputs; constants by their content."""
    inside = {index for site in sites for index in _own(region(scope, site.output, site.inputs).nodes, scope)}
    constant = _constants(scope)
    found: Counter[tuple[str, ...]] = Counter()
    for index in _live(scope) - inside:
        node = scope.nodes[index]
        if not set(node.output) & set(constant):
            inputs = [_content(cutter, scope, name, constant) for name in node.input]
            key = (node.domain, node.op_type, *inputs, *_attributes(node), *node.output)
            found[key] += 1
    for index, name in enumerate(scope.outputs):
        found["output", str(index), _content(cutter, scope, name, constant), name] += 1
    for index, name in enumerate(scope.inputs):
        found["input", str(index), name] += 1
    return found


def _own(nodes: Sequence[tuple[str, int]], scope: Scope) -> Iterator[int]:
    return (index for path, index in nodes if path == scope.path)


def _live(scope: Scope) -> set[int]:
    pending, seen, live = list(scope.outputs), set(), set()
    while pending:
        name = pending.pop()
        if name in seen or name not in scope.producers:
            continue
        seen.add(name)
        index = scope.producers[name]
        live.add(index)
        pending.extend(used(scope.nodes[index]))
    return live


def _constants(scope: Scope) -> Mapping[str, NodeProto]:
    return {node.output[0]: node for node in scope.nodes if node.op_type == "Constant" and node.output}


def _content(cutter: Cutter, scope: Scope, name: str, constant: Mapping[str, NodeProto]) -> str:
    if name in constant:
        return " ".join(_attributes(constant[name]))
    owner = scope.owner(name) if name else None
    if owner is None or name not in owner.initializers:
        return name
    tensor = owner.initializers[name]
    data = cutter.source.stored.weights.read(tensor)
    content = repr(data.tolist()).encode() if data.dtype == object else data.tobytes()
    return f"{tensor.data_type} {list(tensor.dims)} {sha256(content).hexdigest()}"


def _attributes(node: NodeProto) -> list[str]:
    """Every attribute but the bodies, which are compared as graphs of their own."""
    flat = [a for a in node.attribute if not a.HasField("g") and not a.graphs]
    return sorted(a.SerializeToString(deterministic=True).hex() for a in flat)
