"""What a block of a rule file may not say about its own values, whatever the operators mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuser.errors import PatternError
    from fuser.language.text import Block


def nearest(name: str, known: Iterable[str], mark: str = "") -> str:
    """Return the half sentence that leads from a name that nothing has to the one that is meant."""
    from difflib import get_close_matches

    names = list(known)
    if close := get_close_matches(name, names, n=1, cutoff=0.5):
        return f"did you mean {mark}{close[0]}?"
    return f"known here: {', '.join(mark + n for n in names)}" if names else "there is none here"


def check_signature(block: Block) -> None:
    """Refuse names given twice, defaults and types; a pattern's input may have an element type."""
    for kind, names in (("input", block.inputs), ("output", block.outputs), ("attribute", block.attributes)):
        for at, name in enumerate(names):
            if name in names[:at]:
                raise block.refuse(f"{block.title} has two {kind}s called {name}; rename one")
    if block.proto is None:
        return
    if not block.outputs:
        raise block.refuse(f"{block.title} has no output, so it does nothing; name what it computes after =>")
    for attribute in block.proto.attribute_proto:
        raise block.refuse(
            f"attribute {attribute.name} of {block.title} has a type or a default; write just "
            f"<{attribute.name}>: defaults belong to the schema of the operator that takes the attribute"
        )
    typed = block.inputs if block.domain == "pattern" else ()
    for value in block.proto.value_info:
        if value.name not in typed:
            raise block.refuse(
                f"{value.name} of {block.title} has a type, which would not be matched; write just the name"
            )
        if value.type.tensor_type.shape.dim:
            fix = f"{TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower()}[] {value.name}"
            raise block.refuse(
                f"{value.name} of {block.title} has a shape, which is not matched; write `{fix}`"
            )


def check_values(block: Block) -> None:
    """Refuse values computed twice, never, after their use or for nothing; for blocks of any kind."""
    defined = set(block.inputs)
    for node, line in zip(block.nodes, block.lines.nodes, strict=True):
        for name in node.input:
            if name and name not in defined:
                raise _unknown_value(block, name, line)
        for name in node.output:
            if name in defined:
                raise block.refuse(f"{name} has a value already; give this output another name", line)
            if name:
                defined.add(name)
    for name in block.outputs:
        if name not in defined:
            known = nearest(name, sorted(defined))
            raise block.refuse(f"output {name} of {block.title} is never computed; {known}")
        if name in block.inputs:
            raise block.refuse(
                f"output {name} is an input; compute it, as in `{name}_out = Identity({name})`"
            )
    _check_use(block)
    labels: dict[str, int] = {}
    for node, line in zip(block.nodes, block.lines.nodes, strict=True):
        if node.name in labels:
            first = labels[node.name]
            raise block.refuse(f"label [{node.name}] stands on line {first} already; choose another", line)
        if node.name:
            labels[node.name] = line


def _unknown_value(block: Block, name: str, line: int) -> PatternError:
    for node, later in zip(block.nodes, block.lines.nodes, strict=True):
        if name in node.output:
            return block.refuse(f"{name} is used before line {later} computes it; move that node up", line)
    known = [*block.inputs, *(value for node in block.nodes for value in node.output if value)]
    return block.refuse(f"{name} is no value of {block.title}; {nearest(name, known)}", line)


def _check_use(block: Block) -> None:
    """Refuse what contributes to no output: nodes, outputs that nothing reads, inputs and attributes."""
    wanted = set(block.outputs)
    for node, line in zip(reversed(block.nodes), reversed(block.lines.nodes), strict=True):
        outputs = [name for name in node.output if name]
        unread = [name for name in outputs if name not in wanted]
        if len(unread) == len(outputs):
            use = f"remove it, or use {', '.join(unread) or 'what it computes'}"
            raise block.refuse(f"this {node.op_type} contributes to no output of {block.title}; {use}", line)
        if unread:
            raise block.refuse(f'nothing reads {unread[0]}; leave it out, or write "" in its place', line)
        wanted.update(node.input)
    references = {attribute.ref_attr_name for node in block.nodes for attribute in node.attribute}
    for kind, names, used in (("input", block.inputs, wanted), ("attribute", block.attributes, references)):
        for name in names:
            if name in used or (block.domain == "rewrite" and name.startswith("_")):
                continue
            fix = "use it or remove it"
            if block.domain == "rewrite":
                fix = f"use it, or call it _{name} in pattern and rewrite if it is dropped on purpose"
            raise block.refuse(f"{kind} {name} of {block.title} is never used; {fix}")
