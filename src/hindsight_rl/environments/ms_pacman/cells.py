"""Which cells of the overlay Ms. Pac-man can stand on: a search over states of the emulator.

    python -m hindsight_rl.environments.ms_pacman.cells [FILE]

searches, prints the map and writes it as JSON; the result is kept beside this file as `cells.json`.

The search is breadth first over the environment's own steps: from every state found so far, each of the four actions
is held for 13 ticks from a restored emulator. A state leads on only if her position is one at which fewer than a few
states were met before; several states for each position, because at the first one a ghost may be about to catch her.
The search ends by itself, when no position is new. Every tick counts for where she can be; only what an agent sees
after an action counts for how many actions a cell takes.
"""

import argparse
import json
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hindsight_rl.environments.extras import import_ale
from hindsight_rl.environments.ms_pacman.game import (
    ACTIONS,
    COLUMN_EDGES,
    FROZEN_TICKS,
    HORIZONTAL_BYTE,
    LIVES,
    ROW_EDGES,
    TICK_SEEN,
    TICKS,
    VERTICAL_BYTE,
    cell_of,
    hold,
    open_emulator,
)

Position = tuple[int, int]
"""Horizontal, vertical, as in the console's memory."""
Cell = tuple[int, int]
"""Row, column."""

WALL, FREE, START = "#", ".", "s"
STATES_PER_POSITION = 3
LARGEST_STEP = 2
"""She moves by one or two pixels a tick."""


@dataclass
class Search:
    """What has been found so far."""

    start: Position
    positions: set[Position] = field(default_factory=set)
    """Where she was at any tick."""
    fewest_actions: dict[Cell, int] = field(default_factory=dict)
    """For each cell in which an action ended, how few actions it took; 0 for where an episode can start."""
    states: int = 0
    """From how many states all four actions were tried."""

    @property
    def cells(self) -> set[Cell]:
        """The cells that she can be in."""
        return {cell_of(*position) for position in self.positions}

    def start_passage(self) -> set[Cell]:
        """The cells between where the game puts her and the first junction on either side, junctions included."""
        cells = set()
        for direction in (-1, 1):
            position: Position | None = self.start
            while position is not None:
                cells.add(cell_of(*position))
                position = None if self._is_junction(position) else self._next(position, direction)
        return cells

    def _next(self, position: Position, direction: int) -> Position | None:
        ahead = ((position[0] + direction * pixels, position[1]) for pixels in range(1, LARGEST_STEP + 1))
        return next((place for place in ahead if place in self.positions), None)

    def _is_junction(self, position: Position) -> bool:
        sideways = (pixels * sign for pixels in range(1, LARGEST_STEP + 1) for sign in (-1, 1))
        return any((position[0], position[1] + pixels) in self.positions for pixels in sideways)


def search(states_per_position: int = STATES_PER_POSITION, most_states: int | None = None) -> Search:
    """Explore until nothing is new, or from at most so many states."""
    emulator = open_emulator()
    actions = [getattr(import_ale().Action, name) for name in ACTIONS]
    found = Search(start=_position(emulator))
    hold(emulator, actions[0], FROZEN_TICKS + TICKS)
    met: Counter[Position] = Counter()
    # The random action with which an episode begins is not counted, so the first states are one action too early.
    queue = deque([(emulator.cloneState(), -1)])
    while queue and (most_states is None or found.states < most_states):
        state, taken = queue.popleft()
        found.states += 1
        for action in actions:
            emulator.restoreState(state)
            walked = _walk(emulator, action)
            found.positions.update(walked)
            if len(walked) < TICKS:
                continue
            found.fewest_actions.setdefault(cell_of(*walked[TICK_SEEN - 1]), taken + 1)
            if met[walked[-1]] < states_per_position:
                met[walked[-1]] += 1
                queue.append((emulator.cloneState(), taken + 1))
    return found


def draw(found: Search) -> list[str]:
    """The overlay as text: `.` where she can stand, `s` for the passage in which she starts, `#` elsewhere."""
    cells, passage = found.cells, found.start_passage()
    rows, columns = range(len(ROW_EDGES)), range(len(COLUMN_EDGES))

    def sign(cell: Cell) -> str:
        return START if cell in passage else FREE if cell in cells else WALL

    return ["".join(sign((row, column)) for column in columns) for row in rows]


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, print, write."""
    parser = argparse.ArgumentParser(description="Find the cells of the overlay that Ms. Pac-man can stand on.")
    parser.add_argument("file", nargs="?", type=Path, default=Path(__file__).with_suffix(".json"))
    path = parser.parse_args(arguments).file
    found = search()
    lines = draw(found)
    print("\n".join(lines))
    most = max(found.fewest_actions.values())
    goals = len(found.cells) - len(found.start_passage())
    print(f"{len(found.cells)} cells, {goals} of them goals; {found.states} states searched; at most {most} actions.")
    path.write_text(_as_json(lines, found) + "\n")


def _as_json(lines: list[str], found: Search) -> str:
    """One line of the file for each row of the overlay."""
    counts = [
        [found.fewest_actions.get((row, column)) for column in range(len(line))] for row, line in enumerate(lines)
    ]
    parts: dict[str, list[Any]] = {"map": lines, "fewest_actions": counts}
    texts = (f'"{name}": [\n' + ",\n".join(map(json.dumps, content)) + "\n]" for name, content in parts.items())
    return "{\n" + ",\n".join(texts) + "\n}"


def _walk(emulator: Any, action: Any) -> list[Position]:
    """Hold an action; her position at each tick, fewer than usual if she loses a life."""
    positions = []
    for _ in range(TICKS):
        emulator.act(action)
        if emulator.lives() < LIVES:
            break
        positions.append(_position(emulator))
    return positions


def _position(emulator: Any) -> Position:
    memory = emulator.getRAM()
    return int(memory[HORIZONTAL_BYTE]), int(memory[VERTICAL_BYTE])


if __name__ == "__main__":
    main()
