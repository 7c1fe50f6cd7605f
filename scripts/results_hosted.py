"""Learning on hosted environments: real simulators, stated budgets; curves, numbers and films into results/hosted.

Run it with `make results-hosted` (many hours), or `python scripts/results_hosted.py NAME ...` for some of the runs.
Each goes on where it was stopped, and what is finished is not made again.
"""

import shutil
import sys
from pathlib import Path

from hindsight.cli import main as hindsight

RESULTS = Path(__file__).parent.parent / "results" / "hosted"
RUNS = Path("runs") / "hosted"
KEPT = ("evaluations.csv", "learning-curve.png", "settings.json", "summary.json", "versions.json")
EPISODES_FILMED = 4

PUSH = "fetch-push --batch-size 16 --batches 2700 --evaluate-every 100 --evaluation-episodes 100 --learning-rate 0.0001"
PACMAN = "ms-pacman --evaluation-episodes 64 --learning-rate 0.0001"
JOBS = {
    "fetch-reach-hpg": (
        "gym:FetchReach-v4 --method hpg --batch-size 16 --batches 300 --evaluate-every 10 --evaluation-episodes 50 "
        "--runs 3 --learning-rate 0.0004 --max-active-goals 10 --normalise --goal-box --reward-offset 0.98 "
        "--ended carry"
    ),
    "fetch-push-hpg-normalised": f"{PUSH} --method hpg --normalise --skip-reached",
    "fetch-push-gcpg-normalised": f"{PUSH} --method gcpg --normalise --skip-reached",
    "fetch-push-hpg-carry": f"{PUSH} --method hpg --normalise --skip-reached --ended carry",
    "fetch-push-hpg": f"{PUSH} --method hpg",
    "fetch-push-gcpg": f"{PUSH} --method gcpg",
    "ms-pacman-hpg-batch16": f"{PACMAN} --method hpg --batch-size 16 --batches 1000 --evaluate-every 100",
    "ms-pacman-gcpg-batch16": f"{PACMAN} --method gcpg --batch-size 16 --batches 1000 --evaluate-every 100",
    "ms-pacman-hpg-batch2": f"{PACMAN} --method hpg --batch-size 2 --batches 4000 --evaluate-every 400",
    "ms-pacman-gcpg-batch2": f"{PACMAN} --method gcpg --batch-size 2 --batches 4000 --evaluate-every 400",
}


def main(names: list[str]) -> None:
    """Train, film and keep what is small."""
    unknown = sorted(set(names) - JOBS.keys())
    if unknown:
        sys.exit(f"There is no run '{unknown[0]}'. Known: {', '.join(JOBS)}.")
    for name in names or JOBS:
        folder = RUNS / name
        hindsight(["train", *JOBS[name].split(), "--output", str(folder), "--resume"])
        kept = RESULTS / name
        kept.mkdir(parents=True, exist_ok=True)
        if not (kept / "policy.mp4").exists():
            film = ["--video", str(kept / "policy.mp4"), "--episodes", str(EPISODES_FILMED)]
            hindsight(["render", str(folder), *film])
        for file in KEPT:
            shutil.copy(folder / file, kept / file)


if __name__ == "__main__":
    main(sys.argv[1:])
