"""Any Gymnasium goal environment as a simulator: `GymnasiumGoal("FetchReach-v4")`.

A goal environment observes a dictionary of `observation`, `achieved_goal` and `desired_goal`, and its `compute_reward`
tells the reward under any goal. What a learner needs to know of it is in `gymnasium_task`.
"""

import inspect
import operator
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from importlib.util import find_spec
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

import numpy as np

from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.core.numbers import is_positive_integer
from hindsight_rl.core.plugins import require_trusted
from hindsight_rl.environments.extras import choose_renderer, import_gymnasium, import_robotics
from hindsight_rl.environments.goal_pictures import draw
from hindsight_rl.environments.gymnasium.spaces import Actions, Goals, Observations
from hindsight_rl.environments.simulators import Observed, Simulator

Made = Any
"""A Gymnasium environment."""
Wanted = Any
"""A registered name, a Gymnasium specification, a function that makes an environment, or an environment itself."""
Result = TypeVar("Result")

KEYS = ("observation", "achieved_goal", "desired_goal")


class GymnasiumGoal(Simulator):
    """Plays a Gymnasium goal environment.

    `options` go to the environment's constructor; with `pictures` it is made so that it can draw. An episode is over
    when the environment says so; a limit on the number of steps that Gymnasium put around it is left to the rollout.
    Actions are numbers from zero, or vectors, which are clipped to the bounds of the action space. An environment that
    was passed as an object belongs to somebody else, so closing the simulator leaves it open.
    """

    def __init__(self, environment: Wanted, options: Mapping[str, Any] | None = None, pictures: bool = False):
        made = make_environment(environment, options or {}, pictures)
        self.name = made.spec.id if made.spec is not None else type(made.unwrapped).__name__
        self.specification = made.spec
        self.step_limit = _step_limit(made)
        self._is_ours = made is not environment
        self.environment = _without_limits(made)
        _require_goal_environment(self.environment, self.name)
        spaces = self.environment.observation_space
        self.observations = Observations(spaces["observation"], self.name)
        self.goals = Goals(spaces["achieved_goal"], spaces["desired_goal"], self.name)
        self.actions = Actions(self.environment.action_space, self.name)
        self._goal = np.zeros(self.goals.shape, np.float32)
        self._steps = 0

    def reset(self, seed: int) -> Observed:
        self._steps = 0
        seen, _ = self._several(2, "observation, info", lambda: self.environment.reset(seed=seed))
        self._goal = self._guarded(lambda: self.goals.encode(seen["desired_goal"]))
        return self._observed(seen, False)

    def sample_goal(self, seed: int) -> np.ndarray:
        """The goal that the environment itself drew when the episode began; the seed of the episode has decided it."""
        return self._goal.copy()

    def step(self, action: np.ndarray) -> Observed:
        self._steps += 1
        decoded = self.actions.decode(action)
        parts = "observation, reward, terminated, truncated, info"
        seen, _, terminated, truncated, _ = self._several(5, parts, lambda: self.environment.step(decoded))
        return self._observed(seen, bool(terminated or truncated))

    def picture(self, goal: np.ndarray) -> np.ndarray:
        if self.environment.render_mode != "rgb_array":
            raise HindsightError(f"The environment '{self.name}' was not made for pictures (render_mode='rgb_array').")
        picture = draw(self.environment, f"The environment '{self.name}'", np.asarray(goal))
        if picture.ndim != 3 or picture.dtype != np.uint8:
            raise HindsightError(f"The environment '{self.name}' draws something that is no colour picture.")
        return picture

    def close(self) -> None:
        if self._is_ours:
            self.environment.close()

    def _observed(self, seen: Any, over: bool) -> Observed:
        observation = self._guarded(lambda: self.observations.encode(seen["observation"]))
        achieved = self._guarded(lambda: self.goals.encode(seen["achieved_goal"]))
        for part, values in (("observation", observation), ("achieved goal", achieved)):
            if not np.isfinite(values).all():
                raise HindsightError(
                    f"The environment '{self.name}' gave an {part} that is not a finite number {self._when}."
                )
        return Observed(observation, achieved, over)

    def _guarded(self, call: Callable[[], Result]) -> Result:
        """Call a stranger's code, which may raise anything."""
        try:
            return call()
        except (Exception, SystemExit) as error:  # one that ends the program would end it without a word
            raise HindsightError(f"The environment '{self.name}' failed {self._when}: {gist(error)}.") from error

    def _several(self, count: int, parts: str, call: Callable[[], Any]) -> Any:
        """Call a stranger's code, which must return so many parts."""
        found = self._guarded(call)
        if not isinstance(found, tuple) or len(found) != count:
            given = f"{len(found)} values" if isinstance(found, tuple) else type(found).__name__
            raise HindsightError(
                f"The environment '{self.name}' must return {count} values ({parts}), not {given}, {self._when}."
            )
        return found

    @property
    def _when(self) -> str:
        return f"at step {self._steps}" if self._steps else "when an episode began"


