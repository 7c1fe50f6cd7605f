"""Grid worlds: walk among walls to a given cell, with actions that may slip."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.finite import FiniteProblem, remaining_time_rewards, require_room_for_tables
from hindsight_rl.environments.interface import Environment, remaining_time_reward

Cell = Int[Array, "2"]
"""Row and column."""

MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""Up, down, left, right."""

FOUR_ROOMS = """\
S....#....S
.....#.....
...........
.....#.....
.....#.....
#.####.....
.....###.##
.....#.....
.....#.....
...........
S....#....S
"""


class GridWorld(Environment):
    """A walk on a grid: `#` wall, `.` free, `S` start (one is drawn uniformly).

    Goals are all free cells that are no start, with equal probability. With probability `slip` an action is replaced
    by a uniformly random one. Moving into a wall or off the map leaves the agent where it is.
    """

    rows: tuple[str, ...]
    """The lines of the map: plain text, so that the environment can be compared and hashed."""
    slip: float
    horizon: int
    action_count: int

    def __init__(self, text: str, slip: float = 0.0, horizon: int = 32):
        if not 0 <= slip <= 1:
            raise HindsightError(f"The slip probability must lie between 0 and 1, not {slip}.")
        if horizon < 2:
            raise HindsightError(f"The horizon must be at least 2 time steps, not {horizon}.")
        self.rows = _parse_rows(text)
        self.slip = float(slip)
        self.horizon = int(horizon)
        self.action_count = len(MOVES)
        _require_reachable_goals(self.walls, self.starts, self.goals, self.horizon)

    @property
    def walls(self) -> Bool[np.ndarray, "row column"]:
        """Where the walls are."""
        return self._cells == "#"

    @property
    def starts(self) -> Int[np.ndarray, "start 2"]:
        """The start cells."""
        return np.argwhere(self._cells == "S").astype(np.int32)

    @property
    def goals(self) -> Int[np.ndarray, "goal 2"]:
        """The goal cells."""
        return np.argwhere(self._cells == ".").astype(np.int32)

    @property
    def _cells(self) -> np.ndarray:
        return np.array([list(row) for row in self.rows])

    @property
    def goal_count(self) -> int:
        return len(self.goals)

    @property
    def state_limit(self) -> int | None:
        return len(self.goals) + len(self.starts)

    def reset(self, key: Key[Array, ""]) -> Cell:
        return jnp.asarray(self.starts)[jax.random.randint(key, (), 0, len(self.starts))]

    def step(self, state: Cell, action: Int[Array, ""], key: Key[Array, ""]) -> Cell:
        if self.slip > 0:
            slip_key, action_key = jax.random.split(key)
            slipped = jax.random.bernoulli(slip_key, self.slip)
            action = jnp.where(slipped, jax.random.randint(action_key, (), 0, self.action_count), action)
        target = state + jnp.asarray(MOVES, dtype=jnp.int32)[action]
        row, column = target
        rows, columns = self.walls.shape
        inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        free = inside & ~jnp.asarray(self.walls)[row % rows, column % columns]
        return jnp.where(free, target, state)

    def observe(self, state: Cell) -> Float[Array, "2"]:
        return state.astype(jnp.float32)

    def achieved_goal(self, state: Cell) -> Float[Array, "2"]:
        return state.astype(jnp.float32)

    def sample_goal(self, key: Key[Array, ""]) -> Float[Array, "2"]:
        chosen = jax.random.randint(key, (), 0, len(self.goals))
        return jnp.asarray(self.goals)[chosen].astype(jnp.float32)

    def goal_probability(self, goal: Float[Array, "2"]) -> Float[Array, ""]:
        is_goal = jnp.any(jnp.all(jnp.asarray(self.goals) == goal[None], axis=1))
        return jnp.where(is_goal, 1 / len(self.goals), 0.0)

    def reached(self, achieved: Float[Array, "2"], goal: Float[Array, "2"]) -> Bool[Array, ""]:
        return jnp.all(achieved == goal)

    def reward(self, achieved: Float[Array, "2"], goal: Float[Array, "2"], time: Int[Array, ""]) -> Float[Array, ""]:
        return remaining_time_reward(self.reached(achieved, goal), time, self.horizon)

    def finite_problem(self) -> FiniteProblem:
        """All free cells as tables, which grow with the square of their number."""
        cells = np.argwhere(~self.walls)
        require_room_for_tables(len(cells), len(self.goals), self.action_count, self.horizon)
        numbers = {tuple(cell): number for number, cell in enumerate(cells)}
        moves = np.zeros((len(cells), self.action_count, len(cells)))
        for number, cell in enumerate(cells):
            for action, move in enumerate(MOVES):
                moves[number, action, numbers.get(tuple(cell + move), number)] = 1
        slipped = moves.mean(axis=1, keepdims=True)
        is_start = (cells[:, None] == self.starts).all(axis=2).any(axis=1)
        reached = (cells[:, None] == self.goals).all(axis=2)
        probabilities = np.asarray(jax.vmap(self.goal_probability)(jnp.asarray(self.goals, jnp.float32)), np.float64)
        return FiniteProblem(
            observations=cells.astype(np.float64),
            goals=self.goals.astype(np.float64),
            start_probabilities=is_start / is_start.sum(),
            transition_probabilities=((1 - self.slip) * moves + self.slip * slipped)[None],
            goal_probabilities=probabilities / probabilities.sum(),
            rewards=remaining_time_rewards(reached, self.horizon),
            reached=reached,
        )

    def render(self, state: Cell, goal: Float[Array, "2"]) -> str:
        """The map with `A` for the agent, `G` for the goal and `*` for the agent on its goal."""
        picture = np.where(self.walls, "#", ".")
        agent, target = tuple(np.asarray(state, dtype=int)), tuple(np.asarray(goal, dtype=int))
        picture[target] = "G"
        picture[agent] = "*" if agent == target else "A"
        return "\n".join("".join(row) for row in picture)


