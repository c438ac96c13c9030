"""Rule files as text: parsed by onnx.parser, with the line that every function, node and attribute stands on.

onnx.parser gives no positions, so the same text is cut into tokens once more; comments and strings are
respected. The parser also reads less than it is given in places (a NUL byte ends the text, `[@a, 1]` loses
the reference), which is refused here before it is lost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import onnx.parser

from fuser.errors import PatternError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from onnx import FunctionProto, ModelProto, NodeProto, OperatorSetIdProto

_TOKEN = re.compile(
    r"""\n | \#[^\n]* | "(?:\\.|[^"\\])*" | => | [][(){}<>=,] | [^][\s"\#(){}<>=,]+""", re.DOTALL | re.VERBOSE
)
_PARSE_ERROR = re.compile(
    r"\[ParseError at position \(line: (\d+) column: (\d+)\)\]\nError context:(.*?)\n(.*)", re.DOTALL
)
_REFERENCE_IN_LIST = re.compile(r"\[[^]]*@")

HEADER = '<ir_version: 10, opset_import: ["" : 17, "pattern": 1, "rewrite": 1, "where": 1, "fuser": 1]>'

_HINTS = {
    "Unhandled keyword.": f"the file starts with {HEADER} and the graph `main`, and the functions follow; "
    "the header of a function takes domain, overload, opset_import and doc_string",
    "Unexpected attribute type.": "an attribute is written `alpha: float = …`; the types are "
    "float, int, string, tensor, floats, ints and strings",
}


@dataclass(frozen=True)
class Tokens:
    """Words, numbers, strings and signs of a text, without its comments, and the line (from 1) of each."""

    words: list[str]
    lines: list[int]


@dataclass(frozen=True)
class Lines:
    """Where a block stands: the line of its name, of each node, and of each node's attributes."""

    block: int
    nodes: tuple[int, ...]
    attributes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class Places:
    """Where the blocks of a text stand; worked out when first asked for, which is mostly never."""

    text: str

    @cached_property
    def tokens(self) -> Tokens:
        """The text in words."""
        return _tokens(self.text)

    @cached_property
    def blocks(self) -> tuple[Lines, ...]:
        """`main` first, then the functions; of a text that has parsed."""
        return tuple(_lines(self.tokens))


@dataclass(frozen=True, eq=False)
class Block:
    """A function of a rule file, or its graph `main`, with the lines it stands on."""

    file: Path
    domain: str  # "" for main
    name: str
    overload: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[str, ...]
    nodes: tuple[NodeProto, ...]
    imports: Mapping[str, int]  # domain ("" for ai.onnx) -> version
    proto: FunctionProto | None  # None for main
    places: Places
    index: int  # among the blocks of the file

    @property
    def lines(self) -> Lines:
        """The lines it stands on."""
        return self.places.blocks[self.index]

    @property
    def title(self) -> str:
        """The name a reader finds in the file, as `pattern.LeakyRelu:max`."""
        overload = f":{self.overload}" if self.overload else ""
        return f"{self.domain}.{self.name}{overload}" if self.domain else self.name

    def refuse(self, text: str, line: int | None = None) -> PatternError:
        """Build the error for a line of this block's file, by default the line of the block's name."""
        return PatternError(self.file, self.lines.block if line is None else line, text)


@dataclass(frozen=True, eq=False)
class RuleText:
    """One rule file: what the parser read, block by block."""

    file: Path
    model: ModelProto
    main: Block
    functions: tuple[Block, ...]


def read(file: Path) -> RuleText:
    """Read a rule file.

    Raises:
        PatternError: it can't be read, or is not text that onnx.parser takes as a model.
    """
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        reason = f"can't be read ({error.strerror}); check the path and its permissions"
        raise PatternError(file, 1, reason) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise PatternError(file, line, "is not UTF-8 text; save the file as UTF-8") from error
    places = Places(text)
    _refuse_what_the_parser_would_lose(file, places)
    model = _parse(file, places)
    main = Block(
        file,
        domain="",
        name=model.graph.name,
        overload="",
        inputs=tuple(value.name for value in model.graph.input),
        outputs=tuple(value.name for value in model.graph.output),
        attributes=(),
        nodes=tuple(model.graph.node),
        imports=_versions(model.opset_import),
        proto=None,
        places=places,
        index=0,
    )
    functions = tuple(
        Block(
            file,
            domain=function.domain,
            name=function.name,
            overload=function.overload,
            inputs=tuple(function.input),
            outputs=tuple(function.output),
            attributes=tuple(function.attribute),
            nodes=tuple(function.node),
            imports=_versions(function.opset_import),
            proto=function,
            places=places,
            index=index,
        )
        for index, function in enumerate(model.functions, 1)
    )
    return RuleText(file, model, main, functions)


