"""An agent is a small tuple of pure functions; a new one is one file and one line among the methods."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hindsight_rl.core.episodes import Episodes

AgentState = Any
"""All that an agent learns: any pytree of arrays."""

CAUSES = (
    "",
    "the policy gradient is not finite",
    "the baseline gradient is not finite",
    "a parameter is not finite",
    "the evaluated return is not finite",
)
"""Why an update could not be made, by number; 0 is a good update."""

NOT_FINITE = CAUSES.index("a parameter is not finite")

Rates = Mapping[str, Float[Array, ""]]
"""The options of a method that are inputs of its compiled program, by name: learning rates, as a rule."""

NOTHING: Mapping[str, Any] = {}


def all_finite(tree: Any) -> Bool[Array, ""]:
    """Whether every number of a tree of arrays is finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]))


class Update(NamedTuple):
    """What an update came to."""

    state: AgentState
    cause: Int[Array, ""]
    """A number into CAUSES."""
    metrics: Mapping[str, Float[Array, ""]] = NOTHING
    """What the method says of this update, by name: entropy, KL, value error, ... Their means between evaluations are
    recorded beside the return, and appear in tables, event files and reports."""


class Agent(NamedTuple):
    """How to begin, act and learn."""

    init: Callable[[Key[Array, ""]], AgentState]
    explore: Callable[[AgentState, Array, Array, Array, Key[Array, ""]], tuple[Array, Array]]
    """(state, observations, goals, time, key) to actions and their log-probabilities."""
    exploit: Callable[[AgentState, Array, Array, Array], Array]
    """(state, observations, goals, time) to greedy actions."""
    update: Callable[[AgentState, Episodes, Rates, Key[Array, ""]], Update]
    """(state, episodes, rates, key) to the next state; what is not finite is not kept."""
    policy: Callable[[AgentState], Any]
    """The greedy policy of a state, with a method `act(observation, goal, time)`."""
    records: Callable[[AgentState], Mapping[str, Int[Array, "..."]]] = lambda state: {}
    """Counts that the agent kept of itself while it learned, for the study's results."""
    sizes: tuple[str, ...] = ()
    """What its memory depends on beside the widths of its layers and the batches, in words."""
    updates_on_host: bool = False
    """Whether `update` is plain Python around compiled parts, so that it cannot be compiled as a whole. It is pure all
    the same."""
    lengthen: Callable[[AgentState, AgentState], AgentState] | None = None
    """(state of a run, first state of a longer one) to a state from which the longer one goes on; None where a state
    does not depend on the length of its run."""
    any_behaviour: bool = False
    """Whether `update` may be given episodes of an earlier policy: it goes by the probability with which each action
    was taken, or by none. False where it takes the newest policy for the one that acted."""
    remark: str = ""
    """A sentence about what the method chose for the environment, said when training begins."""
