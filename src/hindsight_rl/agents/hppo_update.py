"""What hindsight PPO makes of a batch: several clipped steps on pairs of kept episodes and goals."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from hindsight_rl.agents.episode_buffer import EpisodeBuffer
from hindsight_rl.agents.hppo_options import PPOOptions
from hindsight_rl.agents.hppo_samples import Networks, Samples, draw_pairs, samples_of, work_of
from hindsight_rl.agents.interface import Rates, all_finite
from hindsight_rl.environments.interface import Task
from hindsight_rl.estimators.off_policy import clipped_coefficients, effective_share
from hindsight_rl.networks.actor_critic import Actor, Critic, Inputs
from hindsight_rl.networks.heads import Normal

OPTIMISER = optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam())
"""Adam without its step size, which is traced."""


class Learned(NamedTuple):
    """Networks and their optimisers."""

    actor: Actor
    critic: Critic
    target: Critic
    """Follows the critic slowly; targets are computed with it."""
    actor_optimiser: optax.OptState
    critic_optimiser: optax.OptState


class Notes(NamedTuple):
    """Kept while learning from a batch."""

    steps: Int[Array, ""]
    divergence: Float[Array, ""]
    """KL(old || new) over the decisions of this draw's last step, before it was made."""
    travelled: Float[Array, ""]
    """The same at the end of each draw before, added up."""
    finite: Bool[Array, "2"]
    """Whether all gradients of the policy, and of the critic, were finite."""
    sums: Mapping[str, Float[Array, ""]]
    """Over steps or draws, of what is reported as a mean."""


def learn(
    task: Task,
    options: PPOOptions,
    inputs: Inputs,
    learned: Learned,
    buffer: EpisodeBuffer,
    episodes: int,
    rates: Rates,
    key: Key[Array, ""],
    pace: Float[Array, ""] | float = 0.0,
) -> tuple[Learned, Notes]:
    """All steps on a batch of `episodes`, which is in the buffer: draw pairs, evaluate them, take some steps, again."""
    work = work_of(task, options)
    steps, states = options.steps_on_a_batch(episodes, work), work.minibatch // work.goals
    limit = jnp.inf if options.divergence_limit is None else options.divergence_limit

    def draw_goes_on(carry: tuple[Array, Learned, Notes]) -> Array:
        return (carry[2].steps < steps) & (carry[2].travelled <= limit)

    def draw(carry: tuple[Array, Learned, Notes]) -> tuple[Array, Learned, Notes]:
        number, learned, notes = carry
        pair_key, order_key = jax.random.split(jax.random.fold_in(key, number))
        pairs = draw_pairs(task, options, buffer, pair_key)
        old = learned.actor
        samples, ratios = samples_of(task, options, buffer, pairs, Networks(old, learned.target, inputs, pace))
        order, count = shuffled(samples, order_key, work.goals)
        share = effective_share(ratios, samples.decides.reshape(ratios.shape))
        notes = _add(notes, effective_sample_size=share, draws=jnp.ones(()))

        def step_goes_on(carry: tuple[Array, Learned, Notes]) -> Array:
            notes = carry[2]
            goes_on = (carry[0] < options.steps_per_draw) & (notes.steps < steps)
            return goes_on & (notes.travelled + notes.divergence <= limit)

        def step(carry: tuple[Array, Learned, Notes]) -> tuple[Array, Learned, Notes]:
            number, learned, notes = carry
            places = (number * states + jnp.arange(states)) % jnp.maximum(count, 1)
            chosen = (order[places][:, None] * work.goals + jnp.arange(work.goals)[None]).ravel()
            rows: Samples = jax.tree.map(lambda leaf: leaf[chosen], samples)
            learned, notes = descend(options, inputs, learned, old, buffer, rows, rates, notes, work.goals)
            return number + 1, learned, notes

        _, learned, notes = jax.lax.while_loop(step_goes_on, step, (jnp.int32(0), learned, notes))
        notes = notes._replace(travelled=notes.travelled + notes.divergence, divergence=jnp.zeros(()))
        return number + 1, learned, notes

    return jax.lax.while_loop(draw_goes_on, draw, (jnp.int32(0), learned, no_notes()))[1:]


