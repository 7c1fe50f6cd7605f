"""Checks of compiled environments: whether they compile, are pure, and draw goals as they say."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hindsight_rl.core.errors import gist
from hindsight_rl.environments.contract import shared
from hindsight_rl.environments.contract.findings import Broken, Check, require
from hindsight_rl.environments.contract.goal_draws import DRAWS_PER_GOAL, MOST_DRAWS, goal_counts, goal_frequencies
from hindsight_rl.environments.interface import Environment, State

WALKS, MOST_STEPS = 16, 64
LOOKED_AT = 3
"""Steps that are taken again outside of the compiled program."""
FEWEST_DRAWS = 200
AGAIN = 3
"""Times that a program is compiled again: what is drawn while compiling may come out the same once by chance."""


class Walks:
    """An environment with random walks in it and goals that it draws."""

    def __init__(self, environment: Environment, seed: int):
        self.task = environment
        self.seed = seed

    @property
    def steps(self) -> int:
        """Actions in each walk."""
        return min(self.task.horizon - 1, MOST_STEPS)

    @cached_property
    def inputs(self) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Keys of first states, keys of steps, and actions of each walk."""
        reset_key, step_key = jax.random.split(jax.random.key(self.seed))
        actions = shared.random_actions(self.task, np.random.default_rng(self.seed), WALKS, self.steps)
        keys = jax.random.split(reset_key, WALKS), jax.random.split(step_key, (WALKS, self.steps))
        return *keys, jnp.asarray(actions)

    def walk(self) -> State:
        """All states of all walks, from a program that is compiled anew."""

        def one(reset_key: jax.Array, step_keys: jax.Array, actions: jax.Array) -> State:
            def step(state: State, how: tuple[jax.Array, jax.Array]) -> tuple[State, State]:
                following = self.task.step(state, *how)
                return following, following

            first = self.task.reset(reset_key)
            _, rest = jax.lax.scan(step, first, (actions, step_keys))
            return jax.tree.map(lambda start, more: jnp.concatenate([jnp.asarray(start)[None], more]), first, rest)

        return jax.jit(jax.vmap(one))(*self.inputs)

    @cached_property
    def states(self) -> State:
        """All states, with an axis for walks and one for time."""
        return self.walk()

    @cached_property
    def views(self) -> tuple[np.ndarray, np.ndarray]:
        """What is shown of each state, and the goal that it achieves."""
        views = jax.jit(jax.vmap(jax.vmap(lambda state: (self.task.observe(state), self.task.achieved_goal(state)))))
        observations, achieved = views(self.states)
        return np.asarray(observations), np.asarray(achieved)

    @cached_property
    def achieved(self) -> np.ndarray:
        """The distinct goals that states achieved."""
        achieved = self.views[1]
        return shared.distinct(achieved.reshape(-1, *achieved.shape[2:]))

    @cached_property
    def drawn(self) -> np.ndarray:
        """Many goals."""
        count = min(max(DRAWS_PER_GOAL * self.task.goal_count, FEWEST_DRAWS), MOST_DRAWS)
        keys = jax.random.split(jax.random.fold_in(jax.random.key(self.seed), 1), count)
        return np.asarray(jax.jit(jax.vmap(self.task.sample_goal))(keys))


