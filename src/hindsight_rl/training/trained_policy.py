"""A trained policy in use: greedy actions for one observation or a batch of them, compiled."""

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.described import Spaces


@jax.tree_util.register_pytree_node_class
class TrainedPolicy:
    """A policy network and the shapes that it was made for.

    Whatever else the network offers (`log_probabilities`, say) can be asked of it here too.
    """

    def __init__(self, model: Any, spaces: Spaces):
        """`model` has a method `act(observation, goal, time)` for one observation."""
        self.model, self.spaces = model, spaces

    def act(self, observation: Any, goal: Any, time: Any = 0) -> Any:
        """The greedy action for one observation, or those for a batch along the leading axis.

        A batch may share one goal. `time` counts the actions taken so far; only Q-networks heed it. Actions are
        numbers, or vectors within their bounds.
        """
        if any(isinstance(each, jax.core.Tracer) for each in (observation, goal, time)):
            return self._traced(observation, goal, time)
        spaces = self.spaces
        observations, many = _rows(observation, spaces.observation_shape, spaces.observation_type, "observations")
        goals, _ = _rows(goal, spaces.goal_shape, "float32", "goals")
        times = np.asarray(time, np.int32).reshape(-1)
        count = len(observations)
        if not {len(goals), len(times)} <= {1, count}:
            raise HindsightError(
                f"There are {count} observations, {len(goals)} goals and {len(times)} times: give one goal and time, "
                "or one for each."
            )
        if len(goals) != count:
            goals = np.broadcast_to(goals, (count, *spaces.goal_shape))
        if len(times) != count:
            times = np.broadcast_to(times, (count,))
        actions = np.asarray(self._compiled(observations, goals, times))
        return actions if many else actions[0]

    @cached_property
    def _compiled(self) -> Callable[..., Array]:
        # The parameters are constants of the program: handing them over would take longer than the work.
        return jax.jit(self.batched)

    def batched(self, observations: Array, goals: Array, times: Array) -> Array:
        """Greedy actions for rows of each, as JAX traces them."""
        return jax.vmap(self.model.act)(observations, goals, times)

    def _traced(self, observation: Any, goal: Any, time: Any) -> Array:
        """Within a program that is being compiled."""
        if jnp.ndim(observation) <= len(self.spaces.observation_shape):
            return self.model.act(observation, goal, time)
        count = jnp.shape(observation)[0]
        goals = jnp.broadcast_to(jnp.asarray(goal), (count, *self.spaces.goal_shape))
        return self.batched(observation, goals, jnp.broadcast_to(jnp.asarray(time), (count,)))

    def tree_flatten(self) -> tuple[tuple[Any], Spaces]:
        """For JAX: the model's arrays are its leaves."""
        return (self.model,), self.spaces

    @classmethod
    def tree_unflatten(cls, spaces: Spaces, children: tuple[Any]) -> "TrainedPolicy":
        """The inverse of `tree_flatten`."""
        return cls(children[0], spaces)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("model", "spaces"):
            raise AttributeError(name)
        return getattr(self.model, name)

    def __repr__(self) -> str:
        kind = "numbers" if self.spaces.continuous else "actions"
        shapes = f"observation {self.spaces.observation_shape}, goal {self.spaces.goal_shape}"
        return f"TrainedPolicy({shapes}, {self.spaces.action_count} {kind})"


def _rows(given: Any, shape: tuple[int, ...], kind: str, name: str) -> tuple[np.ndarray, bool]:
    """What was given as rows, and whether it was a batch; one of them may also come laid out in another shape."""
    try:
        array = np.asarray(given, kind)
    except (TypeError, ValueError):
        raise HindsightError(f"The policy's {name} are arrays of numbers, not {type(given).__name__}.") from None
    if array.shape == shape or (array.shape[1:] != shape and array.size == math.prod(shape)):
        return array.reshape(1, *shape), False
    if array.ndim == len(shape) + 1 and array.shape[1:] == shape:
        return array, True
    raise HindsightError(
        f"The policy's {name} have the shape {shape}, alone or in a batch, but this one has the shape {array.shape}."
    )
