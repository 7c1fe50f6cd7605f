"""The gradient laboratory: how far estimated gradients are from the exact one, and how they scatter."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from hindsight_rl.agents.active_goals import active_goals, pursued_goals, rewards_of_goals
from hindsight_rl.agents.options import Ended, HindsightOptions
from hindsight_rl.agents.surrogate import encode_states, log_probabilities_under_goals, surrogate_gradient
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.goals import GoalSet
from hindsight_rl.core.numbers import require_positive_integer
from hindsight_rl.environments.finite import FiniteProblem, finite_problem
from hindsight_rl.environments.interface import Environment
from hindsight_rl.estimators import cumulative_log_ratios, effective_sample_size
from hindsight_rl.estimators.table import Estimator, Ingredients, find_estimator
from hindsight_rl.exact import exact_gradient, exact_values, policy_table
from hindsight_rl.rollout.compiled import collect
from hindsight_rl.training.keys import key_of

EpisodesEnd = Literal["goal", "horizon"]

GROUPS = 10
"""The batches are drawn in so many groups, whose differences tell how sure the bias is."""


@dataclass(frozen=True)
class Setup:
    """One row of a comparison."""

    estimator: str
    batch_size: int
    max_active_goals: int | None
    episodes_end: EpisodesEnd
    """goal: reaching the pursued goal ends an episode. horizon: nothing else does."""
    ended: Ended
    normaliser_floor: float = 0.0
    """Added to every ratio before normalisation."""


@dataclass(frozen=True)
class Measurement:
    """How an estimator's gradients relate to the exact gradient; squared errors are relative to its squared length."""

    setup: Setup
    samples: int
    bias: float
    """Squared distance of the expected estimate from the exact gradient; unbiased, so it may come out negative."""
    bias_error: float
    """The standard error of `bias`."""
    variance: float
    """Summed over the parameters."""
    mean_squared_error: float
    cosine: float
    """Mean cosine of a single estimate with the exact gradient."""
    cosine_of_mean: float
    """Cosine of the mean estimate with the exact gradient."""
    effective_sample_sizes: tuple[float, ...]
    """For each time step, over the goals and batches with a ratio there, as a share of the episodes that count."""

    def row(self) -> dict[str, Any]:
        """Flat, for a table; without the sample sizes by time."""
        row = {**asdict(self.setup), **asdict(self)}
        del row["setup"], row["effective_sample_sizes"]
        return row


def setups(
    estimators: Sequence[str],
    batch_sizes: Sequence[int],
    caps: Sequence[int | None],
    episodes_ends: Sequence[EpisodesEnd],
    normalisers: Sequence[Ended],
    floors: Sequence[float] = (0.0,),
) -> list[Setup]:
    """All combinations that differ: caps matter over active goals, normalisers to weighted ones that end early.

    Floors matter to weighted ones.
    """
    if not (estimators and batch_sizes and caps and episodes_ends and normalisers and floors):
        raise HindsightError("Estimators, batch sizes, caps, ends, normalisers and floors must each name at least one.")
    for size in batch_sizes:
        require_positive_integer("batch_sizes", size)
    for floor in floors:
        HindsightOptions(normaliser_floor=floor)  # says what is wrong with it
    found: dict[Setup, None] = {}
    for name, size, cap, end, ended, floor in itertools.product(
        estimators, batch_sizes, caps, episodes_ends, normalisers, floors
    ):
        estimator = find_estimator(name)
        cap = cap if estimator.goals == "active" else None
        matters = estimator.weighted and end == "goal"
        own_floor = floor if estimator.weighted else 0.0
        found[Setup(name, size, cap, end, ended if matters else normalisers[0], own_floor)] = None
    return list(found)


