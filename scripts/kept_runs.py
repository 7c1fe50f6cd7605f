"""Training runs whose numbers, curves and films go into results/: each goes on where it was stopped."""

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hindsight_rl.analysis.figures import figure_bytes, learning_curves
from hindsight_rl.analysis.statistics import learning_curve
from hindsight_rl.cli import main as hindsight
from hindsight_rl.records.evaluations import read_evaluations

KEPT = ("evaluations.csv", "settings.json", "summary.json", "versions.json")
EPISODES_FILMED = 4


@dataclass(frozen=True)
class KeptRuns:
    """Jobs by name, and figures with the curves of several of them by title."""

    name: str
    """Of the folder below results/, and below runs/."""
    jobs: Mapping[str, str]
    """The arguments of `hindsight train`, without the output folder."""
    together: Mapping[str, Mapping[str, str]]
    """By the title of a figure, the labels of its curves and the jobs that they are of."""
    films: frozenset[str]
    """Jobs whose policies are filmed."""

    @property
    def folder(self) -> Path:
        """Where the results go."""
        return Path(__file__).parent.parent / "results" / self.name

    def make(self, names: Sequence[str]) -> None:
        """Train some of the jobs, or all; film them, and keep what is small."""
        unknown = sorted(set(names) - self.jobs.keys())
        if unknown:
            sys.exit(f"There is no run '{unknown[0]}'. Known: {', '.join(self.jobs)}.")
        for name in names or self.jobs:
            run, kept = Path("runs") / self.name / name, self.folder / name
            hindsight(["train", *self.jobs[name].split(), "--output", str(run), "--resume"])
            kept.mkdir(parents=True, exist_ok=True)
            if name in self.films and not (kept / "policy.mp4").exists():
                film = ["--video", str(kept / "policy.mp4"), "--episodes", str(EPISODES_FILMED)]
                hindsight(["render", str(run), *film])
            for file in KEPT:
                shutil.copy(run / file, kept / file)
            self.draw()

    def draw(self) -> None:
        """Draw the finished runs of each figure."""
        for title, names in self.together.items():
            tables = {label: self.folder / name / "evaluations.csv" for label, name in names.items()}
            curves = {label: learning_curve(read_evaluations(path)) for label, path in tables.items() if path.exists()}
            if curves:
                picture = figure_bytes(learning_curves(curves, title, None))
                (self.folder / f"{re.sub('[^A-Za-z0-9]+', '-', title)}.png").write_bytes(picture)
