"""A study is data: which cells it has and how each is searched and run."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

from hindsight.agents.registry import METHODS, find_method
from hindsight.core.errors import HindsightError, unknown
from hindsight.environments.registry import ENVIRONMENTS, Specification, specify
from hindsight.experiments.paper import network_settings, paper_settings, tables
from hindsight.records.files import read_bytes
from hindsight.records.results import Cell
from hindsight.training.settings import Settings

Strategy = Literal["grid", "halving"]

SEEDS_BETWEEN_STAGES = 1_000_000
"""Definitive runs take the seeds from the study's own on; every stage of the search begins so many further on."""
LARGEST_SEED = 2**32 - 1 - 100 * SEEDS_BETWEEN_STAGES
"""Of a study: beyond it there is room for the seeds of more stages than a search ever has."""

STAGE_KEYS = ("runs", "batches", "evaluate_every", "evaluation_episodes")
AGENT_KEYS = (
    "hidden_layers",
    "max_active_goals",
    "horizon",
    "ended",
    "initial_weights",
    "normalise",
    "relabelling",
    "relabelled_goals",
    "replay_capacity",
    "epsilon",
    "discount",
    "gradient_steps",
    "minibatch_size",
)
RATE_KEYS = ("learning_rates", "baseline_learning_rates")
MATCH_KEYS = ("environments", "methods", "batch_sizes")
STUDY_KEYS = ("name", "seed", *MATCH_KEYS, *RATE_KEYS, *AGENT_KEYS, "search", "definitive", "override", "exclude")
OVERRIDE_KEYS = (*MATCH_KEYS, *RATE_KEYS, *AGENT_KEYS, "search", "definitive")
SEARCH_KEYS = ("strategy", *STAGE_KEYS)


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
        environments = [_label(name) for name in environments]
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
        _validate(plans)
        return replace(self, plans=tuple(plans))


def presets() -> dict[str, str]:
    """The studies that ship with the program: name to the text of their file."""
    folder = files("hindsight.experiments").joinpath("studies")
    return {entry.name.removesuffix(".toml"): entry.read_text() for entry in folder.iterdir() if ".toml" in entry.name}


def load_study(source: str) -> Study:
    """A study by the name of a preset or the path of a TOML file."""
    shipped = presets()
    if source in shipped:
        return parse_study(shipped[source], f"the preset '{source}'", source)
    path = Path(source)
    if path.suffix != ".toml" and not path.exists():
        raise unknown("study (a preset, a .toml file or a study's folder)", source, shipped)
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError:
        raise HindsightError(f"'{path}' is not a study: it is not text.") from None
    return parse_study(text, f"'{path}'", path.stem)


def parse_study(text: str, source: str, name: str) -> Study:
    """The study that a TOML text describes."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise HindsightError(f"{source} is not valid TOML: {error}.") from None
    try:
        return _study(content, name)
    except HindsightError as error:
        raise HindsightError(f"In {source}: {error}") from None


def _study(content: Mapping[str, Any], name: str) -> Study:
    _require_known(content, STUDY_KEYS, "")
    name = content.get("name", name)
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name:
        raise HindsightError(f"name must be a word that can name a folder, not {name!r}.")
    for key in MATCH_KEYS:
        if key not in content:
            raise HindsightError(f"{key} is missing: a study needs environments, methods and batch_sizes.")
    environments, methods, sizes = (_matches(content, key) for key in MATCH_KEYS)
    overrides, excluded = (_tables(content, key) for key in ("override", "exclude"))
    for entry in overrides:
        _require_known(entry, OVERRIDE_KEYS, " of an override")
    for entry in excluded:
        _require_known(entry, MATCH_KEYS, " of an exclusion")
    for layer in (content, *overrides, *excluded):
        _check_layer(layer)
    _require_distinct(environments, methods, sizes)
    for specification in map(specify, environments):
        if not ENVIRONMENTS[specification.name].hosted:
            specification.build()  # lets a size or a map that cannot be used say so now
    cells = [Cell(*values) for values in product(environments, sizes, methods)]
    cells = [cell for cell in cells if not any(_applies(entry, cell) for entry in excluded)]
    if not cells:
        raise HindsightError("every cell is excluded.")
    plans = tuple(_plan(cell, content, overrides) for cell in cells)
    _validate(plans)
    return Study(name, plans)


def _tables(content: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    entries = content.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise HindsightError(f"{key} must be written as tables: [[{key}]].")
    return entries


def _check_layer(layer: Mapping[str, Any]) -> None:
    """Refuse unknown names in the study's own settings or in an override, whether or not it applies to a cell."""
    for key in MATCH_KEYS:
        if key in layer:
            _matches(layer, key)
    for key, allowed in (("search", SEARCH_KEYS), ("definitive", STAGE_KEYS)):
        if not isinstance(layer.get(key, {}), dict):
            raise HindsightError(f"{key} must be a table: [{key}].")
        _require_known(layer.get(key, {}), allowed, f" of [{key}]")


