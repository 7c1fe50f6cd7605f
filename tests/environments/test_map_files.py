"""Maps of one's own: what a file may say, and what is said of a wrong one."""

from pathlib import Path

import pytest

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.grid_world import GridWorld, empty_room, parse_map_file
from hindsight_rl.environments.registry import make


def test_a_map_file_with_header_and_comments() -> None:
    environment = parse_map_file("; a corridor\n\nslip: 0.25\nhorizon: 7\n\n#####\n#S..#\n#####\n")
    assert (environment.slip, environment.horizon) == (0.25, 7)
    assert environment.walls.shape == (3, 5)
    assert environment.starts.tolist() == [[1, 1]]
    assert environment.goals.tolist() == [[1, 2], [1, 3]]


def test_the_header_is_optional() -> None:
    environment = parse_map_file("S.\n..")
    assert (environment.slip, environment.horizon, environment.goal_count) == (0, 32, 3)


def test_line_endings_and_trailing_blanks_do_not_matter() -> None:
    assert parse_map_file("slip: 0.1\r\nS.  \r\n..\r\n").walls.shape == (2, 2)


WRONG_MAPS = {
    "empty": ("", "The map is empty"),
    "header only": ("slip: 0.1\n", "The map is empty"),
    "no free cell": ("###\n###", "no free cell"),
    "no start": ("...\n###", "no start cell"),
    "no goal": ("S##\n###", "no goal cell"),
    "ragged lines": ("S..\n...\n..", "line 1 has 3 cells, line 3 has 2"),
    "unknown character": ("S.x", "The map holds 'x'"),
    "unreachable goal": ("S.#.", "goal in row 0, column 3 cannot be reached from the start in row 0, column 0"),
    "unreachable from one start": (
        "S.#S",
        "goal in row 0, column 1 cannot be reached from the start in row 0, column 3",
    ),
    "goal too far": ("horizon: 3\nS...", "row 0, column 3 is 3 steps away .* a horizon of 3 allows 2"),
    "slip no number": ("slip: often\nS.", "slip to 'often', which is not a number"),
    "slip empty": ("slip:\nS.", "slip to '', which is not a number"),
    "slip too large": ("slip: 1.5\nS.", "between 0 and 1, not 1.5"),
    "slip negative": ("slip: -0.5\nS.", "between 0 and 1, not -0.5"),
    "slip not finite": ("slip: nan\nS.", "between 0 and 1, not nan"),
    "horizon no number": ("horizon: soon\nS.", "horizon to 'soon'"),
    "horizon no whole number": ("horizon: 7.5\nS.", "horizon to '7.5'"),
    "horizon too short": ("horizon: 1\nS.", "at least 2 time steps, not 1"),
    "unknown header": ("speed: 3\nS.", "'slip' and 'horizon', not 'speed'"),
}


@pytest.mark.parametrize(("text", "message"), WRONG_MAPS.values(), ids=WRONG_MAPS)
def test_a_wrong_map_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(HindsightError, match=message):
        parse_map_file(text)


def test_the_goal_that_can_just_be_reached_is_allowed() -> None:
    assert parse_map_file("horizon: 4\nS...").goal_count == 3


@pytest.mark.parametrize("slip", [-0.1, 1.1, float("nan")])
def test_an_impossible_slip_is_refused(slip: float) -> None:
    with pytest.raises(HindsightError, match=f"between 0 and 1, not {slip}"):
        GridWorld("S.", slip=slip)


@pytest.mark.parametrize("size", [1, 0, -4])
def test_a_room_needs_two_cells(size: int) -> None:
    with pytest.raises(HindsightError, match=f"at least 2 cells wide, not {size}"):
        empty_room(size)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(HindsightError, match=r"'.*nowhere.txt' cannot be read: No such file"):
        make(f"grid:{tmp_path / 'nowhere.txt'}")


def test_a_folder_is_no_map(tmp_path: Path) -> None:
    with pytest.raises(HindsightError, match="cannot be read"):
        make("grid", map=str(tmp_path))


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(HindsightError, match=r"'.*picture.png' is not text"):
        make("grid", map=str(path))
