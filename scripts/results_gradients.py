"""The measurements of docs/gradients.md: a fresh, a half-trained and a trained policy on two environments.

Run it with `make results-gradients` (about half an hour on two cores). What is there already is not made again. Tables,
and the figures that the text shows, are copied to results/gradients; all figures stay in runs/gradients.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from hindsight_rl.cli import main as hindsight

RESULTS = Path(__file__).parent.parent / "results" / "gradients"
RUNS = Path("runs") / "gradients"
KEPT = ("gradients.csv", "sample-sizes.csv")
SHOWN = "half"
"""The stage of training whose figures the text shows."""
ESTIMATORS = (
    "gcpg gcpg+v every-decision per-decision per-decision+v advantage weighted weighted+v weighted+v-active no-ratios"
)


@dataclass(frozen=True)
class Subject:
    """An environment, and when a policy that HPG trains on it (seed 0, the paper's settings) is half as good."""

    environment: str
    keep_every: int
    half: int
    trained: int
    samples: int


SUBJECTS = (Subject("bit-flipping-8", 14, 56, 1400, 100), Subject("four-rooms", 17, 119, 1700, 200))


def main() -> None:
    """Train the policies, then measure."""
    for subject in SUBJECTS:
        run = RUNS / subject.environment
        hindsight(
            ["train", subject.environment, "--keep-every", str(subject.keep_every), "--output", str(run), "--resume"]
        )
        for stage, checkpoint in (("fresh", None), ("half", subject.half), ("trained", subject.trained)):
            folder = RUNS / f"{subject.environment}-{stage}"
            if not (folder / "gradients.png").exists():
                measure(subject, folder, run, checkpoint)
            kept = RESULTS / folder.name
            kept.mkdir(parents=True, exist_ok=True)
            for file in (*KEPT, "gradients.png") if stage == SHOWN else KEPT:
                shutil.copy(folder / file, kept / file)


def measure(subject: Subject, folder: Path, run: Path, checkpoint: int | None) -> None:
    """One policy, all estimators, batches of 16, with all active goals and with 3 of each episode."""
    policy = [] if checkpoint is None else ["--run-folder", str(run), "--checkpoint", str(checkpoint)]
    choice = ["--batch-sizes", "16", "--max-active-goals", "all", "3", "--estimators", *ESTIMATORS.split()]
    where = ["--samples", str(subject.samples), "--output", str(folder)]
    hindsight(["gradients", subject.environment, *policy, *choice, *where])


if __name__ == "__main__":
    main()
