"""What the blocks of a rule file owe one another, and what a pattern can't hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuser.language.check import nearest
from fuser.language.operators import DEFINITIONS, RULE_DOMAINS, Key
from fuser.language.text import HEADER, Block, RuleText

if TYPE_CHECKING:
    from collections.abc import Mapping


def functions_of(text: RuleText) -> dict[Key, Block]:
    """Return the file's functions by domain, name and overload; refuses foreign domains and duplicates."""
    functions: dict[Key, Block] = {}
    for block in text.functions:
        if block.domain not in {*RULE_DOMAINS, DEFINITIONS}:
            guess = nearest(block.domain, [*RULE_DOMAINS, DEFINITIONS])
            raise block.refuse(
                f'{block.name} is in domain "{block.domain}", which rule files do not have; {guess}'
            )
        first = functions.setdefault((block.domain, block.name, block.overload), block)
        if first is not block:
            place = first.lines.block
            raise block.refuse(f"{block.title} stands on line {place} already; give one another overload")
    return functions


def check_file(text: RuleText) -> None:
    """Refuse a file without functions, a header that can't hold them, and several opsets in one file."""
    if text.model.ir_version < 10 or "" not in text.main.imports:
        raise text.main.refuse(
            f"the header needs an ir_version of 10 or more and an opset; write {HEADER}", 1
        )
    if not text.functions:
        raise text.main.refuse("there is no function after main; add a pattern and its rewrite")
    opset = text.main.imports[""]
    for block in text.functions:
        if block.imports.get("") != opset:
            raise block.refuse(
                f"{block.title} imports opset {block.imports.get('', 'none')}, but its file {opset}; "
                f'a file has one opset, so write opset_import: ["" : {opset}]'
            )


def check_partner(block: Block, functions: Mapping[Key, Block]) -> None:
    """Refuse a rewrite without its pattern's signature, and a `where` with other inputs or attributes."""
    domain = "rewrite" if block.domain == "pattern" else "pattern"
    partner = functions.get((domain, block.name, block.overload))
    if partner is None:
        title = f"{domain}.{block.title.partition('.')[2]}"
        known = [other.title for key, other in functions.items() if key[0] == domain]
        raise block.refuse(f"{block.title} has no {title} in its file; {nearest(title, known)}")
    for kind in ("inputs", "outputs", "attributes"):
        own, other = getattr(block, kind), getattr(partner, kind)
        if block.domain == "rewrite" and own != other:
            raise block.refuse(
                f"{block.title} has {kind} ({', '.join(own)}) and {partner.title} on line "
                f"{partner.lines.block} has ({', '.join(other)}); give both the same names in the same order"
            )
        if block.domain == "where" and kind != "outputs":
            for name in own:
                if name not in other:
                    guess = nearest(name, other)
                    raise block.refuse(
                        f"{name} of {block.title} is none of the {kind} of its pattern; {guess}"
                    )


def check_constants(block: Block) -> None:
    """Refuse constants that a pattern can't match."""
    for node, line in zip(block.nodes, block.lines.nodes, strict=True):
        if node.op_type != "Constant" or node.domain not in {"", "ai.onnx"}:
            continue
        written = node.attribute[0].name if len(node.attribute) == 1 else "several attributes or none"
        if written not in {"value_float", "value_int"}:
            raise block.refuse(
                "a Constant of a pattern matches one value, given by value_float or value_int, "
                f"not by {written}; make the constant an input for anything else",
                line,
            )
        for name in node.output:
            if name in block.outputs:
                raise block.refuse(
                    f"output {name} is a Constant, which any constant would match; use {name}", line
                )


def check_connected(block: Block) -> None:
    """Refuse a pattern of several pieces."""
    pieces: list[set[str]] = []
    for node in block.nodes:
        names = {*node.input, *node.output} - {""}
        touching = [piece for piece in pieces if piece & names]
        pieces = [piece for piece in pieces if not piece & names] + [names.union(*touching)]
    if len(pieces) > 1:
        raise block.refuse(
            f"{block.title} falls into {len(pieces)} pieces that share no value; make each a rule of its own"
        )
