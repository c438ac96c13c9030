"""The rules of a run: which are loaded, and which of them are used."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from fuser.errors import ConfigError
from fuser.language import RewriteRule, builtin_rules, load_rules

if TYPE_CHECKING:
    from pathlib import Path


def select_rules(
    patterns: Sequence[Path] = (), only: Collection[str] = (), disable: Collection[str] = ()
) -> tuple[RewriteRule, ...]:
    """The rules of a run: the user's own before the built-in ones, less those that were ruled out.

    Raises:
        PatternError: a rule file is wrong.
        ConfigError: a rule is named that does not exist, or twice.
    """
    own = load_rules(*patterns) if patterns else ()
    built_in = builtin_rules()
    ids = {r.id for r in built_in}
    for rule in own:
        if rule.id in ids:
            raise ConfigError(
                f"{rule.file} has a rule {rule.id}, which is built in; give yours another overload"
            )
    rules = (*own, *built_in)
    known = {r.id for r in rules} | {r.name for r in rules}
    for name in (*only, *disable):
        if name not in known:
            raise ConfigError(
                f"there is no rule {name!r}; {nearest(name, known)}, and `onnx-fuser patterns list` has all"
            )
    return tuple(r for r in rules if (not only or _is_named(r, only)) and not _is_named(r, disable))


def _is_named(rule: RewriteRule, names: Collection[str]) -> bool:
    return rule.id in names or rule.name in names


def nearest(name: str, known: set[str]) -> str:
    """The end of a sentence that says which known name was perhaps meant."""
    close = get_close_matches(name, sorted(known), 1)
    return f"the nearest is {close[0]!r}" if close else "none has a name like it"
