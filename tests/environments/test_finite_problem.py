"""The tables of an environment say what its compiled functions do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.compilation import quick_jit
from reference.dynamic_programming import table_of_moves
from reference.reachable import distinct, reachable_states

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.finite import FiniteProblem, check_problem, finite_problem
from hindsight_rl.environments.grid_world import GridWorld, four_rooms

RING = "S..\n.#.\n..S"
WITHOUT_SLIP = {"bits": BitFlipping(3), "ring": GridWorld(RING, horizon=9), "four rooms": four_rooms(slip=0)}
ENVIRONMENTS = {"bits": BitFlipping(3), "ring": GridWorld(RING, slip=0.3, horizon=9), "four rooms": four_rooms()}


@pytest.fixture(params=ENVIRONMENTS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def states_of(name: str, problem: FiniteProblem) -> np.ndarray:
    """The environment's states in the order of the tables; here a state is what is observed of it."""
    return problem.observations.astype(np.float32 if name == "bits" else np.int32)


def test_every_reachable_state_has_a_row(name: str) -> None:
    problem = finite_problem(ENVIRONMENTS[name])
    found = distinct(reachable_states(WITHOUT_SLIP[name]).astype(float))
    np.testing.assert_array_equal(distinct(problem.observations), found)
    assert len(problem.observations) == len(found)


def test_transitions_are_the_moves_and_slips(name: str) -> None:
    environment = ENVIRONMENTS[name]
    problem = finite_problem(environment)
    moves = table_of_moves(WITHOUT_SLIP[name], states_of(name, problem))
    slip = environment.slip if isinstance(environment, GridWorld) else 0.0
    expected = np.zeros(problem.transition_probabilities.shape[1:])
    for state, action in np.ndindex(moves.shape):
        expected[state, action, moves[state, action]] += 1 - slip
        for other in moves[state]:
            expected[state, action, other] += slip / moves.shape[1]
    np.testing.assert_allclose(problem.transition_probabilities[0], expected, atol=1e-12)


def test_rewards_goals_and_ends_are_those_of_the_environment(name: str) -> None:
    environment = ENVIRONMENTS[name]
    problem = finite_problem(environment)
    states, goals = jnp.asarray(problem.observations, jnp.float32), jnp.asarray(problem.goals, jnp.float32)
    times = jnp.arange(1, environment.horizon)

    def judge(state: jax.Array, goal: jax.Array) -> tuple[jax.Array, jax.Array]:
        rewards = jax.vmap(lambda time: environment.reward(state, goal, time))(times)
        return environment.reached(state, goal), rewards

    reached, rewards = quick_jit(jax.vmap(jax.vmap(judge, in_axes=(None, 0)), in_axes=(0, None)))(states, goals)
    np.testing.assert_array_equal(problem.reached, reached)
    np.testing.assert_array_equal(problem.rewards, np.moveaxis(np.asarray(rewards), 2, 0))
    probabilities = quick_jit(jax.vmap(environment.goal_probability))(goals)
    np.testing.assert_allclose(problem.goal_probabilities, probabilities, rtol=1e-6)
    assert len(problem.goals) == environment.goal_count
    assert problem.actions_per_episode == environment.horizon - 1


def test_starts_are_those_of_the_environment(name: str) -> None:
    environment = ENVIRONMENTS[name]
    problem = finite_problem(environment)
    drawn = np.asarray(quick_jit(jax.vmap(environment.reset))(jax.random.split(jax.random.key(0), 200)))
    possible = problem.start_probabilities > 0
    np.testing.assert_array_equal(distinct(drawn.astype(float)), distinct(problem.observations[possible]))
    np.testing.assert_allclose(problem.start_probabilities[possible], 1 / possible.sum())


def test_too_many_bits_for_tables() -> None:
    with pytest.raises(HindsightError, match="tables of 11 bits would be too large; at most 10"):
        finite_problem(BitFlipping(11))


def test_an_environment_without_tables_is_named() -> None:
    with pytest.raises(HindsightError, match=r"object has no method finite_problem\(\)"):
        finite_problem(object())


@pytest.mark.parametrize(
    ("table", "wrong", "message"),
    [
        ("start_probabilities", np.ones(8) / 4, "start_probabilities must hold probabilities that sum to one"),
        ("goal_probabilities", np.linspace(-0.25, 0.5, 8), "goal_probabilities must hold probabilities"),
        ("goal_probabilities", np.ones(7) / 7, r"goal_probabilities must have shape \(8,\), not \(7,\)"),
        ("rewards", np.zeros((3, 7, 8)), r"rewards must have shape \(3, 8, 8\)"),
        ("reached", np.zeros((8, 7), bool), r"reached must have shape \(8, 8\)"),
        ("transition_probabilities", np.zeros((2, 8, 3, 8)), r"shape \(1 or 3, 8, actions, 8\)"),
        ("transition_probabilities", np.zeros((1, 8, 3, 8)), "transition_probabilities must hold probabilities"),
    ],
)
def test_a_wrong_table_is_named(table: str, wrong: np.ndarray, message: str) -> None:
    problem = finite_problem(BitFlipping(3))
    assert check_problem(problem) is problem
    with pytest.raises(HindsightError, match=message):
        check_problem(problem._replace(**{table: wrong}))
