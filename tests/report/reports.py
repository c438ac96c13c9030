"""Reports for tests: one with everything in it, and any that could be."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fuser.advice import Note
from fuser.memory import Memory, Reuse, Step, Usage
from fuser.parity import Draw, OutputDifference, Parity, Site, SiteDifference
from fuser.report import Declined, Fusion, ModelFacts, Report, Rewrite, RuleCount

TEXT = st.text(max_size=40) | st.text("`<>|@[]*_ \\\n\x1b\u202eab/:", max_size=40)
NAMES = st.lists(TEXT, max_size=4).map(tuple)
COUNT = st.integers(0, 10**12)
PAIR = st.tuples(COUNT, COUNT)
MEASURE = st.none() | st.floats(allow_nan=True, allow_infinity=True)
TOLERANCE = st.floats(0, 1)
VERDICT = st.sampled_from(["passed", "failed", "inconclusive"])
SHA = st.just("") | st.text("0123456789abcdef", min_size=64, max_size=64)
OPERATORS = st.dictionaries(TEXT, st.integers(1, 1000), max_size=4)

SITES = st.builds(Site, TEXT, TEXT, NAMES, TEXT, NAMES)
OUTPUTS = st.builds(
    OutputDifference, TEXT, TEXT, MEASURE, MEASURE, MEASURE, MEASURE, TOLERANCE, MEASURE, VERDICT, TEXT, COUNT
)
SHAPES = st.dictionaries(TEXT, st.lists(st.integers(0, 9), max_size=4).map(tuple), max_size=3)
DRAWS = st.builds(
    Draw, TEXT, st.none() | COUNT, st.none() | COUNT, SHAPES.map(lambda shapes: tuple(shapes.items()))
)
DIFFERENCES = st.builds(
    SiteDifference,
    SITES,
    VERDICT,
    st.lists(OUTPUTS, max_size=2).map(tuple),
    st.none() | st.floats(0, 1),
    TEXT,
    st.booleans(),
)


def some(strategy: st.SearchStrategy[Any], most: int = 4) -> st.SearchStrategy[tuple[Any, ...]]:
    """Up to so many."""
    return st.lists(strategy, max_size=most).map(tuple)


PARITY = st.builds(Parity, VERDICT, TEXT, TEXT, some(DRAWS), some(OUTPUTS), some(DIFFERENCES), some(SITES))
FUSIONS = st.builds(Fusion, TEXT, TEXT, TEXT, TEXT, NAMES, NAMES, NAMES, NAMES, MEASURE, NAMES)
DECLINED = st.builds(Declined, TEXT, TEXT, TEXT, TEXT, TEXT, TEXT, COUNT, TEXT)
FINDING = st.fixed_dictionaries(
    {
        "code": st.none() | TEXT, "severity": st.sampled_from(["error", "warning", "note"]), "node": TEXT,
        "message": TEXT, "fix": TEXT, "rule": TEXT,
    }
)  # fmt: skip
ATC = st.fixed_dictionaries(
    {
        "name": st.just("atc"), "form": st.sampled_from(["standard", "node"]), "cann": TEXT,
        "soc": st.none() | TEXT, "allowed": st.booleans(), "float16": st.none(),
        "findings": st.lists(FINDING, max_size=5),
    }
)  # fmt: skip
TARGETS = st.just({"name": "onnx", "form": "function", "findings": []}) | ATC
USAGE = st.builds(Usage, COUNT, TEXT, COUNT, TEXT, COUNT, COUNT, some(st.builds(Step, COUNT, COUNT, COUNT)))
REUSE = st.builds(Reuse, TEXT, TEXT, TEXT, TEXT, COUNT)
MEMORY = st.builds(Memory, SHAPES, USAGE, USAGE, some(REUSE), st.none() | PAIR) | st.builds(
    Memory, SHAPES, reason=TEXT.map("for {}".format)
)
NUMBERS = st.lists(st.tuples(TEXT, st.floats(allow_nan=False, allow_infinity=False)), max_size=3).map(tuple)
NOTES = st.builds(Note, st.sampled_from(["slope-zero", "bn-untrained"]), TEXT, TEXT, TEXT, NUMBERS)
REPORTS = st.builds(
    Report,
    tool=st.dictionaries(TEXT, TEXT, max_size=3).map(lambda versions: {**versions, "name": "onnx-fuser"}),
    model=st.builds(
        ModelFacts, TEXT, SHA, COUNT, COUNT, PAIR, PAIR, st.tuples(OPERATORS, OPERATORS), PAIR, TEXT, SHA
    ),
    rewrites=some(st.builds(Rewrite, TEXT, TEXT, TEXT, NAMES, TEXT)),
    fusions=some(FUSIONS),
    declined=some(DECLINED, most=14),
    rules=some(st.builds(RuleCount, TEXT, COUNT, COUNT)),
    target=TARGETS,
    parity=st.none() | PARITY,
    memory=st.none() | MEMORY,
    advice=some(NOTES),
    timing=st.dictionaries(TEXT, st.floats(0, 1e6), max_size=3),
)
