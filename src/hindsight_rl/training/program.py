"""What a training job needs of its agent, compiled at first use."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from hindsight_rl.agents.interface import CAUSES, Agent, Rates
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.described import Spaces
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.interface import Environment, Task
from hindsight_rl.environments.shapes import require_shapes
from hindsight_rl.methods.interface import make_agent
from hindsight_rl.rollout.compiled import collect, play
from hindsight_rl.training.keys import keys_of
from hindsight_rl.training.numerics import require_single_precision
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import RunState, Snapshot
from hindsight_rl.training.trained_policy import TrainedPolicy

STEPS = "steps"
"""The metric that counts the actions of training episodes."""
RETURN_NOT_FINITE = CAUSES.index("the evaluated return is not finite")

Totals = dict[str, Array]
"""Sums over updates of what the agent said of each, and of the actions taken."""
Evaluation = dict[str, Array]
"""The greedy performance by name: mean_return and success_rate."""


class Program(NamedTuple):
    """A job's task and agent, and its compiled functions. Seeds and rates are inputs: one program serves them all."""

    task: Task
    agent: Agent
    init: Callable[[Int[Array, " run"]], RunState]
    """The first states of runs with these seeds."""
    advance: Callable[..., tuple[RunState, Evaluation, Totals]] | None
    """For compiled environments: (states, seeds, rates, batches done, batches to do, whether to evaluate, totals).

    The totals are those of the updates since the last evaluation, to which it adds; nothing unless given.
    """
    nothing: Callable[[int], Totals] | None
    """For compiled environments: the totals of no updates, for so many runs."""
    explore: Callable[..., tuple[Array, Array]]
    exploit: Callable[..., Array]
    update: Callable[..., Any]
    """For hosted environments, whose episodes are played outside: the agent's functions."""

    def states(self, runs: int) -> RunState:
        """The shapes of the states of so many runs, as a template for loading a checkpoint."""
        return jax.eval_shape(self.init, jax.ShapeDtypeStruct((runs,), jnp.uint32))

    def policies(self, states: RunState) -> list[TrainedPolicy]:
        """The greedy policy of each run."""
        return [self.policy(states, run) for run in range(len(states.failed_batch))]

    def policy(self, states: RunState, run: int) -> TrainedPolicy:
        """The greedy policy of one of the runs."""
        return TrainedPolicy(
            self.agent.policy(jax.tree.map(lambda leaf: leaf[run], states.agent)), Spaces.of(self.task)
        )


def make_program(task: Task, settings: Settings) -> Program:
    """The program of a job; whatever cannot work is refused here, with a sentence."""
    require_single_precision()
    method, options, *_ = settings.compiled
    if isinstance(task, Environment):
        require_shapes(task)
    agent = make_agent(method, settings.row, task, options)
    agent = agent._replace(init=functools.partial(_first_state, agent.init))
    require_play_ahead(task, agent, settings)

    def init(seed: Int[Array, ""]) -> RunState:
        return RunState(agent.init(keys_of(seed).init), jnp.int32(-1), jnp.int32(0))

    advance = nothing = None
    if not isinstance(task, HostedTask):
        assert isinstance(task, Environment)
        update = _update(task, agent, settings)
        nothing = _nothing(settings, init, update)
        advance = jax.jit(_advance(task, agent, settings, update, nothing))
    return Program(
        task,
        agent,
        jax.jit(lambda seeds: jax.lax.map(init, seeds)),
        advance,
        nothing,
        jax.jit(agent.explore),
        jax.jit(agent.exploit),
        agent.update if agent.updates_on_host else jax.jit(agent.update),
    )


def _first_state(init: Callable[[Key[Array, ""]], Any], key: Key[Array, ""]) -> Any:
    """The types of a state's arrays settled, as an update returns them: others would compile every program twice."""

    def settled(leaf: Any) -> Any:
        plain = isinstance(leaf, jax.Array) and not jnp.issubdtype(leaf.dtype, jax.dtypes.extended)
        return jax.lax.convert_element_type(leaf, leaf.dtype) if plain else leaf

    return jax.tree.map(settled, init(key))


def require_play_ahead(task: Task, agent: Agent, settings: Settings) -> None:
    """Refuse to play ahead where nobody plays meanwhile, or where an update needs episodes of the newest policy."""
    if settings.play_ahead and not isinstance(task, HostedTask):
        raise HindsightError(
            "play_ahead has simulators play while the learner learns; this environment is compiled and has none: "
            "leave it out."
        )
    if settings.play_ahead and not agent.any_behaviour:
        raise HindsightError(
            f"{settings.method} learns from episodes of its newest policy alone, but play_ahead brings those of the "
            "policy before: leave it out."
        )


