"""How long a trained policy takes to act: microseconds of `policy.act`, and of the same policy in onnxruntime.

    python benchmarks/acting.py

Each figure is the median over many single calls, the first ones left out; the machine's load is printed beside it.
"""

import os
import time
from collections.abc import Callable
from statistics import median, quantiles

import numpy as np
import onnxruntime

from hindsight_rl.experiments.export import inputs_of, onnx_bytes
from hindsight_rl.experiments.policies import load_known
from hindsight_rl.experiments.zoo import PREFIX, zoo_names

CALLS = 2000
BATCH = 256


def microseconds(call: Callable[[], object]) -> tuple[float, float]:
    """Median and 95th percentile of a call."""
    taken = []
    for _ in range(CALLS + 50):
        began = time.perf_counter()
        call()
        taken.append(1e6 * (time.perf_counter() - began))
    return median(taken[50:]), quantiles(taken[50:], n=20)[-1]


def line(name: str) -> str:
    """What was measured of one policy."""
    (known,) = load_known(f"{PREFIX}{name}")
    random = np.random.default_rng(0)
    rows = {
        each: random.integers(0, 2, (BATCH, *shape)).astype(kind)
        for each, (shape, kind) in inputs_of(known.policy.spaces).items()
    }
    observations, goals = rows["observation"], rows["goal"]
    session = onnxruntime.InferenceSession(onnx_bytes(known), providers=["CPUExecutionProvider"])
    first = {each: row[:1] for each, row in rows.items()}
    timed = {
        "act, one": microseconds(lambda: known.policy.act(observations[0], goals[0])),
        f"act, {BATCH}": microseconds(lambda: known.policy.act(observations, goals)),
        "onnxruntime, one": microseconds(lambda: session.run(None, first)),
    }
    return "  ".join([f"{name:18}", *(f"{what} {mid:.0f} ({high:.0f})" for what, (mid, high) in timed.items())])


def main() -> None:
    """A line for each policy of the zoo."""
    print(f"{CALLS} calls each, median (95th percentile), microseconds; load {os.getloadavg()[0]:.1f}")
    for name in zoo_names():
        print(line(name))


if __name__ == "__main__":
    main()
