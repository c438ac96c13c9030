"""What the slopes, the statistics and the parity draws say about a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from fuser.advice.note import Note
from fuser.advice.slopes import slope_notes
from fuser.advice.statistics import statistics_notes

if TYPE_CHECKING:
    from onnx import ModelProto

    from fuser.parity import Parity, SiteDifference
    from fuser.storage import StoredModel


def advise(before: StoredModel, after: ModelProto, parity: Parity | None) -> tuple[Note, ...]:
    """Notes on slopes as ``after`` has them, on BatchNormalization as ``before`` has it, and on signs
    as the draws of the parity check saw them. Of the weights only those of BatchNormalization are read.

    Raises:
        ModelError: a parameter's bytes are damaged.
    """
    sites = () if parity is None else parity.sites
    return (*slope_notes(after), *statistics_notes(before), *_sign_notes(sites))


def _sign_notes(sites: Iterable[SiteDifference]) -> Iterator[Note]:
    for found in sites:
        share, output = found.negatives, found.site.output
        if share == 0.0:
            yield Note(
                "never-negative",
                output,
                "no value was negative here in any draw of the parity check, so the slope was never used",
                "check on real --inputs; if it stays so, the activation does nothing",
                (("share of negative values", share),),
            )
        elif share == 1.0:
            yield Note(
                "always-negative",
                output,
                "every value was negative here in every draw of the parity check: the activation only scales",
                "check on real --inputs; if it stays so, the layer's bias drowns its input",
                (("share of negative values", share),),
            )
