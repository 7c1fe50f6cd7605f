"""Studies as TOML: the presets that ship with the program, and files of a user's own."""

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, get_args

from hindsight_rl.agents.registry import METHODS, find_method
from hindsight_rl.core.errors import HindsightError, unknown
from hindsight_rl.core.numbers import is_number, is_positive_integer
from hindsight_rl.environments.registry import ENVIRONMENTS, specify
from hindsight_rl.experiments.paper import network_settings, paper_settings, tables, tried_learning_rates
from hindsight_rl.experiments.study import Plan, Stage, Strategy, Study, label, validate
from hindsight_rl.records.files import read_bytes
from hindsight_rl.records.runs import Cell
from hindsight_rl.training.settings import Settings

STAGE_KEYS = ("runs", "batches", "evaluate_every", "evaluation_episodes")
AGENT_KEYS = (
    "hidden_layers",
    "max_active_goals",
    "horizon",
    "ended",
    "initial_weights",
    "normalise",
    "reward_offset",
    "skip_reached",
    "share_places",
    "relabelling",
    "relabelled_goals",
    "replay_capacity",
    "epsilon",
    "discount",
    "gradient_steps",
    "minibatch_size",
    "beyond_horizon",
)
RATE_KEYS = ("learning_rates", "baseline_learning_rates")
MATCH_KEYS = ("environments", "methods", "batch_sizes")
STUDY_KEYS = ("name", "seed", *MATCH_KEYS, *RATE_KEYS, *AGENT_KEYS, "search", "definitive", "override", "exclude")
OVERRIDE_KEYS = (*MATCH_KEYS, *RATE_KEYS, *AGENT_KEYS, "search", "definitive")
SEARCH_KEYS = ("strategy", *STAGE_KEYS)


def presets() -> dict[str, str]:
    """The studies that ship with the program: name to the text of their file."""
    folder = files("hindsight_rl.experiments").joinpath("studies")
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
    validate(plans)
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
        chosen["baseline_learning_rates"] = rates["R1"]
    else:
        episodes = {"evaluation_episodes": row["evaluation_episodes"]}
        search = {"runs": row["search_runs"], "batches": row["search_batches"], **episodes}
        search["evaluate_every"] = row["search_batches_between_evaluations"]
        definitive = {"runs": row["runs"], "batches": row["batches"], **episodes}
        definitive["evaluate_every"] = row["batches_between_evaluations"]
        chosen["max_active_goals"] = row["max_active_goals_per_episode"]
        chosen["baseline_learning_rates"] = rates[row["baseline_learning_rates"] or row["policy_learning_rates"]]
    chosen["learning_rates"] = tried_learning_rates(cell.environment, METHODS[cell.method].replay)
    strategy = "halving" if METHODS[cell.method].baseline else "grid"
    return chosen | {"search": {"strategy": strategy, **search}, "definitive": definitive}


def _matches(content: Mapping[str, Any], key: str) -> list:
    """The environments, methods or batch sizes that a table names, checked."""
    values = content[key]
    if not isinstance(values, list) or not values:
        raise HindsightError(f"{key} must be a list with at least one entry, not {values!r}.")
    if key == "environments":
        return [label(_text(value, key)) for value in values]
    if key == "methods":
        for value in values:
            find_method(_text(value, key))
        return values
    for value in values:
        if not is_positive_integer(value):
            raise HindsightError(f"batch_sizes must be whole numbers of at least 1, not {value!r}.")
    return values


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
        if not is_number(value):
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