def shuffled(samples: Samples, key: Key[Array, ""], together: int = 1) -> tuple[Int[Array, " state"], Int[Array, ""]]:
    """The states, with so many goals `together`, in random order, those of decisions in front of the padding; and how
    many those are."""
    decides = jnp.any(samples.decides.reshape(-1, together), axis=1)
    lots = jax.random.uniform(key, decides.shape)
    return jnp.argsort(jnp.where(decides, lots, 2.0)), jnp.sum(decides)


def descend(
    options: PPOOptions,
    inputs: Inputs,
    learned: Learned,
    old: Actor,
    buffer: EpisodeBuffer,
    rows: Samples,
    rates: Rates,
    notes: Notes,
    together: int,
) -> tuple[Learned, Notes]:
    """One step of both networks on a minibatch of decisions, and of the target critic behind."""
    episodes = buffer.episodes
    observations, goals = inputs(episodes.observations[rows.slots[::together], rows.times[::together]], rows.goals)
    actions = episodes.actions[rows.slots, rows.times]
    clock = rows.times / episodes.actions.shape[1]
    count = jnp.maximum(jnp.sum(rows.decides), 1)
    choices = 0 if isinstance(old.head, Normal) else old.head.size
    entropy = options.entropy_weight(choices, episodes.observations.shape[1])
    (_, found), slope = jax.value_and_grad(policy_loss, has_aux=True)(
        learned.actor, old, observations, goals, actions, rows, options.clip, entropy
    )

    def critic_loss(critic: Critic) -> Float[Array, ""]:
        values = critic.of_taken(critic(observations, goals, clock), actions)
        errors = jnp.where(rows.decides, values - rows.values, 0)
        return jnp.sum(errors**2) / count

    error, critic_slope = jax.value_and_grad(critic_loss)(learned.critic)
    direction, actor_optimiser = OPTIMISER.update(slope, learned.actor_optimiser)
    actor = jax.tree.map(lambda weight, by: weight - rates["learning_rate"] * by, learned.actor, direction)
    direction, critic_optimiser = OPTIMISER.update(critic_slope, learned.critic_optimiser)
    critic = jax.tree.map(lambda weight, by: weight - rates["critic_learning_rate"] * by, learned.critic, direction)
    target = jax.tree.map(lambda was, now: was + options.target_rate * (now - was), learned.target, critic)
    finite = notes.finite & jnp.stack([all_finite(slope), all_finite(critic_slope)])
    notes = notes._replace(steps=notes.steps + 1, divergence=found.pop("divergence"), finite=finite)
    return Learned(actor, critic, target, actor_optimiser, critic_optimiser), _add(notes, value_error=error, **found)


def policy_loss(
    actor: Actor,
    old: Actor,
    observations: Array,
    goals: Array,
    actions: Array,
    rows: Samples,
    clip: float,
    entropy_weight: float,
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """Minus the mean over decisions of the clipped objective and of the entropy's share; and what is reported."""
    count = jnp.maximum(jnp.sum(rows.decides), 1)
    distributions = actor(observations, goals)
    logs = actor.head.log_probability(distributions, actions)
    weights = jnp.where(rows.decides, rows.weights, 0)
    coefficients, clipped = clipped_coefficients(
        jax.lax.stop_gradient(logs), old.head.log_probability(rows.old, actions), rows.advantages, weights, clip
    )

    def mean(values: Array) -> Array:
        return jnp.sum(jnp.where(rows.decides, values, 0)) / count

    entropy = mean(actor.head.entropy(distributions))
    divergence = mean(actor.head.divergence(old.head, rows.old, distributions))
    # Differentiated with the coefficients held constant.
    loss = -jnp.sum(coefficients * logs) / count - entropy_weight * entropy
    found = {"entropy": entropy, "clipped": mean(clipped), "divergence": divergence}
    return loss, jax.lax.stop_gradient(found)


def no_notes() -> Notes:
    """Before the first step."""
    names = ("entropy", "clipped", "value_error", "effective_sample_size", "draws")
    zero = jnp.zeros(())
    return Notes(jnp.int32(0), zero, zero, jnp.ones(2, bool), dict.fromkeys(names, zero))


def _add(notes: Notes, **found: Array) -> Notes:
    return notes._replace(sums={**notes.sums, **{name: notes.sums[name] + value for name, value in found.items()}})
