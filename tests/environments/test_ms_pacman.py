"""Facts of the Ms. Pac-man environment, checked against a bare emulator that is played beside it."""

import functools
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.ms_pacman.frames import Frames, Palette
from hindsight_rl.environments.ms_pacman.game import (
    ACTIONS,
    COLUMN_EDGES,
    FROZEN_TICKS,
    HER_COLOUR,
    HORIZONTAL_BYTE,
    LIVES,
    ROW_EDGES,
    VERTICAL_BYTE,
    MsPacman,
    MsPacmanTask,
    cell_borders,
    cell_in_memory,
    cell_of,
    hold,
    known_cells,
    open_emulator,
)

pytest.importorskip("ale_py")

UP, RIGHT, LEFT, DOWN = range(4)


def test_the_emulator_needs_no_gymnasium() -> None:
    """The extra `atari` does not bring it, and without it ale-py leaves out parts of itself."""
    program = "import sys; sys.modules['gymnasium'] = None; " + (
        "from hindsight_rl.environments.ms_pacman.game import open_emulator; print(open_emulator().getRAMSize())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "128\n", done.stderr


@pytest.fixture(scope="module")
def simulator() -> Iterator[MsPacman]:
    made = MsPacman()
    yield made
    made.close()


@pytest.fixture(scope="module")
def actions() -> list[Any]:
    from ale_py import Action

    return [getattr(Action, name) for name in ACTIONS]


@pytest.fixture
def emulator(actions: list[Any]) -> Any:
    """A bare emulator just before the random action with which an episode starts."""
    made = open_emulator()
    hold(made, actions[UP], FROZEN_TICKS + 13)
    return made


def seed_that_starts_with(action: int) -> int:
    """The first seed whose random action is this one."""
    drawn = (np.random.default_rng([0, seed]).integers(4) for seed in range(100))
    return next(seed for seed, number in enumerate(drawn) if number == action)


def screens_of(emulator: Any, action: Any) -> list[np.ndarray]:
    """The screens before an action and at each of its 13 ticks."""
    screens = [emulator.getScreenRGB()]
    for _ in range(13):
        emulator.act(action)
        screens.append(emulator.getScreenRGB())
    return screens


def plain_observation(screens: list[np.ndarray]) -> np.ndarray:
    """What the policy is shown, without any trick: exact areas by counting sevenths of pixels."""
    layers = []
    for tick in (1, 5, 9, 13):
        greatest = np.maximum(screens[tick - 1], screens[tick]).astype(float)
        grey = np.floor(0.299 * greatest[..., 0] + 0.587 * greatest[..., 1] + 0.114 * greatest[..., 2])
        cropped = grey[2:170, 2:-2]
        sevenths = np.repeat(cropped, 7, axis=1)
        means = sevenths.reshape(84, 2, 84, 13).mean(axis=(1, 3))
        layers.append(np.floor(means + 0.5))
    return np.stack(layers, axis=2).astype(np.uint8)


def test_sizes() -> None:
    task = MsPacmanTask()
    assert (task.horizon, task.action_count, task.continuous) == (28, 4, False)
    assert (task.observation_shape, task.observation_type, task.goal_shape) == ((84, 84, 4), "uint8", (2,))
    assert task.goal_count == 155
    assert hash(task) == hash(MsPacmanTask())


def test_the_overlay_covers_the_maze() -> None:
    assert (len(ROW_EDGES), len(COLUMN_EDGES)) == (14, 19)
    covered = np.zeros((168, 160), int)
    for row in range(14):
        for column in range(19):
            top, bottom, left, right = cell_borders(row, column)
            covered[top:bottom, left:right] += 1
    assert (covered == 1).all()


def test_goals_are_equally_likely_and_lie_outside_the_passage_she_starts_in() -> None:
    task = MsPacmanTask()
    overlay = jnp.array([(row, column) for row in range(14) for column in range(19)], jnp.float32)
    probabilities = np.asarray(jax.jit(jax.vmap(task.goal_probability))(overlay)).reshape(14, 19)
    np.testing.assert_allclose(probabilities.sum(dtype=float), 1, rtol=1e-6)
    assert {tuple(map(int, cell)) for cell in np.argwhere(probabilities > 0)} == set(known_cells().goals)
    no_goals = set(known_cells().standing) - set(known_cells().goals)
    assert no_goals == {(8, column) for column in (7, 8, 9, 10, 11)}


def test_drawn_goals_have_a_probability_and_spread(simulator: MsPacman) -> None:
    drawn = Counter(tuple(map(int, simulator.sample_goal(seed))) for seed in range(1500))
    assert set(drawn) <= set(known_cells().goals)
    assert len(drawn) == 155, "about ten draws for each goal leave none out with this seed"


def test_the_reward_is_the_remaining_time() -> None:
    task = MsPacmanTask()
    here, there = jnp.array([3.0, 6.0]), jnp.array([3.0, 7.0])
    assert [float(task.reward(here, here, jnp.int32(time))) for time in (1, 10, 27)] == [27, 18, 1]
    assert float(task.reward(here, there, jnp.int32(1))) == 0
    assert bool(task.reached(here, here))
    assert not bool(task.reached(here, there))


@pytest.mark.parametrize("first", range(4))
def test_the_first_state_shows_the_random_action(
    simulator: MsPacman, emulator: Any, actions: list[Any], first: int
) -> None:
    observed = simulator.reset(seed_that_starts_with(first))
    np.testing.assert_array_equal(observed.observation, plain_observation(screens_of(emulator, actions[first])))
    assert not observed.over
    column = 10 if first == RIGHT else 8
    np.testing.assert_array_equal(observed.achieved_goal, [8, column], err_msg="she goes left unless sent right")


def test_each_action_is_held_for_13_ticks_and_shown_at_four(
    simulator: MsPacman, emulator: Any, actions: list[Any]
) -> None:
    simulator.reset(seed_that_starts_with(LEFT))
    hold(emulator, actions[LEFT], 13)
    for action in (LEFT, DOWN, DOWN, RIGHT, UP, RIGHT, RIGHT):
        observed = simulator.step(np.int64(action))
        np.testing.assert_array_equal(observed.observation, plain_observation(screens_of(emulator, actions[action])))


def test_episodes_after_one_another_show_what_a_bare_emulator_shows(
    simulator: MsPacman, emulator: Any, actions: list[Any]
) -> None:
    """Nothing of an episode is left in the next, past lost lives and colours that were not seen before."""
    generator = np.random.default_rng(3)
    start = emulator.cloneState()
    first_screen = emulator.getScreenRGB()
    for seed in range(3):
        observed = simulator.reset(seed)
        emulator.restoreState(start)
        screens = screens_of(emulator, actions[np.random.default_rng([0, seed]).integers(4)])
        screens[0] = first_screen
        np.testing.assert_array_equal(observed.observation, plain_observation(screens))
        for action in generator.integers(4, size=27):
            observed = simulator.step(action)
            np.testing.assert_array_equal(
                observed.observation, plain_observation(screens_of(emulator, actions[action]))
            )


def test_frames_of_any_screens_are_as_without_tricks() -> None:
    """Also where every pixel changes, and where a number is new: then there is nothing until its colour is learned."""
    generator = np.random.default_rng(0)
    # No luminance of these, nor of the greatest of two, is a whole number: which side of it a sum falls on is chance.
    colours = 5 * generator.integers(51, size=(256, 3), dtype=np.uint8) + np.array([0, 0, 1], np.uint8)
    palette, frames = Palette(), Frames()
    for numbers in (2 * np.arange(4), 2 * np.arange(8), 2 * np.arange(128)):
        screens = generator.choice(numbers, size=(8, 210, 160)).astype(np.uint8)
        frames.advance(screens[0])
        for place, screen in zip(frames.places[1:], screens[1:], strict=True):
            place[...] = screen
        assert frames.observation(palette) is None
        for screen in screens:
            palette.learn(screen, functools.partial(colours.__getitem__, screen))
        in_colour = dict(zip((0, 1, 4, 5, 8, 9, 12, 13), colours[screens], strict=True))
        expected = plain_observation([in_colour.get(tick, in_colour[0]) for tick in range(14)])
        np.testing.assert_array_equal(frames.observation(palette), expected)


def test_the_start_is_the_published_one(emulator: Any, actions: list[Any]) -> None:
    """There: 240 ticks skipped, up for 13, nothing for 13. Here: 253 skipped, up for 13."""
    from ale_py import Action

    published = open_emulator()
    hold(published, actions[UP], 240 + 13)
    hold(published, Action.NOOP, 13)
    np.testing.assert_array_equal(published.getRAM(), emulator.getRAM())
    np.testing.assert_array_equal(published.getScreen(), emulator.getScreen())


def test_nothing_moves_before_the_start() -> None:
    from ale_py import Action

    emulator = open_emulator()
    assert emulator.getFloat("repeat_action_probability") == 0, "no action is sticky"
    places = []
    for _ in range(FROZEN_TICKS + 13):
        emulator.act(Action.RIGHT)
        places.append(emulator.getRAM()[HORIZONTAL_BYTE])
    assert len(set(places[:264])) == 1
    assert places[264] != places[263]


@pytest.mark.parametrize(("action", "columns"), [(RIGHT, 1), (LEFT, -1)], ids=["right", "left"])
def test_left_and_right_move_her(simulator: MsPacman, action: int, columns: int) -> None:
    first = simulator.reset(seed_that_starts_with(action)).achieved_goal
    last = [simulator.step(np.int64(action)).achieved_goal for _ in range(2)][-1]
    np.testing.assert_array_equal(np.sign(last - first), [0, columns])


def test_up_and_down_move_her_at_a_junction(simulator: MsPacman) -> None:
    simulator.reset(seed_that_starts_with(LEFT))
    simulator.step(np.int64(DOWN))
    below = simulator.step(np.int64(DOWN)).achieved_goal
    assert below[0] > 8
    above = [simulator.step(np.int64(UP)).achieved_goal[0] for _ in range(2)]
    assert above[-1] < below[0]


def test_the_screen_shows_where_memory_had_her_a_tick_before(emulator: Any, actions: list[Any]) -> None:
    """Pixels of her colour lie within the box that follows from memory, always."""
    generator = np.random.default_rng(0)
    before = emulator.getRAM()
    for number in range(25 * 13):
        if number % 13 == 0:
            action = actions[generator.integers(4)]
        emulator.act(action)
        rows, columns = np.nonzero(emulator.getScreen()[:168] == HER_COLOUR)
        horizontal, vertical = int(before[HORIZONTAL_BYTE]), int(before[VERTICAL_BYTE])
        assert horizontal - 12 <= columns.min() <= columns.max() <= horizontal - 5
        assert vertical + 1 <= rows.min() <= rows.max() <= vertical + 10
        before = emulator.getRAM()


def test_the_cell_from_memory_agrees_with_the_one_from_pixels(emulator: Any, actions: list[Any]) -> None:
    """Her mouth opens and shuts, so at a border most of her pixels may lie in the next cell, but never further."""
    generator = np.random.default_rng(1)
    start, distances = emulator.cloneState(), []
    for _ in range(6):
        emulator.restoreState(start)
        for action in generator.integers(4, size=20):
            hold(emulator, actions[action], 12)
            remembered = np.array(cell_in_memory(emulator.getRAM()))
            hold(emulator, actions[action], 1)
            hers = emulator.getScreen() == HER_COLOUR
            counts = np.array(
                [[hers[top:bottom, left:right].sum() for top, bottom, left, right in row] for row in every_border()]
            )
            seen = np.array(np.unravel_index(counts.argmax(), counts.shape))
            distances.append(np.abs(seen - remembered).sum())
    assert max(distances) <= 1
    assert np.mean(np.array(distances) == 0) > 0.9


def every_border() -> list[list[tuple[int, int, int, int]]]:
    return [[cell_borders(row, column) for column in range(19)] for row in range(14)]


def test_the_simulator_tells_the_cell_in_memory(simulator: MsPacman, emulator: Any, actions: list[Any]) -> None:
    simulator.reset(seed_that_starts_with(RIGHT))
    hold(emulator, actions[RIGHT], 13)
    for action in np.random.default_rng(2).integers(4, size=15):
        achieved = simulator.step(action).achieved_goal
        hold(emulator, actions[action], 12)
        np.testing.assert_array_equal(achieved, cell_in_memory(emulator.getRAM()))
        hold(emulator, actions[action], 1)
        assert tuple(map(int, achieved)) in known_cells().standing


def test_a_position_lies_in_the_cell_that_covers_most_of_it() -> None:
    for horizontal in range(12, 165):
        for vertical in range(2, 159):
            row, column = cell_of(horizontal, vertical)
            top, bottom, left, right = cell_borders(row, column)
            height = min(bottom, vertical + 11) - max(top, vertical + 1)
            width = min(right, horizontal - 4) - max(left, horizontal - 12)
            assert height >= 5, "no less than half of the box"
            assert width >= 4, "no less than half of the box, or all of the column that is 4 wide"


def test_in_a_tunnel_she_is_where_most_of_her_is() -> None:
    assert cell_of(168, 50) == (4, 18), "half of the box each"
    assert cell_of(169, 50) == (4, 0)
    assert cell_of(12, 50) == (4, 0)


def test_a_lost_life_ends_the_episode(simulator: MsPacman, emulator: Any, actions: list[Any]) -> None:
    generator = np.random.default_rng(0)
    observed = simulator.reset(seed_that_starts_with(LEFT))
    hold(emulator, actions[LEFT], 13)
    for _ in range(100):
        action = generator.integers(4)
        observed = simulator.step(action)
        hold(emulator, actions[action], 13)
        assert observed.over == (emulator.lives() < LIVES)
        if observed.over:
            break
    assert observed.over, "with this seed a ghost catches her"
    assert not simulator.reset(0).over


def test_a_goal_is_marked_in_the_picture(simulator: MsPacman) -> None:
    simulator.reset(0)
    pictures = [simulator.picture(np.array(goal, np.float32)) for goal in ((0, 0), (13, 18))]
    assert pictures[0].shape == (420, 480, 3)
    changed = np.argwhere((pictures[0] != pictures[1]).any(axis=2))
    np.testing.assert_array_equal(changed.min(axis=0), [0, 0])
    np.testing.assert_array_equal(changed.max(axis=0), [2 * 168 - 1, 479])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(HindsightError, match=r"^Ms. Pac-man needs ale-py: pip install 'hindsight-rl\[atari\]'.$"):
        MsPacman()


def test_a_missing_game_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    with pytest.raises(HindsightError, match=r"^The game file of Ms. Pac-man cannot be loaded \(.*reinstall ale-py"):
        MsPacman()


def test_a_damaged_game_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ms_pacman.bin").write_bytes(b"no game")
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    with pytest.raises(HindsightError, match="The game file of Ms"):
        MsPacman()
