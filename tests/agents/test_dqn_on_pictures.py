"""Q-learning on pictures from simulators: as with the compiled buffer, saved and loaded, and on Ms. Pac-man."""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.compilation import quick_jit
from reference.methods import learning_rates
from reference.screens import CORRIDOR, Screen, ScreenTask, random_walks
from small_jobs import compiled_programs

from hindsight_rl.agents.dqn import DQNState, dqn_agent
from hindsight_rl.agents.interface import CAUSES, Agent
from hindsight_rl.agents.picture_replay import SHRINKAGE, PictureReplay, look_at
from hindsight_rl.agents.replay_options import HEROptions
from hindsight_rl.environments.registry import specify
from hindsight_rl.records.checkpoints import load_checkpoint, save_checkpoint
from hindsight_rl.training.loop import training
from hindsight_rl.training.program import make_program
from hindsight_rl.training.settings import make_settings
from hindsight_rl.training.state import (
    RunState,
    snapshot_from_arrays,
    snapshot_to_arrays,
    state_from_arrays,
    state_to_arrays,
)

__all__ = ["compiled_programs"]

LARGE = Screen(**CORRIDOR, shape=(36, 36, 2), noise=True)
"""The convolutions need so many pixels."""
LEARNING = HEROptions(replay_capacity=100, gradient_steps=3, minibatch_size=8, hidden_layers=(6, 5))
RATES = learning_rates(1e-3, 1)


@functools.cache
def hosted_agent() -> Agent:
    return dqn_agent(ScreenTask(LARGE), LEARNING)  # type: ignore[call-arg]


def test_cycles_with_the_buffer_for_pictures_are_those_of_the_compiled_one() -> None:
    """The same episodes and keys, so the same minibatches: networks differ by rounding alone."""
    compiled, hosted = dqn_agent(LARGE, LEARNING), hosted_agent()
    assert (compiled.updates_on_host, hosted.updates_on_host) == (False, True)
    states = [quick_jit(agent.init)(jax.random.key(0)) for agent in (compiled, hosted)]
    first = states[0].network
    update = quick_jit(compiled.update)
    for cycle in range(2):
        episodes, key = random_walks(LARGE, 4, cycle), jax.random.key(cycle)
        (ours, our_cause, _), (theirs, their_cause, _) = (
            change(state, episodes, RATES, key) for change, state in zip((update, hosted.update), states, strict=True)
        )
        assert CAUSES[int(our_cause)] == CAUSES[int(their_cause)] == ""
        states = [ours, theirs]
    for one, other, old in zip(*map(jax.tree.leaves, (ours.network, theirs.network, first)), strict=True):
        # Six steps of Adam with rate 1e-3 move a weight by up to 6e-3.
        np.testing.assert_allclose(one, other, atol=1e-4)
        assert np.max(np.abs(one - old)) > 1e-3


def test_the_policy_and_exploration_take_pictures() -> None:
    agent = hosted_agent()
    state = quick_jit(agent.init)(jax.random.key(0))
    pictures, goals = jnp.asarray(LARGE.pictures), jnp.full((9, 1), 8.0)
    greedy = quick_jit(agent.exploit)(state, pictures, goals, 1)
    act = quick_jit(jax.vmap(lambda picture, goal: agent.policy(state).act(picture, goal, 1)))
    np.testing.assert_array_equal(act(pictures, goals), greedy)
    actions, log_probabilities = quick_jit(agent.explore)(state, pictures, goals, 1, jax.random.key(1))
    np.testing.assert_allclose(np.exp(log_probabilities), np.where(actions == greedy, 0.9, 0.1), rtol=1e-5)


def test_a_network_that_would_not_be_finite_is_not_kept() -> None:
    agent = hosted_agent()
    state = quick_jit(agent.init)(jax.random.key(0))
    after, cause, _ = agent.update(state, random_walks(LARGE, 2, 0), learning_rates(np.inf), jax.random.key(0))
    assert CAUSES[int(cause)] == "a parameter is not finite"
    for kept, old in zip(jax.tree.leaves(after[:2]), jax.tree.leaves(state[:2]), strict=True):
        np.testing.assert_array_equal(kept, old)


def test_saved_and_loaded_it_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    agent = hosted_agent()

    def learn(state: DQNState, cycle: int) -> DQNState:
        return agent.update(state, random_walks(LARGE, 4, cycle), RATES, jax.random.key(cycle))[0]

    state = learn(learn(quick_jit(agent.init)(jax.random.key(0)), 0), 1)
    run = RunState(state, jnp.int32(-1), jnp.int32(0))
    save_checkpoint(tmp_path / "buffer.npz", state_to_arrays(run), {})
    template = RunState(jax.eval_shape(agent.init, jax.random.key(0)), jnp.int32(-1), jnp.int32(0))
    loaded = state_from_arrays(template, load_checkpoint(tmp_path / "buffer.npz")[0]).agent
    for one, other in zip(*(jax.tree.leaves(learn(each, 2)) for each in (state, loaded)), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    assert int(loaded.replay.filled) > 0
    shown = look_at(loaded.replay, loaded.replay.catalogue.observations[0, :1])
    np.testing.assert_array_equal(shown[0], LARGE.pictures[4])


TINY = make_settings(
    {
        "method": "dqn+her",
        "batch_size": 2,
        "batches": 2,
        "evaluate_every": 1,
        "evaluation_episodes": 2,
        "hidden_layers": (8, 6),
        "replay_capacity": 2000,
        "gradient_steps": 2,
        "minibatch_size": 4,
    }
)


@pytest.mark.usefixtures("compiled_programs")
@pytest.mark.slow
def test_ms_pacman_is_learned_from_pictures_and_resumed_to_the_same_bytes(tmp_path: Path) -> None:
    """The state after the first batch is saved when the second is done, which must not have changed it."""
    pytest.importorskip("ale_py")
    program = make_program(specify("ms-pacman").task, TINY)
    _, halfway, whole = training(program, TINY)
    save_checkpoint(tmp_path / "half.npz", snapshot_to_arrays(halfway), {})
    arrays, _ = load_checkpoint(tmp_path / "half.npz")
    loaded = snapshot_from_arrays(program.states(1), arrays)
    (resumed,) = training(program, TINY, snapshot=loaded)
    expected = snapshot_to_arrays(whole)
    for name, found in snapshot_to_arrays(resumed).items():
        assert found.tobytes() == expected[name].tobytes(), name
    replay = jax.tree.map(lambda leaf: leaf[0], whole.states.agent.replay)
    assert len(replay.catalogue.counts) == np.sum(replay.catalogue.counts > 0) == 4, "all the run's episodes, no more"
    assert_pictures_of_a_maze(replay)


def assert_pictures_of_a_maze(replay: PictureReplay) -> None:
    episodes = zip(replay.catalogue.observations, replay.catalogue.lengths, strict=True)
    places = np.concatenate([places[:length] for places, length in episodes])
    pictures = look_at(replay, places)
    assert pictures.shape == (np.sum(replay.catalogue.lengths), 84, 84, 4)
    assert np.all(pictures.std(axis=(1, 2, 3)) > 10), "a picture is blank"
    assert np.mean(places[:, 2]) < 84 * 84 * 4 / SHRINKAGE