def _traced(environment: Environment) -> dict[str, Any]:
    """What each function gives, as shapes and types."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    time = jax.ShapeDtypeStruct((), jnp.int32)
    vector = jax.ShapeDtypeStruct((environment.action_count,), jnp.float32)
    found: dict[str, Any] = {}

    def trace(name: str, *arguments: Any) -> Any:
        try:
            found[name] = jax.eval_shape(getattr(environment, name), *arguments)
            # Mapped too: a function may trace alone and not as one of many.
            many = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((2, *leaf.shape), leaf.dtype), arguments)
            jax.eval_shape(jax.vmap(getattr(environment, name)), *many)
        except Exception as error:  # Whatever a stranger's code raises.
            raise Broken(f"{name} cannot be compiled: {gist(error)}.") from error
        return found[name]

    state = trace("reset", key)
    trace("step", state, vector if environment.continuous else time, key)
    trace("observe", state)
    achieved, goal = trace("achieved_goal", state), trace("sample_goal", key)
    trace("goal_probability", goal)
    trace("reached", achieved, goal)
    trace("reward", achieved, goal, time)
    return found


def compiles(walks: Walks) -> str:
    """Every function can be traced, alone and mapped."""
    return f"{', '.join(_traced(walks.task))} compile."


def shapes(walks: Walks) -> str:
    """Shapes and types never change, and are those that learners expect."""
    found = {name: jax.tree.map(_shape, shape) for name, shape in _traced(walks.task).items()}
    first, next_one = found["reset"], found["step"]
    require(first == next_one, f"step turns a state of {first} into one of {next_one}.")
    observation, achieved, goal = (found[name] for name in ("observe", "achieved_goal", "sample_goal"))
    require(isinstance(observation, str), f"observe must give one array, not {observation}.")
    fits = observation.startswith("float32") or walks.task.shows_pictures
    require(fits, f"observe must give float32, or uint8 of height, width and depth, not {observation}.")
    require(str(achieved).startswith("float32"), f"achieved_goal must give one array of float32, not {achieved}.")
    require(goal == achieved, f"sample_goal must give {achieved} as achieved_goal does, not {goal}.")
    for name, kind in {"goal_probability": "float32[]", "reached": "bool[]", "reward": "float32[]"}.items():
        require(found[name] == kind, f"{name} must give {kind}, not {found[name]}.")
    return f"Observations are {observation}, goals {goal}."


def _shape(leaf: Any) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"


def deterministic(walks: Walks) -> str:
    """The same keys and actions give the same states, however often the program is compiled."""
    sentence = (
        "The same keys and actions give other states when the program is compiled again: draw from the key alone."
    )
    for _ in range(AGAIN):
        same = zip(_numbers(walks.states), _numbers(walks.walk()), strict=True)
        require(all(np.array_equal(one, other, equal_nan=True) for one, other in same), sentence)
    return f"{WALKS} walks of {walks.steps} actions are the same however often they are compiled."


def pure(walks: Walks) -> str:
    """Called one by one outside of a compiled program, functions give the same, and leave their arguments alone."""
    task = walks.task
    reset_keys, step_keys, actions = walks.inputs
    for walk, time in zip(range(LOOKED_AT), np.linspace(0, walks.steps - 1, LOOKED_AT).astype(int), strict=True):
        _require_same("reset", task.reset, (reset_keys[walk],), _at(walks.states, walk, 0))
        arguments = (_at(walks.states, walk, time), actions[walk, time], step_keys[walk, time])
        _require_same("step", task.step, arguments, _at(walks.states, walk, time + 1))
        for name, view in zip(("observe", "achieved_goal"), walks.views, strict=True):
            _require_same(name, getattr(task, name), arguments[:1], view[walk, time])
    return "Compiled or not, alone or mapped, reset, step, observe and achieved_goal give the same."


def _require_same(name: str, function: Callable[..., Any], arguments: tuple[Any, ...], expected: Any) -> None:
    before = jax.tree.leaves(arguments)
    for _ in range(2):
        found = _numbers(function(*arguments))
        after = jax.tree.leaves(arguments)
        kept = len(before) == len(after) and all(one is other for one, other in zip(before, after, strict=True))
        require(kept, f"{name} changes the state that it is given: it must give a new one.")
        same = zip(found, _numbers(expected), strict=True)
        close = all(np.allclose(one, other, rtol=1e-4, atol=1e-5, equal_nan=True) for one, other in same)
        require(close, f"{name} gives something else alone than compiled: it must follow from its arguments only.")


def finite(walks: Walks) -> str:
    """Nothing that is shown is infinite or no number."""
    for name, view in zip(("observation", "achieved goal"), walks.views, strict=True):
        require(np.isfinite(view).all(), f"There is an {name} that is not finite.")
    return "All observations and achieved goals are finite."


def state_limit(walks: Walks) -> str:
    """There are no more states than the environment says."""
    limit = walks.task.state_limit
    rows = [leaf.reshape(WALKS * (walks.steps + 1), -1).astype(np.float64) for leaf in _numbers(walks.states)]
    states = len(np.unique(np.concatenate(rows, axis=1), axis=0))
    if limit is None:
        return f"There is none; {states} were met."
    most = max(states, len(walks.achieved))
    require(most <= limit, f"state_limit says at most {limit} states or achieved goals, but {most} were met.")
    return f"{states} of at most {limit} states were met."


def renders(walks: Walks) -> str:
    """A state can be shown as text."""
    for time in (0, walks.steps):
        picture = walks.task.render(_at(walks.states, 0, time), jnp.asarray(walks.drawn[0]))
        require(isinstance(picture, str) and picture, f"render must give text, not {picture!r:.40}.")
    return "States are shown as text."


def _at(states: State, walk: int, time: int) -> State:
    return jax.tree.map(lambda leaf: leaf[walk, time], states)


def _numbers(tree: Any) -> list[np.ndarray]:
    """The leaves as plain arrays; a state may hold keys."""
    keys = jax.dtypes.prng_key
    leaves = map(jnp.asarray, jax.tree.leaves(tree))
    return [np.asarray(jax.random.key_data(one) if jnp.issubdtype(one.dtype, keys) else one) for one in leaves]


COMPILED = (
    Check("sizes", shared.sizes, needed=True),
    Check("compiles", compiles, needed=True),
    Check("shapes and types", shapes, needed=True),
    Check("deterministic", deterministic),
    Check("pure", pure),
    Check("finite", finite),
    Check("goals reach themselves", shared.goals_reach_themselves),
    Check("rewards", shared.rewards),
    Check("goal probabilities", shared.probabilities),
    Check("goal count", goal_counts),
    Check("goal frequencies", goal_frequencies),
    Check("state limit", state_limit),
    Check("render", renders),
)
