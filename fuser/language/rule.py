"""Rewrite rules: loaded whole from rule files, or refused with file, line and the fix."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fuser.errors import ConfigError
from fuser.language.body import Body, Ref, RuleNode, body_of
from fuser.language.calls import Bench, pairs_of
from fuser.language.check import check_signature, check_values
from fuser.language.check_nodes import check_nodes, check_reference_types
from fuser.language.check_rule import (
    check_connected,
    check_constants,
    check_file,
    check_partner,
    functions_of,
)
from fuser.language.operators import DEFINITIONS, Key, Operators, called
from fuser.language.text import Block, RuleText, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from onnx import FunctionProto

__all__ = ["Body", "Ref", "RewriteRule", "RuleNode", "builtin_folder", "builtin_rules", "load_rules"]


@dataclass(frozen=True, eq=False)
class RewriteRule:
    """What to find, what to put there, under which conditions, and the `fuser` functions that these call."""

    name: str
    overload: str
    pattern: Body
    rewrite: Body
    where: Body | None
    definitions: tuple[FunctionProto, ...]  # callees before callers
    file: Path
    bench: Bench

    @property
    def id(self) -> str:
        """`LeakyRelu:max`, or just the name where there is no overload."""
        return f"{self.name}:{self.overload}" if self.overload else self.name


def builtin_folder() -> Path:
    """Return the folder of the built-in rules: in the installed package, else in the checkout."""
    package = Path(__file__).parents[1]
    installed = package / "patterns"
    return installed if installed.is_dir() else package.parent / "patterns"


def load_rules(*folders_or_files: Path) -> tuple[RewriteRule, ...]:
    """Load the rules of `*.onnxtxt` files, sorted by file name, then as they stand in the file.

    Definitions (functions in domain `fuser`) of these files and of the built-in folder are visible to all.

    Raises:
        PatternError: a file says something it should not.
        ConfigError: a path does not exist, or a folder holds no rule file.
    """
    texts = read_files(folders_or_files)
    definitions = definitions_of(texts)
    for text in texts:
        _check(text, definitions)
    rules: dict[str, RewriteRule] = {}
    for text in texts:
        for rule in _rules_of(text, definitions):
            if rule.id in rules:
                first = f"{rules[rule.id].file}:{rules[rule.id].pattern.line}"
                raise next(block for block in text.functions if block.proto is rule.pattern.proto).refuse(
                    f"rule {rule.id} stands in {first} already; choose another overload"
                )
            rules[rule.id] = rule
    return tuple(rules.values())


def builtin_rules() -> tuple[RewriteRule, ...]:
    """The rules of the built-in folder, as they are: what `load_rules` would look for in them was looked for already."""
    texts = read_files([builtin_folder()])
    definitions = _definitions(texts)
    return tuple(rule for text in texts for rule in _rules_of(text, definitions))


def read_files(folders_or_files: Iterable[Path]) -> list[RuleText]:
    """Read files, and the rule files of folders, each once, sorted by name; raises as `load_rules` does."""
    files: dict[Path, Path] = {}  # resolved -> as it was given, which is what errors show
    for path in map(Path, folders_or_files):
        if path.is_dir():
            inside = list(path.glob("*.onnxtxt"))
            if not inside:
                raise ConfigError(f"no rule file (*.onnxtxt) in {path}; put one there or name another folder")
            files.update((file.resolve(), file) for file in inside)
        elif path.exists():
            files[path.resolve()] = path
        else:
            raise ConfigError(
                f"no such file or folder: {path}; name a rule file (*.onnxtxt) or a folder of them"
            )
    return [read(file) for file in sorted(files.values(), key=lambda file: (file.name, file))]


def definitions_of(texts: Iterable[RuleText]) -> dict[Key, Block]:
    """Collect the functions in domain `fuser` of these texts and of the built-in folder, and check them."""
    texts = list(texts)
    files = {text.file.resolve() for text in texts}
    builtin = [file for file in sorted(builtin_folder().glob("*.onnxtxt")) if file.resolve() not in files]
    definitions = _definitions([*map(read, builtin), *texts])
    operators = Operators(definitions)
    for key, block in definitions.items():
        for _ in _transitive([block], definitions, within=(key,)):
            pass
    for block in definitions.values():
        check_signature(block)
        check_nodes(block, operators)
        check_values(block)
        check_reference_types(block)
    return definitions


def _definitions(texts: Iterable[RuleText]) -> dict[Key, Block]:
    definitions: dict[Key, Block] = {}
    for text in texts:
        for block in text.functions:
            if block.domain == DEFINITIONS:
                first = definitions.setdefault((block.domain, block.name, block.overload), block)
                if first is not block and (first.proto != block.proto or first.file == block.file):
                    place = f"{first.file}:{first.lines.block}"
                    raise block.refuse(f"{block.title} is defined in {place} already; rename or remove one")
    return definitions


def _transitive(
    blocks: Iterable[Block], definitions: Mapping[Key, Block], within: tuple[Key, ...] = ()
) -> Iterator[Key]:
    """Yield the definitions that the blocks call, callees first (again for every call)."""
    for block in blocks:
        for key in called(block, definitions):
            if key in within:
                raise block.refuse(f"{block.title} calls itself; a definition is made of other operators")
            yield from _transitive([definitions[key]], definitions, (*within, key))
            yield key


def _check(text: RuleText, definitions: Mapping[Key, Block]) -> None:
    functions = functions_of(text)
    check_file(text)
    operators = Operators(definitions)
    own = [block for block in functions.values() if block.domain != DEFINITIONS]
    for block in own:
        check_signature(block)
    for block in own:
        check_partner(block, functions)
        check_nodes(block, operators)
        if block.domain == "pattern":
            check_constants(block)
        check_values(block)
        if block.domain == "pattern":
            check_connected(block)
    for rule in dict.fromkeys((block.name, block.overload) for block in own):
        check_reference_types(*(block for block in own if (block.name, block.overload) == rule))
    check_signature(text.main)
    check_nodes(text.main, Operators({**definitions, **functions}))
    check_values(text.main)
    for block in own:
        if block.domain == "pattern":
            pairs_of(text, block)


def _rules_of(text: RuleText, definitions: Mapping[Key, Block]) -> Iterator[RewriteRule]:
    functions = {(block.domain, block.name, block.overload): block for block in text.functions}
    protos = {
        key: block.proto for key, block in {**definitions, **functions}.items() if block.proto is not None
    }
    for (domain, name, overload), pattern in functions.items():
        if domain != "pattern":
            continue
        rewrite, where = functions["rewrite", name, overload], functions.get(("where", name, overload))
        blocks = [pattern, rewrite, where] if where else [pattern, rewrite]
        used = dict.fromkeys(_transitive(blocks, definitions))
        yield RewriteRule(
            name,
            overload,
            body_of(pattern),
            body_of(rewrite),
            body_of(where) if where else None,
            tuple(protos[key] for key in used),
            text.file,
            Bench(text, protos, pattern),
        )
