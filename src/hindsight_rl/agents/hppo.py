"""Hindsight PPO: an actor-critic that learns about any goal from any kept episode; plain PPO without the hindsight."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from hindsight_rl.agents.episode_buffer import EpisodeBuffer, add_episodes, empty_buffer
from hindsight_rl.agents.hppo_options import FEW_NUMBERS, PPOOptions
from hindsight_rl.agents.hppo_samples import choices_of, mean_reward, work_of
from hindsight_rl.agents.hppo_update import OPTIMISER, Learned, Notes, learn
from hindsight_rl.agents.interface import CAUSES, Agent, Rates, Update, all_finite
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.described import DescribedTask
from hindsight_rl.environments.interface import Task
from hindsight_rl.networks.actor_critic import Actor, Critic, Inputs
from hindsight_rl.networks.perceptron import flat_size

WAVES = 3
MOST_BYTES = 5e8
"""Of kept observations; episodes of pictures are large."""

OTHERS = 8
"""Goals of other new episodes under which each new episode is looked at, to tell what is reached by chance."""


class HPPOState(NamedTuple):
    """All that is learned, and the episodes that it is learned from."""

    learned: Learned
    inputs: Inputs
    pace: Float[Array, ""]
    """The mean reward of a step in the first batch, from which rewards are counted."""
    buffer: EpisodeBuffer


class GreedyPolicy(eqx.Module):
    """The most probable action, whatever the time."""

    actor: Actor
    inputs: Inputs

    def act(
        self, observation: Shaped[Array, "*features"], goal: Shaped[Array, "*goal"], time: int | Array = 0
    ) -> Array:
        """The most probable action for one observation and goal."""
        return _greedy(self.actor, self.inputs, jnp.asarray(observation)[None], jnp.asarray(goal, jnp.float32)[None])[0]


def hppo_agent(task: Task, options: PPOOptions) -> Agent:
    """The agent that runs hindsight PPO, or plain PPO where the options know no hindsight."""
    options = replace(options, reward_offset=_offset(task, options))
    bounded = _bounded(task)
    uniform = options.uniform_share(task.continuous and bounded)
    if uniform > 0 and not bounded:
        raise HindsightError(
            "exploration draws actions uniformly within their bounds, but those of this environment have none: "
            "leave it at 0."
        )
    of_actions = options.critic == "actions"
    if of_actions and task.continuous:
        raise HindsightError(
            "critic can be 'actions' only where there are a few to choose from; those of this environment are vectors: "
            "leave it at 'states'."
        )
    shape, goal_size = task.observation_shape, flat_size(task.goal_shape)
    pictures = shape if task.shows_pictures else (flat_size(shape),)
    numbers = flat_size(shape) + goal_size
    widths = options.widths(numbers)
    waves = options.waves if options.waves is not None else (WAVES if numbers <= FEW_NUMBERS else 0)
    slots = _slots(task, options)

    def init(key: Key[Array, ""]) -> HPPOState:
        actor_key, critic_key = jax.random.split(key)
        inputs = Inputs(pictures, goal_size, options.normalise, options.interactions, waves)
        sizes = inputs.sizes(pictures, goal_size)
        actor = Actor(
            *sizes,
            task.action_count,
            widths,
            actor_key,
            task.continuous,
            task.action_bounds,
            options.deviation_floor,
        )
        critic = Critic(*sizes, widths, critic_key, task.action_count if of_actions else None)
        learned = Learned(actor, critic, critic, OPTIMISER.init(actor), OPTIMISER.init(critic))
        return HPPOState(learned, inputs, jnp.zeros(()), empty_buffer(task, slots))

    def explore(
        state: HPPOState, observations: Array, goals: Array, time: Array, key: Key[Array, ""]
    ) -> tuple[Array, Float[Array, " episode"]]:
        actor = state.learned.actor
        return actor.explore(actor(*state.inputs(observations, goals)), uniform, key)

    def exploit(state: HPPOState, observations: Array, goals: Array, time: Array) -> Array:
        return _greedy(state.learned.actor, state.inputs, observations, goals)

    def update(state: HPPOState, episodes: Episodes, rates: Rates, key: Key[Array, ""]) -> Update:
        if (size := len(episodes.lengths)) > slots:
            way = "keep more of them" if slots == options.kept_episodes else "lower the batch size"
            raise HindsightError(f"There is room for {slots} kept episodes, but a batch has {size}: {way}.")
        buffer = add_episodes(state.buffer, episodes)
        inputs = _seen(state.inputs, episodes)
        first = state.buffer.added == 0
        pace = jax.lax.cond(first, lambda: mean_reward(task, options, episodes), lambda: state.pace)
        learned, notes = learn(task, options, inputs, state.learned, buffer, size, rates, key, pace)
        cause = _cause(notes, learned)
        # What is not finite is not kept; the episodes are. (Selecting the old buffer would copy all of it.)
        kept = jax.tree.map(lambda new, old: jnp.where(cause == 0, new, old), learned, state.learned)
        return Update(HPPOState(kept, inputs, pace, buffer), cause, _metrics(task, notes, episodes))

    return Agent(
        init,
        explore,
        exploit,
        update,
        lambda state: GreedyPolicy(state.learned.actor, state.inputs),
        any_behaviour=True,
        sizes=("the kept episodes", "the pairs", "the minibatch"),
        remark=_remark(task, options, widths, uniform, waves, slots),
    )


def _offset(task: Task, options: PPOOptions) -> float:
    """What is added to rewards: asked for, or chosen by what reaching a goal is worth early and late."""
    if isinstance(task, DescribedTask):  # a policy that was loaded acts, and learns from no reward
        return options.reward_offset or 0.0
    goal = jnp.asarray(task.example_goal, task.goal_type)
    early, late = (float(task.reward(goal, goal, jnp.int32(time))) for time in (1, task.horizon - 1))
    return options.offset(early, late)


def _bounded(task: Task) -> bool:
    """Whether actions can be drawn uniformly."""
    return not task.continuous or (task.action_bounds is not None and bool(np.all(np.isfinite(task.action_bounds))))


def _slots(task: Task, options: PPOOptions) -> int:
    """Episodes for which there is room: as many as are wanted, or fit into memory. A run can always be made longer."""
    bytes_each = task.horizon * np.prod(task.observation_shape) * np.dtype(task.observation_type).itemsize
    fitting = max(int(MOST_BYTES / bytes_each), 1)
    return min(options.kept_episodes, fitting)


def _megabytes(task: Task, slots: int) -> float:
    """Of kept episodes."""
    leaves = jax.tree.leaves(jax.eval_shape(lambda: empty_buffer(task, slots)))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves) / 1e6


def _remark(task: Task, options: PPOOptions, widths: Sequence[int], uniform: float, waves: int, slots: int) -> str:
    """What was chosen for this environment, in one line."""
    pictures = " of pictures" if task.shows_pictures else ""
    cost = -(options.reward_offset or 0.0)
    work = work_of(task, options)
    said = [
        f"{options.gradient_steps} gradient steps a batch"
        if options.gradient_steps
        else f"{work.steps_for_an_episode:g} gradient steps for each episode",
        *([f"each state looked at under {work.goals} goals together"] if work.goals > 1 else []),
        f"{slots} episodes{pictures} kept ({_megabytes(task, slots):.2g} MB of each checkpoint)",
        f"layers of {' '.join(map(str, widths))}",
        f"entropy {options.entropy_weight(choices_of(task), task.horizon):.2g}",
        f"{uniform:.0%} of actions uniform" if uniform else "actions from the policy alone",
        "inputs normalised" if options.normalise else "inputs as they are",
        *([f"{waves} waves of each input"] if waves else []),
        *([f"each step before the goal costs {cost:g}"] if cost > 0 else []),
        f"rewards divided by {options.reward_scale or task.horizon:g} and counted from the first batch's mean",
    ]
    return f"Chosen for this environment: {', '.join(said)}."


def _greedy(actor: Actor, inputs: Inputs, observations: Array, goals: Array) -> Array:
    return actor.head.mode(actor(*inputs(observations, goals)))


def _seen(inputs: Inputs, episodes: Episodes) -> Inputs:
    """Inputs with a batch in their statistics. Each later batch moves them less: a jump would change every ratio."""
    if inputs.goals is None:
        return inputs
    states = jnp.arange(episodes.observations.shape[1])[None] <= episodes.lengths[:, None]
    achieved = episodes.achieved_goals.reshape(states.size, -1)
    pursued = episodes.pursued_goals.reshape(len(episodes.lengths), -1)
    goals = inputs.goals.seen(
        jnp.concatenate([achieved, pursued]), jnp.concatenate([states.ravel(), jnp.ones(len(pursued), bool)])
    )
    newer = eqx.tree_at(lambda one: one.goals, inputs, goals)
    if inputs.observations is not None:
        rows = episodes.observations.reshape(states.size, -1).astype(jnp.float32)
        newer = eqx.tree_at(lambda one: one.observations, newer, inputs.observations.seen(rows, states.ravel()))
    return newer


def _cause(notes: Notes, learned: Learned) -> Int[Array, ""]:
    """A number into CAUSES: the first check that fails names it."""
    names = ("the policy gradient is not finite", "the baseline gradient is not finite", "a parameter is not finite")
    finite = all_finite((learned.actor, learned.critic))
    failed = jnp.concatenate([~notes.finite, ~finite[None]])
    causes = jnp.array([CAUSES.index(name) for name in names])
    return jnp.where(jnp.any(failed), causes[jnp.argmax(failed)], 0).astype(jnp.int32)


def _metrics(task: Task, notes: Notes, episodes: Episodes) -> dict[str, Float[Array, ""]]:
    """Means over the steps of a batch, and what the new episodes came upon."""
    steps = jnp.maximum(notes.steps, 1)
    return {
        "entropy": notes.sums["entropy"] / steps,
        "kl": notes.travelled,
        "clipped": notes.sums["clipped"] / steps,
        "effective_sample_size": notes.sums["effective_sample_size"] / jnp.maximum(notes.sums["draws"], 1),
        "value_error": notes.sums["value_error"] / steps,
        "gradient_steps": notes.steps.astype(jnp.float32),
        **encounters(task, episodes),
    }


def encounters(task: Task, episodes: Episodes) -> dict[str, Float[Array, ""]]:
    """Shares that tell whether there is anything to learn from:

    - `reached`: of episodes that reached their own goal;
    - `moved`: of episodes that left what they had achieved at first: a state no longer reaches that as a goal;
    - `others_reached`: of pairs of an episode and another's goal, those that reached it, among the pairs that did not
      begin there. Not reported where there are no other episodes.
    """

    def reached(goals: Shaped[Array, "episode *goal"]) -> Bool[Array, "episode state"]:
        return jax.vmap(jax.vmap(task.reached, (0, None)))(episodes.achieved_goals, goals)

    count, taken = len(episodes.lengths), episodes.taken
    found = {
        "reached": jnp.mean(jnp.any(reached(episodes.pursued_goals)[:, 1:] & taken, axis=1)),
        "moved": jnp.mean(jnp.any(~reached(episodes.achieved_goals[:, 0])[:, 1:] & taken, axis=1)),
    }
    if count > 1:
        shifts = jnp.arange(1, min(OTHERS, count - 1) + 1)
        others = episodes.pursued_goals[(jnp.arange(count)[None] + shifts[:, None]) % count]
        under_others = jax.vmap(reached)(others)
        away = ~under_others[:, :, 0]
        met = jnp.any(under_others[:, :, 1:] & taken[None], axis=2) & away
        found["others_reached"] = jnp.sum(met) / jnp.maximum(jnp.sum(away), 1)
    return found