def _plan(cell: Cell, content: Mapping[str, Any], overrides: Sequence[Mapping[str, Any]]) -> Plan:
    """The layers of what is said of a cell: defaults, the paper's settings, the study's, its overrides in order."""
    chosen = _defaults(cell)
    matching = [entry for entry in overrides if _applies(entry, cell)]
    for layer in (content, *matching):
        for key in (*RATE_KEYS, *AGENT_KEYS):
            if key in layer:
                chosen[key] = layer[key]
        for key in ("search", "definitive"):
            chosen[key] |= layer.get(key, {})
    if chosen["max_active_goals"] == 0:
        chosen["max_active_goals"] = None
    if isinstance(chosen["hidden_layers"], list):
        chosen["hidden_layers"] = tuple(chosen["hidden_layers"])
    strategy = chosen["search"].pop("strategy")
    if strategy not in get_args(Strategy):
        raise unknown("search strategy", str(strategy), get_args(Strategy))
    baseline = METHODS[cell.method].baseline
    return Plan(
        *cell,
        learning_rates=_rates(chosen, "learning_rates"),
        baseline_learning_rates=_rates(chosen, "baseline_learning_rates") if baseline else (),
        strategy=strategy,
        search=Stage(**chosen["search"]),
        definitive=Stage(**chosen["definitive"]),
        agent={key: chosen[key] for key in AGENT_KEYS},
        specification=specify(cell.environment),
        seed=content.get("seed", 0),
    )


def _defaults(cell: Cell) -> dict[str, Any]:
    """The paper's settings of a cell where it has some, otherwise those of its small environments' search."""
    base = Settings()
    rates = tables()["learning_rates"]
    chosen: dict[str, Any] = {key: getattr(base, key) for key in AGENT_KEYS} | network_settings(cell.environment)
    row = paper_settings(cell.environment, cell.batch_size)
    if row is None:
        stage = {"batches": base.batches, "evaluate_every": base.evaluate_every}
        stage["evaluation_episodes"] = base.evaluation_episodes
        search, definitive = {"runs": 10, **stage}, {"runs": 20, **stage}
        chosen |= {"learning_rates": rates["R1"], "baseline_learning_rates": rates["R1"]}
    else:
        episodes = {"evaluation_episodes": row["evaluation_episodes"]}
        search = {"runs": row["search_runs"], "batches": row["search_batches"], **episodes}
        search["evaluate_every"] = row["search_batches_between_evaluations"]
        definitive = {"runs": row["runs"], "batches": row["batches"], **episodes}
        definitive["evaluate_every"] = row["batches_between_evaluations"]
        chosen["max_active_goals"] = row["max_active_goals_per_episode"]
        chosen["learning_rates"] = rates[row["policy_learning_rates"]]
        chosen["baseline_learning_rates"] = rates[row["baseline_learning_rates"] or row["policy_learning_rates"]]
    if METHODS[cell.method].replay and f"dqn_{cell.environment}" in rates:
        chosen["learning_rates"] = rates[f"dqn_{cell.environment}"]
    strategy = "halving" if METHODS[cell.method].baseline else "grid"
    return chosen | {"search": {"strategy": strategy, **search}, "definitive": definitive}


def _matches(content: Mapping[str, Any], key: str) -> list:
    """The environments, methods or batch sizes that a table names, checked."""
    values = content[key]
    if not isinstance(values, list) or not values:
        raise HindsightError(f"{key} must be a list with at least one entry, not {values!r}.")
    if key == "environments":
        return [_label(_text(value, key)) for value in values]
    if key == "methods":
        for value in values:
            find_method(_text(value, key))
        return values
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise HindsightError(f"batch_sizes must be whole numbers of at least 1, not {value!r}.")
    return values


def _label(name: str) -> str:
    """What a cell calls its environment: one name for all spellings, but maps by the name of their file."""
    return name if name.startswith("grid:") else specify(name).id


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise HindsightError(f"{key} must be names, not {value!r}.")
    return value


def _applies(entry: Mapping[str, Any], cell: Cell) -> bool:
    held = dict(zip(MATCH_KEYS, (cell.environment, cell.method, cell.batch_size), strict=True))
    return all(held[key] in _matches(entry, key) for key in MATCH_KEYS if key in entry)


def _rates(chosen: Mapping[str, Any], key: str) -> tuple[float, ...]:
    values = chosen[key]
    if not isinstance(values, list) or not values:
        raise HindsightError(f"{key} must be a list with at least one rate, not {values!r}.")
    for value in values:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise HindsightError(f"{key} must be numbers, not {value!r}.")
    if len(set(values)) != len(values):
        raise HindsightError(f"{key} names a rate twice.")
    return tuple(sorted(map(float, values)))


def _require_known(content: Mapping[str, Any], allowed: Sequence[str], where: str) -> None:
    for key in content:
        if key not in allowed:
            raise unknown(f"setting{where}", key, allowed)


def _require_distinct(*lists: Sequence) -> None:
    for values in lists:
        for value in values:
            if values.count(value) > 1:
                raise HindsightError(f"{value!r} is named twice.")


def _validate(plans: Sequence[Plan]) -> None:
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
