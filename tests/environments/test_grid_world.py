"""Facts of the grid worlds: layouts, walls, slips, best possible returns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.compilation import quick_jit
from reference.dynamic_programming import best_returns, table_of_moves
from scipy.stats import chisquare

from hindsight_rl.environments.grid_world import GridWorld, empty_room, four_rooms
from hindsight_rl.environments.registry import make

CORNERS = {(0, 0), (0, 10), (10, 0), (10, 10)}
DOORS = {(5, 1), (2, 5), (6, 8), (9, 5)}
UP, DOWN, LEFT, RIGHT = range(4)


def four_rooms_walls() -> np.ndarray:
    """The layout in words: column 5, the left half of row 5, the right half of row 6; four doors."""
    walls = np.zeros((11, 11), bool)
    walls[:, 5] = True
    walls[5, :5] = True
    walls[6, 6:] = True
    for door in DOORS:
        walls[door] = False
    return walls


def plain_move(walls: np.ndarray, cell: np.ndarray, action: int) -> tuple[int, int]:
    down, right = [(-1, 0), (1, 0), (0, -1), (0, 1)][action]
    row, column = cell[0] + down, cell[1] + right
    outside = row < 0 or column < 0 or row >= walls.shape[0] or column >= walls.shape[1]
    return tuple(cell) if outside or walls[row, column] else (row, column)


def free_cells(walls: np.ndarray) -> np.ndarray:
    return np.argwhere(~walls).astype(np.int32)


def test_four_rooms_layout() -> None:
    environment = make("four-rooms")
    assert isinstance(environment, GridWorld)
    np.testing.assert_array_equal(environment.walls, four_rooms_walls())
    assert np.sum(~environment.walls) == 104
    assert {tuple(cell) for cell in environment.starts} == CORNERS
    assert {tuple(cell) for cell in environment.goals} == {tuple(c) for c in free_cells(environment.walls)} - CORNERS
    assert environment.goal_count == 100
    assert environment.state_limit == 104
    assert (environment.horizon, environment.slip, environment.action_count) == (32, 0.2, 4)


def test_four_rooms_start_in_each_corner_alike() -> None:
    starts = np.asarray(quick_jit(jax.vmap(four_rooms().reset))(jax.random.split(jax.random.key(3), 400))).tolist()
    counts = [starts.count(list(corner)) for corner in sorted(CORNERS)]
    assert sum(counts) == 400
    assert chisquare(counts).pvalue > 1e-3


def test_empty_room_layout() -> None:
    environment = make("empty-room")
    assert isinstance(environment, GridWorld)
    assert environment.walls.shape == (11, 11)
    assert not environment.walls.any()
    assert environment.starts.tolist() == [[0, 0]]
    assert environment.goal_count == 120
    assert (environment.horizon, environment.slip) == (32, 0)


def test_a_large_empty_room_has_time_for_its_far_corner() -> None:
    assert empty_room(20).horizon == 40
    assert empty_room(16).horizon == 32


@pytest.mark.parametrize("environment", [empty_room(), four_rooms(slip=0)], ids=["empty room", "four rooms"])
def test_moves_go_one_cell_or_stop_at_walls_and_borders(environment: GridWorld) -> None:
    cells = free_cells(environment.walls)
    moves = table_of_moves(environment, cells)
    expected = [[plain_move(environment.walls, cell, action) for action in range(4)] for cell in cells]
    np.testing.assert_array_equal(cells[moves], expected)


def test_one_action_in_five_is_replaced_by_any_of_the_four() -> None:
    """So 0.2 * 3/4 of all moves go elsewhere. Chi-square over 20000 steps with a fixed seed."""
    environment = four_rooms()
    cell = jnp.array([2, 2], jnp.int32)
    keys = jax.random.split(jax.random.key(8), 20000)
    landed = np.asarray(quick_jit(jax.vmap(environment.step, in_axes=(None, None, 0)))(cell, UP, keys))
    moves = [tuple(move) for move in (landed - np.asarray(cell)[None]).tolist()]
    counts = [moves.count(move) for move in [(-1, 0), (1, 0), (0, -1), (0, 1)]]
    assert sum(counts) == 20000
    assert chisquare(counts, np.array([0.85, 0.05, 0.05, 0.05]) * 20000).pvalue > 1e-3
    assert abs(1 - counts[0] / 20000 - 0.15) < 4 * np.sqrt(0.15 * 0.85 / 20000)


def test_a_slip_of_one_ignores_the_action() -> None:
    environment = four_rooms(slip=1)
    keys = jax.random.split(jax.random.key(8), 50)
    step = quick_jit(jax.vmap(environment.step, in_axes=(None, None, 0)))
    cell = jnp.array([2, 2], jnp.int32)
    np.testing.assert_array_equal(step(cell, UP, keys), step(cell, RIGHT, keys))


def mean_best_return(environment: GridWorld, without_slip: GridWorld) -> float:
    cells = free_cells(environment.walls)
    position = {tuple(cell): number for number, cell in enumerate(cells)}
    goals = np.array([position[tuple(goal)] for goal in environment.goals])
    starts = [position[tuple(start)] for start in environment.starts]
    moves = table_of_moves(without_slip, cells)
    return float(best_returns(moves, goals, environment.slip, environment.horizon)[:, starts].mean())


def test_best_possible_return_of_the_empty_room() -> None:
    room = empty_room()
    assert round(mean_best_return(room, room), 3) == 21.917


def test_best_possible_return_of_four_rooms() -> None:
    """At most 18.84, for a policy that may depend on time."""
    assert round(mean_best_return(four_rooms(), four_rooms(slip=0)), 2) == 18.84


def test_start_cells_and_walls_are_no_goals() -> None:
    corner, wall, door = [0.0, 0.0], [0.0, 5.0], [2.0, 5.0]
    probabilities = quick_jit(jax.vmap(four_rooms().goal_probability))(jnp.array([corner, wall, door]))
    np.testing.assert_allclose(probabilities, [0, 0, 0.01], rtol=1e-6)


def test_picture_marks_agent_goal_and_both() -> None:
    environment = GridWorld("S.#\n...")
    assert environment.render(np.array([0, 0]), np.array([1.0, 2.0])) == "A.#\n..G"
    assert environment.render(np.array([1, 2]), np.array([1.0, 2.0])) == "..#\n..*"
