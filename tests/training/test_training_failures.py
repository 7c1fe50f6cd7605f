"""A run that stops being finite is marked, keeps its last finite state, and harms no other."""

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Bool, Float, Int, Key
from small_jobs import ENVIRONMENT, bytes_of_run, small_settings, train_to_the_end

from hindsight_rl.agents.interface import CAUSES
from hindsight_rl.environments.bit_flipping import BitFlipping, Bits
from hindsight_rl.environments.interface import Environment
from hindsight_rl.environments.registry import make
from hindsight_rl.training.loop import training
from hindsight_rl.training.program import make_program
from hindsight_rl.training.state import Failure, Runs, Snapshot, state_to_arrays

pytestmark = pytest.mark.usefixtures("quick_compilation", "compiled_programs")

SEEDS = (11, 12, 13)
HUGE = 1e38


def train_with_rates(rates: list[float], seeds: tuple[int, ...] = SEEDS) -> Snapshot:
    own = {"learning_rate": np.array(rates), "baseline_learning_rate": np.full(len(rates), 1e-3)}
    runs = Runs(np.array(seeds, dtype=np.uint32), own)
    return train_to_the_end(make(ENVIRONMENT), small_settings(method="hpg+b", runs=len(rates)), runs)


@pytest.fixture(scope="module")
def one_fails(compiled_programs: object) -> Snapshot:
    return train_with_rates([1e-2, HUGE, 1e-2])


def test_failure_has_run_seed_batch_and_cause(one_fails: Snapshot) -> None:
    (failure,) = one_fails.failures
    assert (failure.run, failure.seed) == (1, SEEDS[1])
    assert 0 <= failure.batch < 40
    assert failure.cause in CAUSES[1:]


def test_evaluations_are_missing_from_the_failure_on(one_fails: Snapshot) -> None:
    (failure,) = one_fails.failures
    expected = one_fails.evaluations.batches > failure.batch
    for name in ("mean_return", "success_rate", "steps"):
        assert np.isnan(one_fails.evaluations.metrics[name][1]).tolist() == expected.tolist()
    assert np.isnan(one_fails.evaluations.average_performance[1])


def test_failed_run_keeps_finite_numbers(one_fails: Snapshot) -> None:
    for name, array in state_to_arrays(one_fails.states).items():
        assert np.isfinite(array[1]).all(), name


def test_failed_run_stops_where_it_failed(one_fails: Snapshot) -> None:
    (failure,) = one_fails.failures
    updates = np.asarray(one_fails.states.agent.policy_optimiser.count)
    assert updates.tolist() == [40, failure.batch, 40]


def test_other_runs_are_as_without_it(one_fails: Snapshot) -> None:
    without = train_with_rates([1e-2, 1e-2], (SEEDS[0], SEEDS[2]))
    assert without.failures == []
    assert bytes_of_run(one_fails, 0) == bytes_of_run(without, 0)
    assert bytes_of_run(one_fails, 2) == bytes_of_run(without, 1)


class EndlessReward(Environment):
    """Bit flipping in which reaching a goal is rewarded without bound, or with what is not a number."""

    bits: BitFlipping
    prize: float
    horizon: int
    action_count: int

    def __init__(self, bits: int, prize: float):
        self.bits = BitFlipping(bits)
        self.prize = prize
        self.horizon = self.bits.horizon
        self.action_count = self.bits.action_count

    @property
    def goal_count(self) -> int:
        return self.bits.goal_count

    @property
    def state_limit(self) -> int | None:
        return None

    def reset(self, key: Key[Array, ""]) -> Bits:
        return self.bits.reset(key)

    def step(self, state: Bits, action: Int[Array, ""], key: Key[Array, ""]) -> Bits:
        return self.bits.step(state, action, key)

    def observe(self, state: Bits) -> Bits:
        return state

    def achieved_goal(self, state: Bits) -> Bits:
        return state

    def sample_goal(self, key: Key[Array, ""]) -> Bits:
        return self.bits.sample_goal(key)

    def goal_probability(self, goal: Bits) -> Float[Array, ""]:
        return self.bits.goal_probability(goal)

    def reached(self, achieved: Bits, goal: Bits) -> Bool[Array, ""]:
        return self.bits.reached(achieved, goal)

    def reward(self, achieved: Bits, goal: Bits, time: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.where(self.reached(achieved, goal), self.prize, 0.0)

    def render(self, state: Bits, goal: Bits) -> str:
        return self.bits.render(state, goal)


@pytest.mark.parametrize("prize", [np.inf, np.nan])
def test_rewards_that_are_not_finite_fail_every_run_at_once(prize: float) -> None:
    settings = small_settings(runs=2, batches=10)
    first, last = training(make_program(EndlessReward(2, prize), settings), settings)
    failures = [Failure(run, run, 0, "the evaluated return is not finite") for run in (0, 1)]
    assert first.failures == failures
    assert last.failures == failures
    assert np.isnan(last.evaluations.mean_returns).all()
    assert np.isnan(last.evaluations.success_rates).all()
    before, after = (state_to_arrays(snapshot.states) for snapshot in (first, last))
    for name in before.keys() - {"failed_batch", "cause"}:
        np.testing.assert_array_equal(before[name], after[name])
