"""Models that the bench runs: one call of `main`, what leads to its inputs, the functions it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import ModelProto, NodeProto

from fuser.language.operators import key_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import FunctionProto

    from fuser.language.operators import Key


def where_call(pattern: FunctionProto, where: FunctionProto, call: NodeProto) -> NodeProto:
    """Return the call of `where` that goes with a call of its pattern: same values, by name."""
    given = dict(zip(pattern.input, call.input, strict=False))
    node = NodeProto(op_type=where.name, domain=where.domain, overload=where.overload)
    node.input.extend(given.get(name, "") for name in where.input)
    node.attribute.extend(attribute for attribute in call.attribute if attribute.name in where.attribute)
    return node


def cut(
    main: ModelProto, functions: Mapping[Key, FunctionProto], call: NodeProto, floats: Mapping[str, float]
) -> ModelProto:
    """Return the model of one call alone; `floats` replaces the values of its attributes of these names.

    Its outputs, all that the called function has, are called `out0`, `out1` … and carry no type.
    """
    model = ModelProto(ir_version=main.ir_version, opset_import=main.opset_import)
    graph, node = model.graph, NodeProto()
    graph.name = "bench"
    node.CopyFrom(call)
    for attribute in node.attribute:
        if attribute.name in floats:
            attribute.f = floats[attribute.name]
    outputs = [f"out{at}" for at in range(len(functions[key_of(call)].output))]
    del node.output[:]
    node.output.extend(outputs)
    for name in outputs:
        graph.output.add(name=name)

    wanted, nodes = set(node.input), [node]
    for other in reversed(main.graph.node):
        if wanted.intersection(other.output):
            wanted.update(other.input)
            nodes.append(other)
    graph.node.extend(reversed(nodes))
    graph.initializer.extend(tensor for tensor in main.graph.initializer if tensor.name in wanted)
    graph.input.extend(value for value in main.graph.input if value.name in wanted)

    needed: dict[Key, FunctionProto] = {}
    pending = nodes
    while pending:
        found = {key_of(n): functions[key_of(n)] for n in pending if key_of(n) in functions}
        new = {key: function for key, function in found.items() if key not in needed}
        needed.update(new)
        pending = [n for function in new.values() for n in function.node]
    model.functions.extend(needed.values())
    imported = {entry.domain for entry in model.opset_import}
    for domain in sorted({function.domain for function in needed.values()} - imported):
        model.opset_import.add(domain=domain, version=1)
    return model
