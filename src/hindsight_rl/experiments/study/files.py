"""Studies as TOML: the presets that ship with the program, and files of a user's own."""

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, get_args

from hindsight_rl.core.errors import HindsightError, unknown
from hindsight_rl.core.memory import MOST_BYTES_OF_TEXT
from hindsight_rl.core.numbers import is_number, is_positive_integer
from hindsight_rl.core.options import Option
from hindsight_rl.core.run import RunSettings, translated
from hindsight_rl.environments.registry import find_entry, specify
from hindsight_rl.experiments.configuration import settable
from hindsight_rl.experiments.paper import default_values, paper_settings, tables, tried_learning_rates
from hindsight_rl.experiments.study.plan import Plan, Stage, Strategy, Study, label, validate
from hindsight_rl.methods.registry import find_method
from hindsight_rl.records.files import read_bytes, read_toml
from hindsight_rl.records.runs import Cell
from hindsight_rl.training.settings import methods_with

Notice = Callable[[str], None]
"""Hears of an earlier spelling."""
STAGE_KEYS = ("runs", "batches", "evaluate_every", "evaluation_episodes")
PLURALS = {"learning_rates": "learning_rate", "baseline_learning_rates": "baseline_learning_rate"}
"""Short spellings of what is searched: `learning_rates = [...]` is `search.options.learning_rate = [...]`."""
MATCH_KEYS = ("environments", "methods", "batch_sizes")
SHARED_KEYS = ("episodes_end", *PLURALS, "search", "definitive")
STUDY_KEYS = ("name", "seed", *MATCH_KEYS, *SHARED_KEYS, "override", "exclude")
SEARCH_KEYS = ("strategy", "options", *STAGE_KEYS)


def presets() -> dict[str, str]:
    """The studies that ship with the program: name to the text of their file."""
    folder = files("hindsight_rl.experiments.study").joinpath("presets")
    return {entry.name.removesuffix(".toml"): entry.read_text() for entry in folder.iterdir() if ".toml" in entry.name}


def load_study(source: str, notice: Notice = lambda sentence: None) -> Study:
    """A study by the name of a preset or the path of a TOML file."""
    shipped = presets()
    if source in shipped:
        return parse_study(shipped[source], f"the preset '{source}'", source, notice)
    path = Path(source)
    if path.suffix != ".toml" and not path.exists():
        raise unknown("study (a preset, a .toml file or a study's folder)", source, shipped)
    try:
        text = read_bytes(path, MOST_BYTES_OF_TEXT).decode()
    except UnicodeDecodeError:
        raise HindsightError(f"'{path}' is not a study: it is not text.") from None
    return parse_study(text, f"'{path}'", path.stem, notice)


def parse_study(text: str, source: str, name: str, notice: Notice = lambda sentence: None) -> Study:
    """The study that a TOML text describes."""
    content = read_toml(text, source)
    try:
        return _study(content, name, lambda sentence: notice(f"In {source}: {sentence}"))
    except HindsightError as error:
        raise HindsightError(f"In {source}: {error}") from None


def _study(content: Mapping[str, Any], name: str, notice: Notice) -> Study:
    name = content.get("name", name)
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name:
        raise HindsightError(f"name must be a word that can name a folder, not {name!r}.")
    for key in MATCH_KEYS:
        if key not in content:
            raise HindsightError(f"{key} is missing: a study needs environments, methods and batch_sizes.")
    environments, methods, sizes = (_matches(content, key) for key in MATCH_KEYS)
    overrides, excluded = (_tables(content, key) for key in ("override", "exclude"))
    content, *overrides = (translated(layer, notice) for layer in (content, *overrides))
    for entry in excluded:
        _require_known(entry, MATCH_KEYS, " of an exclusion")
    owned = _Owned(environments, methods)
    _check_layer(content, STUDY_KEYS, owned)
    for entry in overrides:
        _check_layer(entry, (*MATCH_KEYS, *SHARED_KEYS), owned, " of an override")
    for entry in excluded:
        _check_layer(entry, MATCH_KEYS, owned)
    _require_distinct(environments, methods, sizes)
    cells = [Cell(*values) for values in product(environments, sizes, methods)]
    cells = [cell for cell in cells if not any(_applies(entry, cell) for entry in excluded)]
    if not cells:
        raise HindsightError("every cell is excluded.")
    plans = tuple(_plan(cell, content, overrides) for cell in cells)
    for specification in {plan.environment: plan.specification for plan in plans}.values():
        if not find_entry(specification.name).hosted:
            specification.build()  # lets a size or a map that cannot be used say so now
    validate(plans)
    return Study(name, plans)


