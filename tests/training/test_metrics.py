"""What is recorded beside the return: what the agent says of its updates, as means, and the actions taken."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.hosted_bits import hosted_bits

from hindsight_rl.agents.interface import Agent, Rates, Update
from hindsight_rl.agents.options import PolicyOptions
from hindsight_rl.agents.policy_gradient import policy_gradient_agent
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.interface import Task
from hindsight_rl.estimators.table import find_estimator
from hindsight_rl.methods.interface import Method
from hindsight_rl.rollout.compiled import collect
from hindsight_rl.training import compiled_loop
from hindsight_rl.training.keys import keys_of
from hindsight_rl.training.loop import training
from hindsight_rl.training.program import Program, make_program
from hindsight_rl.training.settings import Settings, make_settings
from hindsight_rl.training.state import Snapshot, snapshot_from_arrays, snapshot_to_arrays

pytestmark = pytest.mark.usefixtures("quick_compilation", "compiled_programs")

BITS = 3


@dataclass(frozen=True)
class TalkativeOptions(PolicyOptions):
    """Of an agent that says something of each update."""

    fails_at: int = -1
    """The update that is not finite."""


def talkative(task: Task, options: TalkativeOptions) -> Agent:
    """GCPG that tells, in an order of its own, of its updates: their number, and the share of long episodes."""
    plain = PolicyOptions(learning_rate=options.learning_rate, hidden_layers=options.hidden_layers)
    inner = policy_gradient_agent(task, find_estimator("gcpg"), plain)

    def update(state: Any, episodes: Episodes, rates: Rates, key: jax.Array) -> Update:
        found = inner.update(state, episodes, rates, key)
        number = state.policy_optimiser.count
        metrics = {
            "third_of_number": number / 3,
            "long": jnp.mean(episodes.lengths >= 2),
            "action": jnp.mean(episodes.actions * 1.0) / 7,
        }
        fails = number == options.fails_at
        kept = jax.tree.map(lambda new, old: jnp.where(fails, old, new), found.state, state)
        return Update(kept, jnp.where(fails, 1, found.cause), metrics)

    return inner._replace(update=update)


TALKATIVE = Method("Says something of each update.", TalkativeOptions, talkative)


def settings_of(**changes: Any) -> Settings:
    common = {"batch_size": 4, "batches": 12, "evaluate_every": 6, "evaluation_episodes": 8, "hidden_layers": (4,)}
    return make_settings({"method": "test_metrics:TALKATIVE", **common, **changes})


@functools.cache
def program_of(hosted: bool, fails_at: int = -1) -> Program:
    return make_program(hosted_bits(BITS) if hosted else BitFlipping(BITS), settings_of(fails_at=fails_at))


def train(hosted: bool, snapshot: Snapshot | None = None, **changes: Any) -> Iterator[Snapshot]:
    workers: dict[str, Any] = {"workers": 0} if hosted else {}
    program = program_of(hosted, changes.get("fails_at", -1))
    return training(program, settings_of(**changes), snapshot=snapshot, notice=lambda line: None, **workers)


def metrics_of(snapshot: Snapshot) -> dict[str, np.ndarray]:
    return dict(snapshot.evaluations.metrics)


@functools.cache
def trained(hosted: bool) -> Snapshot:
    *_, newest = train(hosted, runs=2)
    return newest


@pytest.fixture(params=[False, True], ids=["compiled", "hosted"])
def hosted(request: pytest.FixtureRequest) -> bool:
    return request.param


def test_metrics_are_means_between_evaluations_and_unknown_before_the_first_update(hosted: bool) -> None:
    found = metrics_of(trained(hosted))
    assert list(found) == ["mean_return", "success_rate", "steps", "action", "long", "third_of_number"]
    for name in ("action", "long", "third_of_number"):
        assert np.isnan(found[name][:, 0]).all()
        assert np.isfinite(found[name][:, 1:]).all()
    # The numbers 0 to 5, then 6 to 11.
    np.testing.assert_allclose(found["third_of_number"][:, 1:], [[2.5 / 3, 8.5 / 3]] * 2, rtol=1e-6)
    assert np.all((found["long"][:, 1:] >= 0) & (found["long"][:, 1:] <= 1))


def test_the_compiled_loop_records_what_each_update_said() -> None:
    """Trained again one batch after another, by hand."""
    agent, found = program_of(hosted=False).agent, metrics_of(trained(hosted=False))
    update = jax.jit(agent.update)

    @jax.jit
    def play(state: Any, key: jax.Array) -> Episodes:
        return collect(BitFlipping(BITS), functools.partial(agent.explore, state), 4, key)

    for run in range(2):
        keys = keys_of(jnp.uint32(run))
        state, said, steps = agent.init(keys.init), [], 0
        for batch in range(12):
            episode_key, update_key = jax.random.split(jax.random.fold_in(keys.training, batch))
            episodes = play(state, episode_key)
            state, _, metrics = update(state, episodes, {"learning_rate": jnp.float32(1e-3)}, update_key)
            steps += int(episodes.lengths.sum())
            said.append({name: float(value) for name, value in metrics.items()})
            if (batch + 1) % 6 == 0:
                column = (batch + 1) // 6
                for name in said[0]:
                    expected = np.mean([one[name] for one in said[-6:]])
                    assert found[name][run, column] == pytest.approx(expected, rel=1e-6)
                assert found["steps"][run, column] == steps


def test_steps_count_the_actions_taken(hosted: bool) -> None:
    steps = metrics_of(trained(hosted))["steps"]
    assert steps[:, 0].tolist() == [0, 0]
    assert np.all(steps == np.round(steps))
    assert np.all(np.diff(steps, axis=1) >= 6 * 4)
    assert np.all(np.diff(steps, axis=1) < 6 * 4 * BITS)


def test_where_only_the_horizon_ends_episodes_every_one_has_all_its_actions() -> None:
    settings = settings_of(episodes_end="horizon")
    *_, newest = training(make_program(BitFlipping(BITS), settings), settings)
    assert metrics_of(newest)["steps"].tolist() == [[0, 6 * 4 * BITS, 12 * 4 * BITS]]


def test_going_on_from_a_checkpoint_changes_no_number(hosted: bool) -> None:
    first = next(iter(train(hosted, runs=2)))
    snapshots = train(hosted, runs=2, snapshot=first)
    middle = next(snapshots)
    assert middle.batch == 6
    loaded = snapshot_from_arrays(program_of(hosted).states(2), snapshot_to_arrays(middle))
    *_, resumed = train(hosted, runs=2, snapshot=loaded)
    whole = metrics_of(trained(hosted))
    assert list(metrics_of(resumed)) == list(whole)
    for name, values in metrics_of(resumed).items():
        np.testing.assert_array_equal(values, whole[name])


def test_pauses_for_ticks_change_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two evaluations the compiled loop advances by 1, 2 and 3 batches, or by 1 each time."""
    monkeypatch.setattr(compiled_loop, "SECONDS_BETWEEN_TICKS", 1e9)
    *_, in_strides = train(hosted=False, runs=2, evaluate_every=12)
    monkeypatch.setattr(compiled_loop, "SECONDS_BETWEEN_TICKS", 0.0)
    *_, one_by_one = train(hosted=False, runs=2, evaluate_every=12)
    for name, values in metrics_of(in_strides).items():
        assert values.tobytes() == metrics_of(one_by_one)[name].tobytes(), name


