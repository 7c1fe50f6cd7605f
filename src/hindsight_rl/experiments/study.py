"""A study is data: which cells it has and how each is searched and run."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, Literal, get_args

from hindsight_rl.core.errors import HindsightError, unknown
from hindsight_rl.environments.registry import Specification, specify
from hindsight_rl.records.runs import Cell
from hindsight_rl.training.settings import Settings

Strategy = Literal["grid", "halving"]

SEEDS_BETWEEN_STAGES = 1_000_000
"""Definitive runs take the seeds from the study's own on; every stage of the search begins so many further on."""
LARGEST_SEED = 2**32 - 1 - 100 * SEEDS_BETWEEN_STAGES
"""Of a study: beyond it there is room for the seeds of more stages than a search ever has."""


@dataclass(frozen=True)
class Stage:
    """How many runs, of how many batches, evaluated how."""

    runs: int
    batches: int
    evaluate_every: int
    evaluation_episodes: int


@dataclass(frozen=True)
class Plan:
    """All that is to be run for one cell."""

    environment: str
    batch_size: int
    method: str
    learning_rates: tuple[float, ...]
    baseline_learning_rates: tuple[float, ...]
    """Empty for a method without a baseline."""
    strategy: Strategy
    search: Stage
    definitive: Stage
    agent: Mapping[str, Any]
    """The settings of the agent that are the same in every run."""
    specification: Specification
    """How to build the environment; a map is part of it, so that the study does not depend on the map's file."""
    seed: int = 0

    @property
    def cell(self) -> Cell:
        """What the study compares."""
        return Cell(self.environment, self.batch_size, self.method)

    @property
    def grid(self) -> list[tuple[float, float]]:
        """Every pair of learning rates, smallest first; the second is 0 for a method without a baseline."""
        return sorted(product(self.learning_rates, self.baseline_learning_rates or (0.0,)))

    def settings(self, stage: Stage, runs: int) -> Settings:
        """The settings of a stage; learning rates and seeds are given for each run apart."""
        common: dict[str, Any] = asdict(stage) | {"runs": runs, **self.agent}
        return Settings(method=self.method, batch_size=self.batch_size, **common)

    def to_json(self) -> dict[str, Any]:
        """What the results file keeps."""
        content = asdict(self)
        for key in ("environment", "batch_size", "method"):
            del content[key]
        return content

    @classmethod
    def from_json(cls, cell: Cell, content: Mapping[str, Any]) -> "Plan":
        """The inverse of `to_json`."""
        agent = {**content["agent"], "hidden_layers": tuple(content["agent"]["hidden_layers"])}
        return cls(
            *cell,
            learning_rates=tuple(content["learning_rates"]),
            baseline_learning_rates=tuple(content["baseline_learning_rates"]),
            strategy=content["strategy"],
            search=Stage(**content["search"]),
            definitive=Stage(**content["definitive"]),
            agent=agent,
            specification=specify(content["specification"]["name"], **content["specification"]["options"]),
            seed=content["seed"],
        )


@dataclass(frozen=True)
class Study:
    """A name and a plan for each cell."""

    name: str
    plans: tuple[Plan, ...]

    def narrowed(
        self,
        environments: Sequence[str] = (),
        methods: Sequence[str] = (),
        batch_sizes: Sequence[int] = (),
        strategy: Strategy | None = None,
        runs: int | None = None,
        search_runs: int | None = None,
    ) -> "Study":
        """A slice of the study, possibly with another search or other numbers of runs."""
        environments = [label(name) for name in environments]
        plans = list(self.plans)
        for key, wanted in (("environment", environments), ("method", methods), ("batch_size", batch_sizes)):
            held = list(dict.fromkeys(getattr(plan, key) for plan in plans))
            for value in wanted:
                if value not in held:
                    raise unknown(f"{key.replace('_', ' ')} in this study", str(value), [str(other) for other in held])
            plans = [plan for plan in plans if not wanted or getattr(plan, key) in wanted]
        if strategy is not None and strategy not in get_args(Strategy):
            raise unknown("search", strategy, get_args(Strategy))
        plans = [
            replace(
                plan,
                strategy=strategy or plan.strategy,
                definitive=replace(plan.definitive, runs=plan.definitive.runs if runs is None else runs),
                search=replace(plan.search, runs=plan.search.runs if search_runs is None else search_runs),
            )
            for plan in plans
        ]
        if not plans:
            raise HindsightError(
                "No cell of the study is left by this choice of environments, methods and batch sizes."
            )
        validate(plans)
        return replace(self, plans=tuple(plans))


def label(name: str) -> str:
    """What a cell calls its environment: one name for all spellings, but maps by the name of their file."""
    return name if name.startswith("grid:") else specify(name).id


def validate(plans: Sequence[Plan]) -> None:
    """Let the settings of every stage check themselves, and say which cell has the wrong one."""
    for plan in plans:
        try:
            for stage in (plan.search, plan.definitive):
                for rate, baseline_rate in plan.grid:
                    replace(
                        plan.settings(stage, stage.runs),
                        learning_rate=rate,
                        baseline_learning_rate=baseline_rate if plan.baseline_learning_rates else 1.0,
                        seed=plan.seed,
                    )
                if stage.runs > SEEDS_BETWEEN_STAGES:
                    raise HindsightError(f"runs must be at most {SEEDS_BETWEEN_STAGES}, not {stage.runs}.")
            if plan.seed > LARGEST_SEED:
                raise HindsightError(f"seed must lie between 0 and {LARGEST_SEED}, not {plan.seed}.")
        except HindsightError as error:
            raise HindsightError(
                f"For {plan.method} on {plan.environment} with batch size {plan.batch_size}: {error}"
            ) from None
