"""Learning on hosted environments: real simulators, stated budgets; curves, numbers and films into results/hosted.

Run it with `make results-hosted` (many hours), or `python scripts/results_hosted.py NAME ...` for some of the runs.
Each goes on where it was stopped, and what is finished is not made again.
"""

import sys

from kept_runs import KeptRuns

PUSH = (
    "fetch-push --batch-size 16 --evaluate-every 100 --evaluation-episodes 100 --learning-rate 0.0001 "
    "--normalise --skip-reached"
)
PACMAN = "ms-pacman --evaluation-episodes 64 --learning-rate 0.0001"
REACH = (
    "gym:FetchReach-v4 --method hpg --batch-size 16 --batches 300 --evaluate-every 10 --evaluation-episodes 50 "
    "--runs 3 --learning-rate 0.0004 --max-active-goals 10 --normalise --goal-box --reward-offset 0.98"
)
JOBS = {
    "fetch-reach-hpg": f"{REACH} --ended carry",
    "fetch-reach-hpg-full": f"{REACH} --episodes-end horizon",
    "fetch-push-hpg-normalised": f"{PUSH} --method hpg --batches 2700",
    "fetch-push-gcpg-normalised": f"{PUSH} --method gcpg --batches 4100",
    "fetch-push-hpg-carry": f"{PUSH} --method hpg --batches 2700 --ended carry",
    "fetch-push-hpg-full": f"{PUSH} --method hpg --batches 2700 --episodes-end horizon",
    "fetch-push-hpg-shared": f"{PUSH} --method hpg --batches 2700 --episodes-end horizon --share-places",
    "ms-pacman-hpg-batch16": f"{PACMAN} --method hpg --batch-size 16 --batches 1000 --evaluate-every 100",
    "ms-pacman-gcpg-batch16": f"{PACMAN} --method gcpg --batch-size 16 --batches 1000 --evaluate-every 100",
    "ms-pacman-hpg-batch2": f"{PACMAN} --method hpg --batch-size 2 --batches 4000 --evaluate-every 400",
    "ms-pacman-gcpg-batch2": f"{PACMAN} --method gcpg --batch-size 2 --batches 4000 --evaluate-every 400",
}
TOGETHER = {
    "gym:FetchReach-v4, batch size 16": {"hpg, carry": "fetch-reach-hpg", "hpg, full horizon": "fetch-reach-hpg-full"},
    "fetch-push, batch size 16": {
        "hpg": "fetch-push-hpg-normalised",
        "hpg, carry": "fetch-push-hpg-carry",
        "hpg, full horizon": "fetch-push-hpg-full",
        "hpg, full, shared places": "fetch-push-hpg-shared",
        "gcpg": "fetch-push-gcpg-normalised",
    },
    "ms-pacman, batch size 16": {"hpg": "ms-pacman-hpg-batch16", "gcpg": "ms-pacman-gcpg-batch16"},
    "ms-pacman, batch size 2": {"hpg": "ms-pacman-hpg-batch2", "gcpg": "ms-pacman-gcpg-batch2"},
}


if __name__ == "__main__":
    KeptRuns("hosted", JOBS, TOGETHER, films=frozenset(JOBS)).make(sys.argv[1:])
