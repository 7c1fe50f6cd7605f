"""The guard of searches on real ones: what the committed study's rounds would have been told."""

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from hindsight_rl.records.runs import DEFINITIVE, Cell, FinishedRun, RunKey, above_chance

EVALUATIONS = Path(__file__).parents[2] / "results" / "paper" / "evaluations.parquet"
ROUND = ("environment", "batch_size", "method", "stage")
RUN = (*ROUND, "learning_rate", "baseline_learning_rate", "seed")


def runs_of_searches() -> list[FinishedRun]:
    """Those of the methods without hindsight, which are the ones that often learn nothing."""
    polars = pytest.importorskip("polars")
    table = polars.read_parquet(EVALUATIONS).filter(
        polars.col("stage") != DEFINITIVE, polars.col("method").str.starts_with("gcpg")
    )

    def run(key: tuple[Any, ...], rows: Any) -> FinishedRun:
        metrics = {name: rows[name].to_numpy() for name in ("mean_return", "success_rate")}
        choices = tuple((name, value) for name, value in zip(RUN[4:6], key[4:6], strict=True) if value is not None)
        batches, episodes = rows["batch"].to_numpy(), rows["episodes"].to_numpy()
        settings = {"evaluation_episodes": 256}
        return FinishedRun(Cell(*key[:3]), RunKey(key[3], choices, key[6]), settings, batches, episodes, metrics, 1.0)

    groups = table.sort("batch").group_by(RUN, maintain_order=True)
    return sorted((run(key, rows) for key, rows in groups), key=lambda found: (*found.cell, found.key))


def test_rounds_at_chance_are_those_in_which_nothing_was_learned() -> None:
    """On 16 bits no method without hindsight ever learns; on 8 bits the first rung was too short for GCPG+B."""
    found = {
        name: [one.evidence for one in runs]
        for name, runs in groupby(runs_of_searches(), lambda one: (*one.cell, one.key.stage))
    }
    assert len(found) == 8 * (1 + 3)
    at_chance = {name for name, runs in found.items() if above_chance(runs) == 0}
    hopeless = {name for name in found if name[0] == "bit-flipping-16"}
    assert at_chance == hopeless | {("bit-flipping-8", 2, "gcpg+b", "search 1")}
