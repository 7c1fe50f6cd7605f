"""The settings of a training job: the run's own, a method, and the method's options. Imports nothing heavy."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hindsight_rl.core.errors import HindsightError, unknown
from hindsight_rl.core.options import Options, names_of
from hindsight_rl.core.run import EpisodesEnd, RunSettings
from hindsight_rl.methods.interface import EPISODE_LIMIT, Method
from hindsight_rl.methods.registry import all_methods, find_method

__all__ = ["DEFAULT_METHOD", "EpisodesEnd", "RunSettings", "Settings", "make_settings", "methods_with"]

DEFAULT_METHOD = "hppo"
"""What a job is trained with unless it says otherwise."""


@dataclass(frozen=True)
class Settings(RunSettings):
    """One training job: a method with its options, for one or more runs that differ in their seed."""

    method: str = DEFAULT_METHOD
    """A registered method, or one of your own as module:name."""
    options: Any = None
    """The method's options; its defaults unless given."""

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = self.row.options
        if self.options is None:
            object.__setattr__(self, "options", kind())
        if not isinstance(self.options, Options) or type(self.options) is not kind:
            raise HindsightError(f"The options of {self.method} must be {kind.__name__}, not {self.options!r}.")

    @property
    def row(self) -> Method:
        """What the method says of itself."""
        return find_method(self.method)

    @property
    def rates(self) -> dict[str, float]:
        """The options that are inputs of the compiled program."""
        return {name: float(getattr(self.options, name)) for name in self.row.rates}

    @property
    def compiled(self) -> tuple[Any, ...]:
        """What a program is compiled for: runs whose settings agree in this share one.

        Numbers of runs and batches, rates and seeds are its inputs.
        """
        options = self.row.compiled_options(self.options, self.batches * self.batch_size)
        return self.method, options, self.batch_size, self.evaluation_episodes, self.episodes_end

    @property
    def run(self) -> dict[str, Any]:
        """The run's own settings by name."""
        return {name: getattr(self, name) for name in names_of(RunSettings)}

    @property
    def method_options(self) -> dict[str, Any]:
        """The method's options by name."""
        options = asdict(self.options)
        options.pop(EPISODE_LIMIT, None)
        return options

    @property
    def flat(self) -> dict[str, Any]:
        """All settings by name."""
        return {**self.run, "method": self.method, **self.method_options}


def make_settings(values: Mapping[str, Any]) -> Settings:
    """Settings from names and values: those of a run, `method`, and the method's options."""
    method = values.get("method", DEFAULT_METHOD)
    if not isinstance(method, str):
        raise HindsightError(f"method must be a name, not {method!r}.")
    row, runs = find_method(method), names_of(RunSettings)
    known = [one.name for one in row.visible]
    for name in values:
        if name not in ("method", *runs, *known):
            raise refused(name, method, [*runs, *known])
    options = row.options.read({name: value for name, value in values.items() if name in known}, method)
    return Settings(**{name: value for name, value in values.items() if name in runs}, method=method, options=options)


def refused(name: str, method: str, known: list[str], spelled: str | None = None) -> HindsightError:
    """The error for a setting that a method does not have: the methods that have it, or the nearest match."""
    others = methods_with(name)
    spelled = spelled or name
    if not others:
        return unknown(f"setting of {method}", spelled, known)
    verb = "has" if len(others) == 1 else "have"
    return HindsightError(f"The method {method} has no option '{spelled}'; {', '.join(others)} {verb} it.")


def methods_with(option: str) -> list[str]:
    """The methods that have an option."""
    return [name for name, row in all_methods().items() if option in (one.name for one in row.visible)]
