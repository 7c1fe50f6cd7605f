"""What a method says of itself. Imports nothing heavy, so that help texts appear at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.core.options import Option, Options, described, find_option

if TYPE_CHECKING:
    from hindsight_rl.agents.interface import Agent
    from hindsight_rl.environments.interface import Task

EPISODE_LIMIT = "episode_limit"
"""A method with an option of this name is told how many episodes a run will have; users do not set it."""


class Sizes(NamedTuple):
    """What the cost of an update may depend on."""

    batch_size: int
    horizon: int
    goal_count: int
    state_limit: int | None

    @property
    def decisions(self) -> int:
        """The most actions in a batch."""
        return self.batch_size * (self.horizon - 1)


@dataclass(frozen=True)
class Method:
    """A row of the table of methods. One of your own lives in any module, and is named as `module:name`."""

    summary: str
    options: type[Options]
    """A frozen dataclass whose fields are the method's options, each with a default and a sentence below it."""
    make: Callable[["Task", Any], "Agent"]
    """The agent, for a task and the method's options."""
    rates: tuple[str, ...] = ("learning_rate",)
    """Options that are inputs of the compiled program, so that runs which differ only in them share one. The agent
    finds them in the `rates` of its update, not in its options."""
    searched: tuple[str, ...] | None = None
    """Options that a study searches unless told otherwise: the rates, if None. Any other numeric one can be searched
    too, at the price of a program for each of its values."""
    defaults: Callable[[bool], Mapping[str, Any]] = lambda hosted: {}
    """Settings of the run, and options, that suit the method where simulators play the environment, and where not."""
    cost: Callable[[Sizes, Any], float] = lambda sizes, options: 4.0 * sizes.decisions
    """Network evaluations in an update, more or less: it tells how long a study may take."""

    @property
    def visible(self) -> tuple[Option, ...]:
        """The options that users set."""
        return tuple(one for one in described(self.options) if one.name != EPISODE_LIMIT)

    @property
    def choices(self) -> tuple[str, ...]:
        """The options that a study searches unless told otherwise."""
        return self.rates if self.searched is None else self.searched

    def compiled_options(self, options: Options, episodes: int) -> Any:
        """The options that a program is compiled for: those that are its inputs have their defaults."""
        changes = {name: _option(self, name).default for name in self.rates}
        if find_option(self.options, EPISODE_LIMIT):
            changes[EPISODE_LIMIT] = episodes
        return replace(options, **changes)  # type: ignore[type-var]


def make_agent(name: str, method: Method, task: "Task", options: Any) -> "Agent":
    """The method's agent; whatever a stranger's code raises becomes a sentence."""
    try:
        return method.make(task, options)
    except HindsightError:
        raise
    except Exception as error:
        raise HindsightError(f"The method '{name}' cannot be made for this environment: {gist(error)}.") from error


def check_method(name: str, found: object, taken: tuple[str, ...]) -> Method:
    """Refuse what is no method, or one whose row contradicts its options; `taken` are names of a run's own settings."""
    if not isinstance(found, Method):
        raise HindsightError(f"'{name}' is no method: it is a {type(found).__name__}, not a hindsight_rl.Method.")
    if not (isinstance(found.options, type) and issubclass(found.options, Options) and is_dataclass(found.options)):
        raise HindsightError(
            f"The options of the method '{name}' must be a dataclass derived from hindsight_rl.Options."
        )
    for one in described(found.options):
        if one.name in taken:
            raise HindsightError(f"The method '{name}' has an option '{one.name}', which is a setting of every run.")
        if one.required:
            raise HindsightError(f"The option '{one.name}' of the method '{name}' needs a default.")
    for option in (*found.rates, *found.choices):
        _option(found, option, name)
    return found


def _option(method: Method, option: str, name: str = "") -> Option:
    found = find_option(method.options, option)
    if found is None or not found.numeric:
        raise HindsightError(
            f"The method '{name}' names '{option}' as a rate or choice, which is no numeric option of it."
        )
    return found
