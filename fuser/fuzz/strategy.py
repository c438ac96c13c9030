"""The same models for hypothesis, which shrinks by itself. The only module here that imports it."""

from __future__ import annotations

from hypothesis import strategies as st

from fuser.fuzz.choices import Choices
from fuser.fuzz.models import Drawn, draw


@st.composite
def models(draw_from: st.DrawFn) -> Drawn:
    """A drawn model; each decision is an integer of hypothesis'."""
    return draw(Choices(lambda n: draw_from(st.integers(0, n - 1))))