def _tables(content: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    entries = content.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise HindsightError(f"{key} must be written as tables: [[{key}]].")
    return entries


class _Owned:
    """The options that a study's environments and methods have, by name."""

    def __init__(self, environments: Sequence[str], methods: Sequence[str]):
        self.methods = {name: {one.name: one for one in find_method(name).visible} for name in methods}
        self.environments = {name: {one.name: one for one in settable(name)} for name in environments}

    @property
    def names(self) -> list[str]:
        """Every name."""
        owners = (*self.methods.values(), *self.environments.values())
        return list(dict.fromkeys(name for options in owners for name in options))

    def require(self, name: str, known: Sequence[str], where: str = "") -> None:
        """Refuse an option that none of the study's methods and environments has."""
        if name in self.names:
            return
        others = [*methods_with(name)]
        if others:
            verb = "has" if len(others) == 1 else "have"
            raise HindsightError(
                f"none of the methods {', '.join(self.methods)} has the option '{name}'; {', '.join(others)} {verb} it."
            )
        raise unknown(f"setting{where}", name, [*known, *self.names])

    def require_numeric(self, name: str) -> None:
        """Refuse to search what is no number."""
        self.require(name, ())
        kinds = [options[name] for options in self.methods.values() if name in options]
        if not kinds or not all(one.numeric for one in kinds):
            raise HindsightError(f"search.options can only hold numeric options of a method, which '{name}' is not.")


def _check_layer(layer: Mapping[str, Any], keys: Sequence[str], owned: _Owned, where: str = "") -> None:
    """Refuse unknown names in the study's own settings or in an override, whether or not it applies to a cell."""
    for key in layer:
        if key not in keys:
            owned.require(key, keys, where)
    for key in MATCH_KEYS:
        if key in layer:
            _matches(layer, key)
    for key, allowed in (("search", SEARCH_KEYS), ("definitive", STAGE_KEYS)):
        if not isinstance(layer.get(key, {}), dict):
            raise HindsightError(f"{key} must be a table: [{key}].")
        _require_known(layer.get(key, {}), allowed, f" of [{key}]")
    searched = layer.get("search", {}).get("options", {})
    if not isinstance(searched, dict):
        raise HindsightError("search.options must be a table: [search.options].")
    for name in searched:
        owned.require_numeric(name)


def _plan(cell: Cell, content: Mapping[str, Any], overrides: Sequence[Mapping[str, Any]]) -> Plan:
    """The layers of what is said of a cell: defaults, the paper's settings, the study's, its overrides in order."""
    row = find_method(cell.method)
    options, places = {one.name: one for one in row.visible}, [one.name for one in settable(cell.environment)]
    chosen, choices = _defaults(cell), _default_choices(cell)
    environment: dict[str, Any] = {}
    for layer in (content, *(entry for entry in overrides if _applies(entry, cell))):
        for key, value in layer.items():
            if key in row.choices:
                choices[key] = [value]
            elif key in options:
                chosen["options"][key] = _read(options[key], value)
                choices.pop(key, None)
            elif key in places:
                environment[key] = value
        searched = {PLURALS[key]: layer[key] for key in PLURALS if key in layer}
        for key, values in (searched | layer.get("search", {}).get("options", {})).items():
            if key in options:
                choices[key] = values
                chosen["options"].pop(key, None)
        for key in ("search", "definitive"):
            chosen[key] |= {name: value for name, value in layer.get(key, {}).items() if name != "options"}
        chosen["episodes_end"] = layer.get("episodes_end", chosen["episodes_end"])
    strategy = chosen["search"].pop("strategy", "halving" if len(choices) > 1 else "grid")
    if strategy not in get_args(Strategy):
        raise unknown("search strategy", str(strategy), get_args(Strategy))
    return Plan(
        *cell,
        choices={name: _choices(name, values) for name, values in choices.items()},
        strategy=strategy,
        search=Stage(**chosen["search"]),
        definitive=Stage(**chosen["definitive"]),
        episodes_end=chosen["episodes_end"],
        options=chosen["options"],
        specification=specify(cell.environment, **environment),
        seed=content.get("seed", 0),
    )


def _read(option: Option, value: Any) -> Any:
    """An option's value; TOML has no None, for which 0 stands where 0 is no value."""
    if value == 0 and option.may_be_none and not option.allows(0):
        return None
    return option.read(value)


def _defaults(cell: Cell) -> dict[str, Any]:
    """The paper's settings of a cell where it has some, otherwise those of its small environments' search."""
    base, row = RunSettings(), paper_settings(cell.environment, cell.batch_size)
    values = default_values(cell.environment, cell.method, cell.batch_size)
    options = {one.name: values.get(one.name, one.default) for one in find_method(cell.method).visible}
    if row is None:
        stage = {"batches": base.batches, "evaluate_every": base.evaluate_every}
        stage["evaluation_episodes"] = base.evaluation_episodes
        search, definitive = {"runs": 10, **stage}, {"runs": 20, **stage}
    else:
        episodes = {"evaluation_episodes": row["evaluation_episodes"]}
        search = {"runs": row["search_runs"], "batches": row["search_batches"], **episodes}
        search["evaluate_every"] = row["search_batches_between_evaluations"]
        definitive = {"runs": row["runs"], "batches": row["batches"], **episodes}
        definitive["evaluate_every"] = row["batches_between_evaluations"]
    for name in find_method(cell.method).choices:
        options.pop(name, None)
    return {"options": options, "search": search, "definitive": definitive, "episodes_end": base.episodes_end}


def _default_choices(cell: Cell) -> dict[str, Sequence[float]]:
    """What is searched unless a study says otherwise: the paper's rates, or an option's default alone."""
    rates, row = tables()["learning_rates"], paper_settings(cell.environment, cell.batch_size)
    known = {"learning_rate": tried_learning_rates(cell.environment, cell.method)}
    baseline = (row["baseline_learning_rates"] or row["policy_learning_rates"]) if row else "R1"
    known["baseline_learning_rate"] = rates[baseline]
    method = find_method(cell.method)
    defaults = {one.name: [one.default] for one in method.visible}
    return {name: list(known.get(name, defaults[name])) for name in method.choices}


def _matches(content: Mapping[str, Any], key: str) -> list[Any]:
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


def _choices(name: str, values: Any) -> tuple[float, ...]:
    if not isinstance(values, list) or not values:
        raise HindsightError(f"{name} must be a list with at least one value to choose, not {values!r}.")
    for value in values:
        if not is_number(value):
            raise HindsightError(f"the values of {name} must be numbers, not {value!r}.")
    if len(set(values)) != len(values):
        raise HindsightError(f"{name} names a value twice.")
    return tuple(sorted(map(float, values)))


def _require_known(content: Mapping[str, Any], allowed: Sequence[str], where: str) -> None:
    for key in content:
        if key not in allowed:
            raise unknown(f"setting{where}", key, allowed)


def _require_distinct(*lists: Sequence[Any]) -> None:
    for values in lists:
        for value in values:
            if values.count(value) > 1:
                raise HindsightError(f"{value!r} is named twice.")
