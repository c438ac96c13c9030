"""Notes on a model: what looks like a mistake or a waste, each with the numbers behind it."""

from fuser.advice.advise import advise
from fuser.advice.note import Note

__all__ = ["Note", "advise"]
