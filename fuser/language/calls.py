"""The graph `main` calls pattern and rewrite side by side: the pairs that the bench compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx import helper

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import FunctionProto, ModelProto, NodeProto

    from fuser.language.operators import Key
    from fuser.language.text import Block, RuleText


@dataclass(frozen=True, eq=False)
class Call:
    """A node of main that calls a function of the file."""

    node: NodeProto
    main: Block
    index: int

    @property
    def line(self) -> int:
        """The line of the file that it stands on."""
        return self.main.lines.nodes[self.index]

    @property
    def attributes(self) -> dict[str, object]:
        """Name and value of each attribute."""
        return {attribute.name: helper.get_attribute_value(attribute) for attribute in self.node.attribute}


@dataclass(frozen=True, eq=False)
class Pair:
    """One call of a rule's pattern and the call of its rewrite on the same inputs and attributes."""

    pattern: Call
    rewrite: Call


@dataclass(frozen=True, eq=False)
class Bench:
    """What proves a rule: the calls of it in `main`, and every function of its file and the definitions."""

    text: RuleText
    functions: Mapping[Key, FunctionProto]
    pattern: Block

    @property
    def main(self) -> ModelProto:
        """The model whose graph calls the rule."""
        return self.text.model

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The calls of the rule."""
        return pairs_of(self.text, self.pattern)


def pairs_of(text: RuleText, block: Block) -> tuple[Pair, ...]:
    """Return the pairs of the rule with this pattern; the k-th call of the pattern goes with the k-th of its rewrite.

    Raises:
        PatternError: the rule is not called, or two calls that belong together differ.
    """
    left, right = (_calls(text, domain, block) for domain in ("pattern", "rewrite"))
    if len(left) != len(right) or not left:
        title = block.title.removeprefix("pattern.")
        lines = [call.line for call in left + right]
        raise text.main.refuse(
            f"main calls pattern.{title} {_times(len(left))} and rewrite.{title} {_times(len(right))}; "
            "call both side by side on the same inputs and attributes, so that the file proves itself",
            lines[-1] if lines else None,
        )
    for pattern, rewrite in zip(left, right, strict=True):
        _check_alike(text.main, pattern, rewrite)
    for call in _calls(text, "where", block):
        _check_where(text, block, call, left)
    return tuple(Pair(pattern, rewrite) for pattern, rewrite in zip(left, right, strict=True))


def _calls(text: RuleText, domain: str, block: Block) -> list[Call]:
    key = (domain, block.name, block.overload)
    return [
        Call(node, text.main, index)
        for index, node in enumerate(text.main.nodes)
        if (node.domain, node.op_type, node.overload) == key
    ]


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")


def _check_alike(main: Block, pattern: Call, rewrite: Call) -> None:
    mine, theirs = ", ".join(rewrite.node.input), ", ".join(pattern.node.input)
    if mine != theirs:
        raise main.refuse(
            f"the rewrite gets ({mine}) and its pattern on line {pattern.line} gets ({theirs}); "
            "give both the same inputs",
            rewrite.line,
        )
    left, right = pattern.attributes, rewrite.attributes
    for name in {**left, **right}:
        if left.get(name) != right.get(name):
            raise main.refuse(
                f"attribute {name} is {right.get(name, 'not given')} for the rewrite and "
                f"{left.get(name, 'not given')} for its pattern on line {pattern.line}; give both the same",
                rewrite.line,
            )


def _check_where(text: RuleText, pattern: Block, call: Call, calls: list[Call]) -> None:
    """A call of `where` repeats inputs and attributes of a call of its pattern."""
    where = next(f for f in text.functions if f.domain == "where" and f.title[6:] == pattern.title[8:])
    for other in calls:
        attributes = {name: value for name, value in other.attributes.items() if name in where.attributes}
        given = dict(zip(pattern.inputs, other.node.input, strict=False))
        inputs = [given.get(name, "") for name in where.inputs]
        if inputs == list(call.node.input) and attributes == call.attributes:
            return
    raise text.main.refuse(
        f"no call of {pattern.title} has these inputs and attributes; give where those of the pattern",
        call.line,
    )
