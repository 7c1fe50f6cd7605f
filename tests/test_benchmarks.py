"""Benchmarks are run by hand, beside packages that tests do without; so their own side is run here."""

from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def test_hindsight_ppo_as_the_benchmark_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import hppo
    from hppo_contestants import Ours

    ours = Ours("bit-flipping-3", hidden_layers=(8,), minibatch=40, pairs=30, kept_episodes=64)
    ours.train()

    assert ours.gradient_steps == 16 * 5
    assert ours.episodes == 3 * 16
    assert 3 * 16 <= ours.steps <= 3 * 16 * 3
    # Inputs: 3 bits, their product with the goal, the goal; the critic has the time too. Sines and cosines of 3 waves.
    inputs = 3 + 3 + 3 * 6 + 3 + 3 * 6
    entry = {"actor": 2 * (inputs * 8 + inputs * 3), "critic": 2 * ((inputs + 1) * 8 + inputs + 1)}
    rest = {"actor": 2 * 8 * 3, "critic": 2 * 8}
    step = sum(2 * entry[name] + 3 * rest[name] for name in entry)
    look = 3 * (entry["actor"] + rest["actor"]) + 4 * (entry["critic"] + rest["critic"])
    np.testing.assert_allclose(hppo.gigaflops(ours), (40 * step + 30 * look / 10) / 1e9)
