"""What a run is asked to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fuser.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fuser.targets.options import AtcOptions

Form = Literal["function", "standard", "node"]


@dataclass(frozen=True)
class Options:
    """What a run is asked to do; see :func:`fuse` for each."""

    patterns: tuple[Path, ...] = ()
    only: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    fused_as: Form = "function"
    freeze_inputs: bool = False
    parity: bool = True
    inputs: Path | Mapping[str, NDArray[Any]] | None = None
    shapes: Mapping[str, Sequence[int]] | None = None
    draws: int = 3
    seed: int = 0
    tolerance: float | None = None
    timeout: float = 300.0
    hashes: bool = True
    atc: AtcOptions | None = None

    @property
    def constant_inputs(self) -> bool:
        """Whether initializers that are also graph inputs are constants: ATC takes them for that."""
        return self.freeze_inputs or self.atc is not None


def form_of(asked: Form | None, atc: AtcOptions | None) -> Form:
    """The form to write: the one that was asked for, or the target's own.

    Raises:
        ConfigError: the target has no such form.
    """
    forms: tuple[Form, ...] = ("function", "standard") if atc is None else ("standard", "node")
    if asked is not None and asked not in forms:
        name = "onnx" if atc is None else "atc"
        raise ConfigError(f"the target {name} has no form {asked!r}; fuse as {' or '.join(forms)}")
    return asked or forms[0]