def _versions(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    return {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in imports}


def _tokens(text: str) -> Tokens:
    words, lines = [], []
    line = 1
    for word in _TOKEN.findall(text):
        if word == "\n":
            line += 1
        elif word[0] != "#":
            words.append(word)
            lines.append(line)
            if word[0] == '"':
                line += word.count("\n")
    return Tokens(words, lines)


def _refuse_what_the_parser_would_lose(file: Path, places: Places) -> None:
    text = places.text
    if not text.strip() or (text.lstrip()[0] == "#" and not places.tokens.words):
        raise PatternError(file, 1, f"is empty; a rule file holds {HEADER}, a graph `main` and functions")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise PatternError(file, line, "holds a NUL byte, which ends the text for the parser; remove it")
    if not _REFERENCE_IN_LIST.search(text):  # it may still stand in a comment or a string
        return
    in_list = False
    for word, line in zip(places.tokens.words, places.tokens.lines, strict=True):
        if word in "[]":
            in_list = word == "["
        elif word[0] == "@" and in_list:
            raise PatternError(
                file,
                line,
                f"a list can't hold a reference: {word} would be dropped; "
                f"make the whole list the attribute, as in `pads: ints = {word}`",
            )


def _parse(file: Path, places: Places) -> ModelProto:
    try:
        return onnx.parser.parse_model(places.text)
    except onnx.parser.ParseError as error:
        message = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        found = _PARSE_ERROR.fullmatch(message.strip())
        if found is None:
            raise PatternError(file, 1, f"onnx.parser refuses it: {message}") from error
        line, column, context, reason = int(found[1]), int(found[2]), found[3].strip(), found[4].strip()
        hint = _HINTS.get(reason, "correct the text before this column")
        sentence = f"column {column}: {reason.rstrip('.')}, in `{context}`; {hint}"
        raise PatternError(file, line, sentence) from error
    except (RuntimeError, IndexError, ValueError) as error:  # a number out of range; no position is given
        number = str(error).rpartition(": ")[2]
        words = places.tokens.words
        suspects = [at for at, word in enumerate(words) if word == number or _is_too_large(word)]
        at = suspects[0] if suspects else 0
        sentence = f"{words[at]} is no number that a float or an int64 can hold; write another"
        raise PatternError(file, places.tokens.lines[at], sentence) from error


def _is_too_large(word: str) -> bool:
    return word.lstrip("-").isdigit() and not -(2**63) <= int(word) < 2**63


def _lines(tokens: Tokens) -> Iterator[Lines]:
    """Walk a text that has parsed: main first, then the functions."""
    words, lines = tokens.words, tokens.lines
    end_of = _partners(words)

    def skip(index: int) -> int:
        return end_of.get(index, index) + 1

    def find(index: int, signs: str) -> int:
        while words[index] not in signs:
            index = skip(index)
        return index

    index = 0
    while index < len(words):
        if words[index] == "<":
            index = skip(index)
        line = lines[index]
        index = find(index, "{")
        body_end, index = end_of[index], index + 1
        node_lines, attribute_lines = [], []
        while index < body_end:
            node_lines.append(lines[index])
            index = find(find(index, "="), "<(")
            attributes: list[int] = []
            for _ in range(2):  # inputs, and attributes before or after them
                if words[index] == "<":
                    attributes = [lines[at] for at in _starts(words, index, end_of)]
                    index = skip(index)
                elif words[index] == "(":
                    index = skip(index)
            attribute_lines.append(tuple(attributes))
        yield Lines(line, tuple(node_lines), tuple(attribute_lines))
        index = body_end + 1


def _starts(words: Sequence[str], opening: int, end_of: Mapping[int, int]) -> Iterator[int]:
    """Yield where each item of a bracketed list begins."""
    index = opening + 1
    yield index
    while index < end_of[opening]:
        index = end_of.get(index, index) + 1
        if words[index] == ",":
            yield index + 1


def _partners(words: Sequence[str]) -> dict[int, int]:
    """Index of the closing bracket for each opening one; the text has parsed, so they match."""
    partners, stack = {}, []
    for index, word in enumerate(words):
        if word in "([{<":
            stack.append(index)
        elif word in ")]}>":
            partners[stack.pop()] = index
    return partners
