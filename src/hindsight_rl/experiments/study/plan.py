"""A study is data: which cells it has and how each is searched and run."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any, Literal, get_args

from hindsight_rl.core.errors import HindsightError, gist, unknown
from hindsight_rl.core.plugins import is_reference
from hindsight_rl.environments.registry import Specification, specify
from hindsight_rl.methods.registry import find_method
from hindsight_rl.records.runs import Cell, Choices
from hindsight_rl.training.settings import EpisodesEnd, Settings, make_settings

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
    choices: Mapping[str, tuple[float, ...]]
    """The values to choose among of each option that is searched, by name."""
    strategy: Strategy
    search: Stage
    definitive: Stage
    episodes_end: EpisodesEnd
    options: Mapping[str, Any]
    """The method's other options, which are the same in every run."""
    specification: Specification
    """How to build the environment; a map is part of it, so that the study does not depend on the map's file."""
    seed: int = 0
    guarded: bool = field(default=True, compare=False)
    """Every rung of a search has several runs, and one in which no run is above chance chooses nothing. Studies that
    began before there was a guard go on without it, so that they come to the same end."""

    @property
    def cell(self) -> Cell:
        """What the study compares."""
        return Cell(self.environment, self.batch_size, self.method)

    @property
    def grid(self) -> list[Choices]:
        """Every combination of choices, smallest first."""
        return [tuple(zip(self.choices, values, strict=True)) for values in sorted(product(*self.choices.values()))]

    def settings(self, stage: Stage, runs: int, choices: Choices | None = None) -> Settings:
        """The settings of a stage's runs with these choices (the first of the grid, if none are given).

        Rates and seeds are given for each run apart.
        """
        chosen = dict(self.grid[0] if choices is None else choices)
        common = asdict(stage) | {"runs": runs, "batch_size": self.batch_size, "episodes_end": self.episodes_end}
        return make_settings({**common, "method": self.method, **self.options, **_whole(self.method, chosen)})

    def to_json(self) -> dict[str, Any]:
        """What the results file keeps."""
        content = asdict(self) | {"specification": self.specification.to_json()}
        for key in ("environment", "batch_size", "method"):
            del content[key]
        return content

    @classmethod
    def from_json(cls, cell: Cell, content: Mapping[str, Any]) -> "Plan":
        """The inverse of `to_json`. Earlier versions kept options of all methods, of which the cell's own are taken.

        Options that a method did not have then have their defaults, with which it does what it did.
        """
        try:
            return cls._read(cell, content)
        except (LookupError, TypeError, AttributeError) as error:
            raise HindsightError(f"The plan of {cell.name} is damaged: {gist(error)}.") from error

    @classmethod
    def _read(cls, cell: Cell, content: Mapping[str, Any]) -> "Plan":
        options, kept = find_method(cell.method).visible, content["options"]
        return cls(
            *cell,
            choices={name: tuple(values) for name, values in content["choices"].items()},
            strategy=content["strategy"],
            search=Stage(**content["search"]),
            definitive=Stage(**content["definitive"]),
            episodes_end=content["episodes_end"],
            options={
                one.name: one.read(kept[one.name]) if one.name in kept else one.default
                for one in options
                if one.name not in content["choices"]
            },
            specification=Specification.from_json(content["specification"]),
            seed=content["seed"],
            guarded=content.get("guarded", False),
        )


def _whole(method: str, choices: Mapping[str, float]) -> dict[str, float]:
    """The choices, with those of whole-numbered options as whole numbers."""
    kinds = {one.name: one.bare for one in find_method(method).visible}
    return {
        name: int(value) if kinds.get(name) is int and value == int(value) else value for name, value in choices.items()
    }


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
    return name if name.startswith("grid:") or is_reference(name) else specify(name).id


def validate(plans: Sequence[Plan]) -> None:
    """Let the settings of every stage check themselves, and say which cell has the wrong one."""
    for plan in plans:
        try:
            for stage in (plan.search, plan.definitive):
                for choices in plan.grid:
                    replace(plan.settings(stage, stage.runs, choices), seed=plan.seed)
                if stage.runs > SEEDS_BETWEEN_STAGES:
                    raise HindsightError(f"runs must be at most {SEEDS_BETWEEN_STAGES}, not {stage.runs}.")
            if plan.seed > LARGEST_SEED:
                raise HindsightError(f"seed must lie between 0 and {LARGEST_SEED}, not {plan.seed}.")
        except HindsightError as error:
            raise HindsightError(
                f"For {plan.method} on {plan.environment} with batch size {plan.batch_size}: {error}"
            ) from None