def measure(
    environment: Environment,
    policy: Any,
    chosen: Sequence[Setup],
    samples: int,
    seed: int = 0,
    tick: Callable[[int, int], None] = lambda setup, samples: None,
) -> Iterator[Measurement]:
    """Measure each setup with so many batches; `tick` hears of setups and samples done."""
    if samples < 2:
        raise HindsightError(f"samples must be at least 2, not {samples}.")
    problem = finite_problem(environment)
    _, exact = exact_gradient(policy, problem)
    truth = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(exact)])
    if not truth.any():
        raise HindsightError("The exact gradient of this policy is zero, so nothing can be measured relative to it.")
    values = jnp.asarray(exact_values(policy_table(policy, problem), problem).values, jnp.float32)
    known = _Known(policy, values, jnp.asarray(truth, jnp.float32))
    for number, setup in enumerate(chosen):
        draw = _sampler(environment, problem, setup)
        groups: list[_Totals] = []
        for group, share in enumerate(np.array_split(np.arange(samples), min(GROUPS, samples))):
            keys = jax.random.split(jax.random.fold_in(key_of(seed), group), samples // GROUPS + 1)
            groups.append(jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), draw(known, keys, len(share))))
            tick(number, int(share[-1]) + 1)
        yield _conclude(setup, samples, groups, truth)


class _Totals(NamedTuple):
    """Sums over batches."""

    gradient: Float[Array, " parameter"]
    squared_length: Float[Array, ""]
    cosine: Float[Array, ""]
    effective: Float[Array, " time"]
    """Effective sample sizes as shares, summed over goals that have a ratio at that time."""
    counted: Float[Array, " time"]


class _Known(NamedTuple):
    """What belongs to a policy: an input of the compiled programs, so that all policies share them."""

    policy: Any
    values: Float[Array, "time state goal"]
    truth: Float[Array, " parameter"]


def _sampler(
    environment: Environment, problem: FiniteProblem, setup: Setup
) -> Callable[[_Known, Key[Array, " sample"], int], _Totals]:
    """A compiled function that sums over batches."""

    def one(known: _Known, key: Key[Array, ""]) -> _Totals:
        gradient, effective, counted = _estimate(environment, problem, setup, known, key)
        flat = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(gradient)])
        squared = jnp.sum(flat**2)
        length = jnp.sqrt(squared * jnp.sum(known.truth**2))
        cosine = jnp.where(length > 0, jnp.sum(flat * known.truth) / jnp.where(length > 0, length, 1), 0)
        return _Totals(flat, squared, cosine, effective, counted)

    @jax.jit
    def draw(known: _Known, keys: Key[Array, " sample"], count: Array) -> _Totals:
        shapes = jax.eval_shape(one, known, keys[0])
        zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        add = lambda number, total: jax.tree.map(jnp.add, total, one(known, keys[number]))  # noqa: E731
        return jax.lax.fori_loop(0, count, add, zero)

    return draw


def _estimate(
    environment: Environment, problem: FiniteProblem, setup: Setup, known: _Known, key: Array
) -> tuple[Any, Array, Array]:
    """One batch's estimate of the gradient, and the effective sample sizes of its ratios."""
    policy = known.policy
    episode_key, goal_key = jax.random.split(key)

    def explore(observations: Array, goals: Array, time: Array, key: Array) -> tuple[Array, Array]:
        return policy.sample(observations, goals, key)

    episodes = collect(environment, explore, setup.batch_size, episode_key, setup.episodes_end)
    estimator = find_estimator(setup.estimator)
    goals = _goals(environment, problem, episodes, estimator, setup.max_active_goals, goal_key)
    states = encode_states(environment, policy, episodes)
    rewards, decides = rewards_of_goals(environment, episodes, goals)
    horizons = jnp.where(goals.present, rewards.shape[2], 0)
    log_probabilities = log_probabilities_under_goals(policy, episodes, states, goals, horizons)
    log_ratios = cumulative_log_ratios(log_probabilities, episodes.log_probabilities, episodes.taken)
    found = _values(problem, known.values, episodes, goals)
    # Zero where no decision is made, and at the last state.
    values = jnp.pad(jnp.where(decides, found[:, :, :-1], 0), ((0, 0), (0, 0), (0, 1)))
    following = jnp.where(_reached(environment, episodes, goals), 0, found[:, :, 1:])
    weights = (episodes.taken, setup.ended, setup.normaliser_floor)
    given = Ingredients(log_ratios, rewards, values, goals.probabilities, *weights, decides, following)
    if estimator.goals == "pursued":
        episode = jnp.arange(setup.batch_size)
        over_goals = ("log_ratios", "rewards", "values", "decides", "following")
        own: dict[str, Any] = {name: getattr(given, name)[episode, episode] for name in over_goals}
        given = given._replace(**own)
    gradient = surrogate_gradient(policy, episodes, states, goals, estimator.coefficients(given))
    live = jnp.sum(episodes.taken, axis=0) if setup.ended == "drop" else jnp.full(rewards.shape[2], setup.batch_size)
    sizes = effective_sample_size(log_ratios, *weights) / jnp.maximum(live, 1)[None]
    counted = goals.present[:, None] & (live > 0)[None]
    return gradient, jnp.sum(jnp.where(counted, sizes, 0), axis=0), jnp.sum(counted, axis=0).astype(jnp.float32)


