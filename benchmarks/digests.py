"""The share of a study's time that goes into digests: `python benchmarks/digests.py`.

Every digest that a study computes is timed while it runs and is exported, those of checkpoints included. The study
runs twice; the second time, which is shown, compiled programs come from JAX's cache.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hindsight_rl.cli import main
from hindsight_rl.records import checkpoints, digests, results, rows

STUDY = """
name = "digests"
environments = ["bit-flipping-8"]
methods = ["hpg"]
batch_sizes = [16]
learning_rates = [1e-3, 5e-4]
search = { runs = 2, batches = 200, evaluate_every = 50 }
definitive = { runs = 4, batches = 400, evaluate_every = 4 }
"""
PLACES = [
    (digests, "run_digest"),
    (results, "run_digest"),
    (rows, "run_digest"),
    (results, "plan_digest"),
    (checkpoints, "_describe"),
    (checkpoints, "_digest"),
]


class Spent:
    """Seconds of this process within some functions, and how often they were called."""

    seconds, calls = 0.0, 0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function."""

        def measured(*arguments: Any) -> Any:
            began = time.thread_time()
            try:
                return function(*arguments)
            finally:
                self.seconds += time.thread_time() - began
                self.calls += 1

        return measured


def measure() -> None:
    """Print the share of the second of two studies."""
    spent = Spent()
    for module, name in PLACES:
        setattr(module, name, spent.timed(getattr(module, name)))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "study.toml").write_text(STUDY)
        for attempt in ("first", "second"):
            spent.seconds, spent.calls, began = 0.0, 0, time.process_time()
            main(["study", "run", f"{folder}/study.toml", "--output", f"{folder}/{attempt}"])
            main(["study", "export", f"{folder}/{attempt}"])
            whole = time.process_time() - began
    print(f"{spent.calls} digests took {spent.seconds:.4f} of {whole:.1f} seconds: {spent.seconds / whole:.3%}")


if __name__ == "__main__":
    measure()