def test_more_actions_between_evaluations_than_32_bits_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large batch takes millions of actions, and evaluations may be as far apart as one likes."""
    monkeypatch.setattr(compiled_loop, "SECONDS_BETWEEN_TICKS", 0.0)
    settings, more = settings_of(runs=2, batches=6, evaluate_every=6), 2**30
    program = make_program(BitFlipping(BITS), settings)
    *_, plain = training(program, settings)
    advance = program.advance
    assert advance is not None

    def far(states: Any, seeds: Any, rates: Any, done: Any, batches: Any, evaluates: Any, totals: Any) -> Any:
        *rest, found = advance(states, seeds, rates, done, batches, evaluates, totals)
        return *rest, {**found, "steps": found["steps"] + more * jnp.minimum(batches, 1)}

    *_, newest = training(program._replace(advance=jax.jit(far)), settings)
    np.testing.assert_array_equal(metrics_of(newest)["steps"][:, -1], metrics_of(plain)["steps"][:, -1] + 6 * more)


def test_a_failed_run_has_nothing_more_to_say(hosted: bool) -> None:
    *_, newest = train(hosted, batches=12, evaluate_every=3, fails_at=4)
    (failure,) = newest.failures
    assert failure.batch == 4
    for name, values in metrics_of(newest).items():
        known = np.isfinite(values[0]).tolist()
        before = name in ("mean_return", "success_rate", "steps")
        assert known == [before, True, False, False, False], name


def test_a_run_that_fails_leaves_what_the_others_say(hosted: bool) -> None:
    """Every run fails here, in its fifth batch; none of them at the first evaluation."""
    *_, failed = train(hosted, runs=2, batches=6, evaluate_every=3, fails_at=4)
    *_, whole = train(hosted, runs=2, batches=3, evaluate_every=3)
    for name, values in metrics_of(failed).items():
        np.testing.assert_array_equal(values[:, :2], metrics_of(whole)[name])


def test_metrics_survive_the_table(hosted: bool) -> None:
    evaluations = trained(hosted).evaluations
    again = type(evaluations).from_csv(evaluations.to_csv())
    assert list(again.metrics) == list(evaluations.metrics)
    for name, values in evaluations.metrics.items():
        np.testing.assert_array_equal(again.metrics[name], values)