def _goals(
    environment: Environment,
    problem: FiniteProblem,
    episodes: Episodes,
    estimator: Estimator,
    cap: int | None,
    key: Array,
) -> GoalSet:
    if estimator.goals == "pursued":
        return pursued_goals(environment, episodes)
    if estimator.goals == "active":
        return active_goals(environment, episodes, key, HindsightOptions(max_active_goals=cap))
    goals = jnp.asarray(problem.goals, jnp.float32)
    return GoalSet(goals, jnp.asarray(problem.goal_probabilities, jnp.float32), jnp.ones(len(goals), bool))


def _values(
    problem: FiniteProblem, values: Array, episodes: Episodes, goals: GoalSet
) -> Float[Array, "goal episode state"]:
    """The exact V_t(s[i, t], g) of a state from which g is still to be reached; zero at the horizon."""
    states = _find(problem.observations, episodes.observations)
    columns = _find(problem.goals, goals.goals)
    times = jnp.arange(episodes.actions.shape[1])
    found = values[times[None, :, None], states[:, :-1, None], columns[None, None, :]]
    return jnp.pad(jnp.moveaxis(found, 2, 0), ((0, 0), (0, 0), (0, 1)))


def _reached(environment: Environment, episodes: Episodes, goals: GoalSet) -> Bool[Array, "goal episode time"]:
    """Whether each action led to a state that reaches each goal."""
    along = jax.vmap(jax.vmap(environment.reached, (0, None)), (0, None))
    return jax.vmap(along, (None, 0))(episodes.achieved_goals[:, 1:], goals.goals)


def _find(table: np.ndarray, rows: Array) -> Array:
    """The position of each row in a table."""
    candidates = jnp.asarray(table, jnp.float32).reshape((1,) * (rows.ndim - 1) + table.shape)
    return jnp.argmax(jnp.all(rows[..., None, :] == candidates, axis=-1), axis=-1)


def squared_bias(errors: Float[np.ndarray, "group parameter"]) -> tuple[float, float]:
    """An unbiased estimate of the squared length of the mean of independent errors, and its standard error.

    The product of two different groups' errors has the squared bias as its expectation; a jackknife over the groups
    gives the standard error.
    """
    groups = len(errors)
    products = errors @ errors.T
    others = products.sum() - np.trace(products)
    estimate = others / (groups * (groups - 1))
    if groups < 3:
        return float(estimate), float("nan")
    without = others - 2 * (products.sum(axis=1) - np.diag(products))
    replicates = without / ((groups - 1) * (groups - 2))
    error = np.sqrt((groups - 1) / groups * np.sum((replicates - replicates.mean()) ** 2))
    return float(estimate), float(error)


def _conclude(setup: Setup, samples: int, groups: list[_Totals], truth: np.ndarray) -> Measurement:
    sizes = np.array([len(share) for share in np.array_split(np.arange(samples), len(groups))])
    totals: Any = jax.tree.map(lambda *parts: sum(parts), *groups)
    scale = float(truth @ truth)
    mean = totals.gradient / samples
    variance = float(totals.squared_length / samples - mean @ mean) * samples / (samples - 1)
    bias, bias_error = squared_bias(np.stack([group.gradient for group in groups]) / sizes[:, None] - truth)
    length = np.sqrt(float(mean @ mean) * scale)
    return Measurement(
        setup=setup,
        samples=samples,
        bias=bias / scale,
        bias_error=bias_error / scale,
        variance=variance / scale,
        mean_squared_error=(bias + variance) / scale,
        cosine=float(totals.cosine) / samples,
        cosine_of_mean=float(mean @ truth) / length if length > 0 else 0.0,
        effective_sample_sizes=tuple(
            float(size) for size in np.where(totals.counted > 0, totals.effective / np.maximum(totals.counted, 1), 0)
        ),
    )
