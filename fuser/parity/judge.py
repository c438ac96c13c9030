"""Who judges two models, and how strictly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuser.parity.repeat import load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuser.parity.compare import Tolerance
    from fuser.parity.draws import Outputs
    from fuser.parity.runner import Engine, Worker
    from fuser.parity.source import Array, Source


@dataclass(frozen=True)
class Judge:
    """An engine in a worker process, and the tolerance."""

    worker: Worker
    engine: Engine
    tolerance: Tolerance

    def load(self, source: Source) -> str:
        """Load a model; returns the engine's name and version. Raises EngineError and WorkerDiedError."""
        return load(self.worker, self.engine, source)

    def run(self, source: Source, feeds: Sequence[Mapping[str, Array]]) -> list[Outputs]:
        """Load a model and run it on each of the inputs. Raises EngineError and WorkerDiedError."""
        self.load(source)
        return [self.worker.run(feed)[0] for feed in feeds]
