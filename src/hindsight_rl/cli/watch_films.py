"""Films of the newest policies for the live page: made when somebody looks, one at a time, in a process of its own."""

import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

from hindsight_rl.environments.registry import ENVIRONMENTS
from hindsight_rl.records.run_folders import CHECKPOINT, RunFolder, changed

EPISODES = 3


class _Work(NamedTuple):
    run: Path
    film: Path
    process: subprocess.Popen[bytes]


class FilmMaker:
    """Has `hindsight render` film a run into a folder that goes with this object: nothing is written to the run.

    Only environments of this package are filmed; what else a folder's settings name is not imported, as always.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hindsight-films-")
        self._films: dict[Path, Path] = {}
        self._filmed: dict[Path, float] = {}
        """Of which checkpoint a film was begun, by when that was written: one that fails is not tried twice."""
        self._begun = 0
        self._work: _Work | None = None
        self._lock = threading.Lock()

    def film_of(self, run: RunFolder) -> Path | None:
        """The newest film there is so far; where the run has saved something since, the next one is begun."""
        with self._lock:
            self._collect()
            saved = changed(run.path / CHECKPOINT)
            if saved and self._work is None and run.environment in ENVIRONMENTS and self._filmed.get(run.path) != saved:
                self._filmed[run.path] = saved
                self._work = self._begin(run)
            return self._films.get(run.path)

    def close(self) -> None:
        """End what is being made, and throw all films away."""
        with self._lock:
            if self._work is not None:
                self._work.process.kill()
                self._work.process.wait()
            self._folder.cleanup()

    def _begin(self, run: RunFolder) -> _Work:
        flag, suffix = ("--video", ".mp4") if ENVIRONMENTS[run.environment].hosted else ("--output", ".gif")
        self._begun += 1
        film = Path(self._folder.name) / f"{self._begun}{suffix}"
        words = ["render", str(run.path.resolve()), "--episodes", str(EPISODES), flag, str(film)]
        quiet = subprocess.DEVNULL
        # -P: what lies in the folder in which the page was started is not imported.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "hindsight_rl", *words], stdin=quiet, stdout=quiet, stderr=quiet
        )
        return _Work(run.path, film, process)

    def _collect(self) -> None:
        """Take what the process made, once it has ended."""
        if self._work is None or self._work.process.poll() is None:
            return
        run, film, process = self._work
        self._work = None
        if process.returncode == 0 and film.exists():
            if old := self._films.get(run):
                old.unlink(missing_ok=True)
            self._films[run] = film
