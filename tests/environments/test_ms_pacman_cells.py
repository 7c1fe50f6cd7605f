"""The search for cells that Ms. Pac-man can stand on, and what it found."""

import json
from collections import deque
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from hindsight_rl.environments.ms_pacman import cells as ms_pacman_cells
from hindsight_rl.environments.ms_pacman.cells import Search, draw, search
from hindsight_rl.environments.ms_pacman.game import known_cells

pytest.importorskip("ale_py")


def kept() -> dict[str, list[Any]]:
    return json.loads((files("hindsight_rl.environments.ms_pacman") / "cells.json").read_text())


@pytest.fixture(scope="module")
def part() -> Search:
    """The first states of the search."""
    return search(states_per_position=1, most_states=120)


def test_the_published_number_of_goals() -> None:
    assert len(known_cells().standing) == 160
    assert len(known_cells().goals) == 155


def test_the_maze_is_the_same_from_left_to_right() -> None:
    assert [row[::-1] for row in kept()["map"]] == kept()["map"]


def test_the_maze_is_connected() -> None:
    cells = set(known_cells().standing)
    start = (8, 9)
    seen, queue = {start}, deque([start])
    while queue:
        row, column = queue.popleft()
        # The tunnels join the left and the right side.
        neighbours = ((row + 1, column), (row - 1, column), (row, (column + 1) % 19), (row, (column - 1) % 19))
        for cell in neighbours:
            if cell in cells - seen:
                seen.add(cell)
                queue.append(cell)
    assert seen == cells


def test_every_goal_can_be_reached_within_the_horizon() -> None:
    counts = kept()["fewest_actions"]
    fewest = [counts[row][column] for row, column in known_cells().goals]
    assert min(fewest) >= 1
    assert max(fewest) <= 27


def test_a_part_of_the_search_finds_known_cells(part: Search) -> None:
    assert len(part.cells) > 25
    assert part.cells <= set(known_cells().standing)
    assert part.start_passage() == set(known_cells().standing) - set(known_cells().goals)
    for (row, column), actions in part.fewest_actions.items():
        assert kept()["fewest_actions"][row][column] == actions, "breadth first: what is found first is nearest"


def test_the_command_prints_and_writes_what_it_found(
    part: Search, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ms_pacman_cells, "search", lambda: part)
    ms_pacman_cells.main([str(tmp_path / "cells.json")])
    written = json.loads((tmp_path / "cells.json").read_text())
    assert written["map"] == draw(part)
    printed = capsys.readouterr().out
    assert printed.startswith("\n".join(draw(part)))
    assert f"{len(part.cells)} cells, {len(part.cells) - 5} of them goals; 120 states searched" in printed


@pytest.mark.slow
def test_the_whole_search_finds_what_is_kept(tmp_path: Path) -> None:
    ms_pacman_cells.main([str(tmp_path / "cells.json")])
    assert json.loads((tmp_path / "cells.json").read_text()) == kept()
