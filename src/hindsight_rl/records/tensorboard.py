"""Learning curves as TensorBoard event files, for those who watch their runs there."""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hindsight_rl.core.errors import HindsightError

SECONDS_UNTIL_SHOWN = 2
"""What is written waits at most so long before TensorBoard can see it."""


class EventFiles:
    """One folder of events for each run; use it as a context manager, so that nothing stays unwritten."""

    def __init__(self, folder: Path):
        """Refuses at once when the optional package is missing."""
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise HindsightError(
                "TensorBoard files need the package tensorboardX: pip install 'hindsight-rl[tensorboard]'."
            ) from None
        self._folder = folder
        self._new_writer = SummaryWriter
        self._writers: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._writers):
            self.close(name)

    def write(self, run: str, batch: int, values: Mapping[str, float]) -> None:
        """Add finite values of a run after so many batches; what an earlier start wrote for later ones is replaced."""
        if run not in self._writers:
            # Files are named after the second in which they are made; a second start within it must not overwrite.
            suffix = f".{time.time_ns()}"
            self._writers[run] = self._new_writer(
                str(self._folder / run), purge_step=batch, flush_secs=SECONDS_UNTIL_SHOWN, filename_suffix=suffix
            )
        for name, value in values.items():
            if math.isfinite(value):
                self._writers[run].add_scalar(name, value, batch)

    def close(self, run: str) -> None:
        """A run is over."""
        if run in self._writers:
            self._writers.pop(run).close()


def event_names(values: Mapping[str, float]) -> dict[str, float]:
    """Metrics under the names that people read: `return`, `success rate`, and others with spaces."""
    return {name.removeprefix("mean_").replace("_", " "): value for name, value in values.items()}