def make_environment(environment: Wanted, options: Mapping[str, Any], pictures: bool) -> Made:
    """Make an environment, or take one that is made."""
    gymnasium = import_gymnasium()
    choose_renderer()
    if isinstance(environment, gymnasium.Env):
        if options:
            raise HindsightError(f"{environment} is made already: it takes no options ({', '.join(options)}).")
        return environment
    if pictures:
        _require_pictures(environment)
        options = {"render_mode": "rgb_array", **options}
    if isinstance(environment, str):
        if ":" in environment:  # a module that Gymnasium would import
            require_trusted(environment)
        _require_registered(environment)
    elif str(getattr(environment, "entry_point", "")).startswith("gymnasium_robotics"):
        import_robotics()  # quietly, which Gymnasium would not
    try:
        if callable(environment):
            return environment(**options)
        return gymnasium.make(environment, disable_env_checker=True, **options)
    except HindsightError:
        raise
    except (Exception, SystemExit) as error:
        name = getattr(environment, "id", getattr(environment, "__name__", environment))
        raise HindsightError(f"The environment '{name}' cannot be made: {gist(error)}.") from error


def _require_pictures(environment: Wanted) -> None:
    """Refuse a class or function of the user's that makes nothing that draws."""
    if not callable(environment):
        return
    try:
        parameters = inspect.signature(environment).parameters
    except (TypeError, ValueError):  # A builtin that does not tell.
        return
    if "render_mode" not in parameters and all(one.kind is not one.VAR_KEYWORD for one in parameters.values()):
        raise HindsightError(
            f"The environment '{getattr(environment, '__name__', environment)}' draws no pictures: it takes no "
            "render_mode, which would be 'rgb_array' for one whose render() returns a picture."
        )


def find_recipe(environment: Wanted, specification: Any) -> Wanted | None:
    """What any process can make this environment from again, or None; the specification is Gymnasium's.

    It tells more than a name, which other processes may not have registered. It remembers wrappers too, but not every
    one, so an environment that exists already is made again to see.
    """
    if isinstance(environment, import_gymnasium().Env) and not _can_be_made_again(environment):
        return None
    recipe = environment if callable(environment) else specification
    return recipe if _can_travel(recipe) else None


def _can_be_made_again(environment: Made) -> bool:
    if environment.spec is None:
        return False
    try:
        again = import_gymnasium().make(environment.spec, disable_env_checker=True)
    except Exception:  # Whatever a stranger's code raises, there is no second one.
        return False
    spaces = ((made.observation_space, made.action_space) for made in (environment, again))
    is_alike = operator.eq(*spaces)
    with suppress(Exception):
        again.close()
    return is_alike


def _can_travel(recipe: Wanted) -> bool:
    """Whether it can be sent to another process: a function within a function cannot, for one."""
    try:
        message = bytes(ForkingPickler.dumps(recipe))
    except Exception:  # Each object that cannot be sent says so in its own way.
        return False
    # What was typed in (a notebook, say) is in no file in which another process could find it.
    return hasattr(sys.modules["__main__"], "__file__") or b"__main__" not in message


def _step_limit(environment: Made) -> int | None:
    """The most steps of an episode: by the specification; without one by a wrapper, or by its own attribute."""
    if environment.spec is not None:
        return environment.spec.max_episode_steps
    own = getattr(environment.unwrapped, "max_episode_steps", None)
    limits = [own] if is_positive_integer(own) else []
    wrappers = import_gymnasium().wrappers
    while environment is not environment.unwrapped:
        if isinstance(environment, wrappers.TimeLimit):
            limits.append(environment._max_episode_steps)
        environment = environment.env
    return min(limits, default=None)


def _without_limits(environment: Made) -> Made:
    """Take off the outer wrappers that `gymnasium.make` adds, for they cost time; those that somebody chose stay."""
    wrappers = import_gymnasium().wrappers
    while isinstance(environment, wrappers.TimeLimit | wrappers.OrderEnforcing | wrappers.PassiveEnvChecker):
        environment = environment.env
    return environment


def _require_registered(name: str) -> None:
    gymnasium = import_gymnasium()
    if name in gymnasium.registry or ":" in name:
        return
    missing = ""
    try:
        import_robotics()
    except HindsightError:
        if all(find_spec(package) for package in ("gymnasium_robotics", "mujoco")):
            raise  # They are there, but cannot be loaded.
        missing = " Robots and mazes need gymnasium-robotics: pip install 'hindsight-rl[robotics]'."
    if name not in gymnasium.registry:
        nearest = get_close_matches(name, gymnasium.registry, n=1)
        hint = (
            f" Did you mean '{nearest[0]}'?"
            if nearest
            else f" One of your own needs the module that registers it: gym:your_module:{name}."
        )
        raise HindsightError(f"Gymnasium knows no environment '{name}'.{hint}{missing}")


def _require_goal_environment(environment: Made, name: str) -> None:
    space = environment.observation_space
    if not isinstance(space, import_gymnasium().spaces.Dict) or not set(KEYS) <= set(space.spaces):
        raise HindsightError(
            f"'{name}' is not a goal environment: it must observe a dictionary of {', '.join(KEYS)}, not {space}."
        )
    if not (
        environment.has_wrapper_attr("compute_reward") and callable(environment.get_wrapper_attr("compute_reward"))
    ):
        raise HindsightError(f"'{name}' is not a goal environment: it has no compute_reward.")