def empty_room(size: int = 11) -> GridWorld:
    """The paper's empty room: no walls, every episode starts in the upper left corner."""
    if size < 2:
        raise HindsightError(f"An empty room must be at least 2 cells wide, not {size}.")
    rows = ["." * size] * size
    rows[0] = "S" + rows[0][1:]
    # The paper's 32 steps suit its 11x11 room; a larger one needs at least the way to its far corner.
    return GridWorld("\n".join(rows), horizon=max(32, 2 * size))


def four_rooms(slip: float = 0.2) -> GridWorld:
    """The paper's four rooms: starts in a random corner, four doors, and one action in five is replaced at random."""
    return GridWorld(FOUR_ROOMS, slip=slip)


def parse_map_file(text: str) -> GridWorld:
    """A grid world from a map file: optional lines `slip: 0.2` and `horizon: 32`, then the map."""
    options: dict[str, float] = {}
    lines = text.splitlines()
    while lines and (not lines[0].strip() or ":" in lines[0] or lines[0].startswith(";")):
        line = lines.pop(0)
        if not line.strip() or line.startswith(";"):
            continue
        name, _, value = (part.strip() for part in line.partition(":"))
        if name not in ("slip", "horizon"):
            raise HindsightError(f"A map file may set 'slip' and 'horizon', not '{name}'.")
        try:
            options[name] = int(value) if name == "horizon" else float(value)
        except ValueError:
            kind = "whole number" if name == "horizon" else "number"
            raise HindsightError(f"The map file sets {name} to '{value}', which is not a {kind}.") from None
    return GridWorld("\n".join(lines), slip=options.get("slip", 0.0), horizon=int(options.get("horizon", 32)))


def _parse_rows(text: str) -> tuple[str, ...]:
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    if not any(lines):
        raise HindsightError("The map is empty.")
    widths = [len(line) for line in lines]
    if len(set(widths)) > 1:
        odd = next(number for number, width in enumerate(widths, 1) if width != widths[0])
        raise HindsightError(
            f"The lines of the map differ in length: line 1 has {widths[0]} cells, line {odd} has {widths[odd - 1]}."
        )
    cells = np.array([list(line) for line in lines])
    strange = sorted(set(cells.ravel()) - set("#.S"))
    if strange:
        raise HindsightError(
            f"The map holds '{strange[0]}', but only '#' (wall), '.' (free) and 'S' (start) are known."
        )
    if not np.any(cells != "#"):
        raise HindsightError("The map has no free cell.")
    if not np.any(cells == "S"):
        raise HindsightError("The map has no start cell: mark at least one with 'S'.")
    if not np.any(cells == "."):
        raise HindsightError("The map has no goal cell: mark at least one free cell with '.'.")
    return tuple(lines)


def _require_reachable_goals(walls: np.ndarray, starts: np.ndarray, goals: np.ndarray, horizon: int) -> None:
    for start in starts:
        distances = _distances(walls, tuple(start))
        for goal in goals:
            distance = distances[tuple(goal)]
            if distance < 0:
                raise HindsightError(f"The goal {_name(goal)} cannot be reached from the start {_name(start)}.")
            if distance >= horizon:
                raise HindsightError(
                    f"The goal {_name(goal)} is {distance} steps away from the start {_name(start)}, "
                    f"but a horizon of {horizon} allows {horizon - 1}."
                )


def _name(cell: np.ndarray) -> str:
    return f"in row {cell[0]}, column {cell[1]}"


def _distances(walls: np.ndarray, start: tuple[int, ...]) -> np.ndarray:
    """Steps from the start to each cell, -1 where there is no way."""
    distances = np.full(walls.shape, -1)
    distances[start] = 0
    queue = deque([start])
    while queue:
        row, column = queue.popleft()
        for down, right in MOVES:
            cell = (row + down, column + right)
            inside = 0 <= cell[0] < walls.shape[0] and 0 <= cell[1] < walls.shape[1]
            if inside and not walls[cell] and distances[cell] < 0:
                distances[cell] = distances[row, column] + 1
                queue.append(cell)
    return distances
