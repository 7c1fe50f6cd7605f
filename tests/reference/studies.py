"""Studies made up from formulas and noise, in the form in which real ones are read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from hindsight_rl.records.runs import DEFINITIVE, Cause, Cell, Choices, FinishedRun, RunKey, StudyResults

LEARNING_RATES = (1e-2, 1e-3, 1e-4)
BASELINE_LEARNING_RATES = (1e-2, 1e-3)
BEST_RETURNS: Mapping[str, float] = {"bit-flipping-8": 5.0, "bit-flipping-16": 9.0, "empty-room": 20.0}
"""What the made-up learning curves rise to; any other environment has 10."""
BATCHES = 100
EVALUATE_EVERY = 10
TIME_STEPS, BINS = 9, 20
_SPEED = {"gcpg": 1.0, "gcpg+b": 1.4, "hpg": 4.0, "hpg+b": 3.0, "hpg-no-ratios": 2.0}


def synthetic_study(
    environments: Sequence[str] = ("bit-flipping-8", "four-rooms"),
    methods: Sequence[str] = ("gcpg", "hpg", "hpg-no-ratios"),
    batch_sizes: Sequence[int] = (2, 16),
    runs: int = 6,
    seed: int = 0,
    strategy: str = "grid",
    failures: bool = True,
    metrics: Mapping[str, Sequence[str]] | None = None,
) -> StudyResults:
    """A finished study whose rate of 1e-3 is the best and whose hpg learns fastest.

    With `failures`, one search run at the highest rate fails in each cell, and the last definitive run of the study.
    `metrics` are what some methods record besides, unknown at batch 0.
    """
    generator = np.random.default_rng(seed)
    cells = [Cell(*names) for names in product(environments, batch_sizes, methods)]
    plans = {cell: _plan(cell, runs, strategy) for cell in cells}
    finished = [run for cell in cells for run in _cell_runs(cell, plans[cell], generator, failures)]
    if failures:
        finished[-1] = failed(finished[-1], batch=40)
    finished = [_with_more(run, (metrics or {}).get(run.cell.method, ()), generator) for run in finished]
    facts = {"format": 2, "name": "synthetic", "description": "A study made up for tests."}
    origins = {1: {"hindsight": "0.1.0", "python": "3.11", "machine": "made up", "cores": 2}}
    return StudyResults(facts, plans, finished, origins)


def best_return(environment: str) -> float:
    """What the made-up learning curves of an environment rise to."""
    return BEST_RETURNS.get(environment, 10.0)


def keep_runs(study: StudyResults, wanted: Callable[[FinishedRun], bool]) -> StudyResults:
    """The study at a time when it had only some of its runs."""
    return replace(study, runs=[run for run in study.runs if wanted(run)])


def failed(run: FinishedRun, batch: int, sentence: str = "The gradient was not finite.") -> FinishedRun:
    """The run as it would be, had it failed in a batch; -1 stands for an exception, which leaves no evaluations."""
    kept = slice(0, None if batch >= 0 else 0)
    batches, episodes = run.batches[kept], run.episodes[kept]
    metrics = {name: np.where(batches >= batch, np.nan, values[kept]) for name, values in run.metrics.items()}
    columns: dict[str, Any] = {"batches": batches, "episodes": episodes, "metrics": metrics}
    return replace(run, **columns, failure=Cause(batch, sentence), records={} if batch < 0 else run.records)


def definitive_run(cell: Cell, seed: int, returns: Sequence[float], seconds: float = 8.0) -> FinishedRun:
    """A definitive run with the given return at each of its evaluations, which are ten batches apart."""
    batches = EVALUATE_EVERY * np.arange(len(returns))
    values = np.array(returns)
    key = RunKey(DEFINITIVE, (("learning_rate", 1e-3),), seed)
    metrics = {"mean_return": values, "success_rate": values / 10}
    return FinishedRun(cell, key, {}, batches, batches * cell.batch_size, metrics, seconds)


def _plan(cell: Cell, runs: int, strategy: str) -> dict[str, Any]:
    size = {"batches": BATCHES, "evaluate_every": EVALUATE_EVERY, "evaluation_episodes": 256}
    return {
        "choices": {"learning_rate": list(LEARNING_RATES)}
        | ({"baseline_learning_rate": list(BASELINE_LEARNING_RATES)} if cell.method.endswith("+b") else {}),
        "strategy": strategy,
        "seed": 0,
        "search": {"runs": 2, **size},
        "definitive": {"runs": runs, **size},
        "specification": {"name": cell.environment, "options": {}},
        "episodes_end": "goal",
        "options": {"hidden_layers": [256, 256], "max_active_goals": None, "ended": "drop"},
    }


def _cell_runs(
    cell: Cell, plan: Mapping[str, Any], generator: np.random.Generator, failures: bool
) -> list[FinishedRun]:
    runs = [
        _run(cell, RunKey(stage, choices, 1_000_000 * place + number), batches, generator)
        for place, (stage, batches, settings) in enumerate(_search_stages(plan), start=1)
        for choices in settings
        for number in range(plan["search"]["runs"])
    ]
    if failures:
        highest = max(run.key.choices[0] for run in runs)
        victim = next(index for index, run in enumerate(runs) if run.key.choices[0] == highest)
        runs[victim] = failed(runs[victim], batch=20)
    best = tuple((name, 1e-3) for name in plan["choices"])
    definitive = (RunKey(DEFINITIVE, best, number) for number in range(plan["definitive"]["runs"]))
    return runs + [_run(cell, key, BATCHES, generator) for key in definitive]


def _search_stages(plan: Mapping[str, Any]) -> Iterator[tuple[str, int, list[Choices]]]:
    """Each stage of the search with its batches and settings; halving goes on without the worst rate."""
    names = list(plan["choices"])
    settings = [tuple(zip(names, values, strict=True)) for values in product(*plan["choices"].values())]
    if plan["strategy"] == "grid":
        yield "search", BATCHES, settings
        return
    yield "search 1", BATCHES // 2, settings
    yield "search 2", BATCHES, [choices for choices in settings if choices[0][1] != LEARNING_RATES[0]]


def _run(cell: Cell, key: RunKey, batches: int, generator: np.random.Generator) -> FinishedRun:
    evaluated = np.arange(0, batches + 1, EVALUATE_EVERY)
    distances = [np.log10(value / 1e-3) for _, value in key.choices]
    speed = _SPEED.get(cell.method, 1.0) * np.exp(-float(np.square(distances).sum())) * np.log2(2 * cell.batch_size)
    share = 1 - np.exp(-0.01 * speed * evaluated * generator.uniform(0.8, 1.2))
    share = np.clip(share + 0.02 * generator.normal(size=len(evaluated)), 0, 1)
    records = {"ratios": _ratios(generator)} if cell.method in ("hpg", "hpg+b") and key.stage == DEFINITIVE else {}
    return FinishedRun(
        cell=cell,
        key=key,
        settings={"method": cell.method, "batch_size": cell.batch_size, **dict(key.choices)},
        batches=evaluated,
        episodes=evaluated * cell.batch_size,
        metrics={"mean_return": best_return(cell.environment) * share, "success_rate": share},
        seconds=float(generator.uniform(0.5, 2.0)) * batches / BATCHES,
        records=records,
        origin=1,
    )


def _with_more(run: FinishedRun, names: Sequence[str], generator: np.random.Generator) -> FinishedRun:
    """The run with metrics that fall with noise, each ten times the scale of the one before; none at batch 0."""
    noise = generator.normal(scale=0.05, size=(len(names), len(run.batches)))
    falling = (
        np.where(run.batches == 0, np.nan, 1.5 - run.success_rates + noise) * 10.0 ** np.arange(len(names))[:, None]
    )
    return replace(run, metrics={**run.metrics, **dict(zip(names, falling, strict=True))})


def _ratios(generator: np.random.Generator) -> np.ndarray:
    """Counts that crowd towards zero as time goes by."""
    rates = 1 + np.arange(TIME_STEPS)[:, None] * np.linspace(0.1, 1, BINS)
    return generator.poisson(400 * np.exp(-rates)).astype(np.int64)
