"""docs/patterns.md: what it shows works."""

from __future__ import annotations

import re
from pathlib import Path

from fuser.language import builtin_folder, load_rules
from fuser.language.bench import prove

DOCUMENT = Path(__file__).parents[2] / "docs" / "patterns.md"
FENCED = re.compile(r"^```onnxtxt\n(.*?)^```", re.DOTALL | re.MULTILINE)
EXAMPLES = FENCED.findall(DOCUMENT.read_text(encoding="utf-8"))


def test_the_worked_example_loads_beside_the_built_in_rules_and_proves_itself(tmp_path: Path) -> None:
    """As a reader would copy it."""
    file = tmp_path / "hard_swish.onnxtxt"
    file.write_text(EXAMPLES[0], encoding="utf-8")
    rules = {rule.id: rule for rule in load_rules(builtin_folder(), tmp_path)}
    (proof,) = prove([rules["HardSwish:clip"]])
    assert proof.passed, proof
    assert [node.label for node in rules["HardSwish:clip"].rewrite.nodes] == ["swish"]


def test_the_condition_that_it_shows_is_the_built_in_one() -> None:
    """Word for word, so that it can't go stale."""
    assert EXAMPLES[1] in (builtin_folder() / "leaky_relu.onnxtxt").read_text(encoding="utf-8")