def lengthened(program: Program, snapshot: Snapshot) -> Snapshot:
    """A snapshot of a shorter job as one of the program's: it goes on to the numbers of a job that was long at once."""
    lengthen = program.agent.lengthen
    assert lengthen is not None
    empty = jax.eval_shape(program.agent.init, jax.random.key(0))
    parts = []
    for run in range(len(snapshot.states.failed_batch)):
        state = jax.tree.map(lambda leaf, run=run: leaf[run], snapshot.states)
        state = state._replace(agent=lengthen(state.agent, empty))
        parts.append(jax.tree.map(lambda leaf: np.asarray(leaf)[None], state))
    return Snapshot(parts, snapshot.evaluations)


def totals_of(metrics: Any, episodes: Episodes) -> Totals:
    """What is summed up of one update."""
    return {**{name: jnp.float32(value) for name, value in metrics.items()}, STEPS: jnp.sum(episodes.lengths)}


def _update(environment: Environment, agent: Agent, settings: Settings) -> Callable[..., tuple[RunState, Totals]]:
    """One batch of one run."""

    def update(state: RunState, batch: Int[Array, ""], key: Key[Array, ""], rates: Rates) -> tuple[RunState, Totals]:
        episode_key, update_key = jax.random.split(jax.random.fold_in(key, batch))
        explore = functools.partial(agent.explore, state.agent)
        episodes = collect(environment, explore, settings.batch_size, episode_key, settings.episodes_end)
        learned, cause, metrics = agent.update(state.agent, episodes, rates, update_key)
        after = RunState(learned, jnp.where(cause != 0, batch, state.failed_batch), cause)
        return after, totals_of(metrics, episodes)

    return update


def _nothing(
    settings: Settings, init: Callable[[Array], RunState], update: Callable[..., tuple[RunState, Totals]]
) -> Callable[[int], Totals]:
    def nothing(runs: int) -> Totals:
        seed = jnp.uint32(0)
        state, key = jax.eval_shape(init, seed), jax.eval_shape(lambda: keys_of(seed).training)
        rates = {name: jnp.float32(rate) for name, rate in settings.rates.items()}
        _, shapes = jax.eval_shape(update, state, jnp.int32(0), key, rates)
        return {name: jnp.zeros((runs, *shape.shape), shape.dtype) for name, shape in shapes.items()}

    return nothing


def _advance(
    environment: Environment,
    agent: Agent,
    settings: Settings,
    update: Callable[..., tuple[RunState, Totals]],
    nothing: Callable[[int], Totals],
) -> Callable[..., Any]:
    """Training and evaluation of runs along an array axis, one by one: what a run works on stays in the cache."""

    def evaluate(state: RunState, key: Key[Array, ""]) -> Evaluation:
        exploit = functools.partial(agent.exploit, state.agent)
        outcomes = play(environment, exploit, settings.evaluation_episodes, key)
        return {"mean_return": jnp.mean(outcomes.returns), "success_rate": jnp.mean(outcomes.successes)}

    def advance_one(
        state: RunState, seed: Array, rates: Rates, done: Array, more: Array, evaluates: Array, totals: Totals
    ) -> tuple[RunState, Evaluation, Totals]:
        keys = keys_of(seed)

        # A run that has failed trains no more. (Selecting its old state instead would copy a whole replay buffer.)
        def goes_on(carry: tuple[Array, RunState, Totals]) -> Array:
            return (carry[0] < done + more) & (carry[1].failed_batch < 0)

        def train(carry: tuple[Array, RunState, Totals]) -> tuple[Array, RunState, Totals]:
            after, seen = update(carry[1], carry[0], keys.training, rates)
            return carry[0] + 1, after, jax.tree.map(jnp.add, carry[2], seen)

        _, state, totals = jax.lax.while_loop(goes_on, train, (jnp.int32(done), state, totals))

        key = jax.random.fold_in(keys.evaluation, done + more)
        unknown = {"mean_return": jnp.float32(0), "success_rate": jnp.float32(0)}
        evaluation = jax.lax.cond(evaluates, lambda: evaluate(state, key), lambda: unknown)
        fails_now = ~jnp.isfinite(evaluation["mean_return"]) & (state.failed_batch < 0)
        failed_batch = jnp.where(fails_now, done + more, state.failed_batch)
        cause = jnp.where(fails_now, RETURN_NOT_FINITE, state.cause)
        return state._replace(failed_batch=failed_batch, cause=cause), evaluation, totals

    def advance(
        states: RunState,
        seeds: Array,
        rates: Rates,
        done: Array,
        more: Array,
        evaluates: Array,
        totals: Totals | None = None,
    ) -> tuple[RunState, Evaluation, Totals]:
        def one(run: tuple[RunState, Array, Rates, Totals]) -> tuple[RunState, Evaluation, Totals]:
            state, seed, own_rates, own_totals = run
            return advance_one(state, seed, own_rates, done, more, evaluates, own_totals)

        return jax.lax.map(one, (states, seeds, rates, nothing(len(seeds)) if totals is None else totals))

    return advance
