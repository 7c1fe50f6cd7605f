"""Environments by name, and what is said of a wrong name."""

import json
from pathlib import Path

import pytest

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.grid_world import GridWorld
from hindsight_rl.environments.registry import ENVIRONMENTS, Specification, make, specify


@pytest.mark.parametrize("bits", [8, 16])
def test_a_number_behind_bit_flipping_is_the_number_of_bits(bits: int) -> None:
    for environment in (make(f"bit-flipping-{bits}"), make("bit-flipping", bits=bits)):
        assert isinstance(environment, BitFlipping)
        assert environment.bits == bits


def test_a_number_behind_empty_room_is_its_size() -> None:
    for environment in (make("empty-room-5"), make("empty-room", size=5)):
        assert isinstance(environment, GridWorld)
        assert environment.walls.shape == (5, 5)


def test_a_path_behind_grid_is_a_map_file(tmp_path: Path) -> None:
    path = tmp_path / "maze-2.txt"
    path.write_text("horizon: 5\nS..\n..#\n")
    for environment in (make(f"grid:{path}"), make("grid", map=str(path))):
        assert isinstance(environment, GridWorld)
        assert (environment.goal_count, environment.horizon) == (4, 5)


def test_options_reach_the_environment() -> None:
    environment = make("four-rooms", slip=0.5)
    assert isinstance(environment, GridWorld)
    assert environment.slip == 0.5


@pytest.mark.parametrize("name", ["bit-flipping-8", "bit-flipping-3", "empty-room", "empty-room-5", "four-rooms"])
def test_a_specification_survives_a_settings_file(name: str) -> None:
    specification = specify(name)
    assert specification.id == name
    saved = json.loads(json.dumps(dict(specification.options)))
    again = Specification(specification.name, saved).build()
    direct = make(name)
    assert type(again) is type(direct)
    assert (again.horizon, again.goal_count, again.action_count) == (
        direct.horizon,
        direct.goal_count,
        direct.action_count,
    )


def test_the_specification_of_a_map_holds_the_map_itself(tmp_path: Path) -> None:
    """So that a job can go on after its map file has moved or changed."""
    path = tmp_path / "maze.txt"
    path.write_text("S..\n..#\n")
    specification = specify(f"grid:{path}")
    path.unlink()
    assert specification.build().goal_count == 4
    assert specification.id == "grid:maze"
    assert specify("grid", text="S.", label="a\x1b b:c").id == "grid:a-b-c"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("bitflipping", "bit-flipping"),
        ("bit_flipping-8", "bit-flipping"),
        ("four-room", "four-rooms"),
        ("four-rooms-7", "four-rooms"),
        ("emptyroom", "empty-room"),
    ],
)
def test_an_unknown_name_is_told_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(HindsightError, match=f"no environment '{name}'. Did you mean '{nearest}'"):
        make(name)


def test_a_name_unlike_any_other_is_told_all_of_them() -> None:
    with pytest.raises(HindsightError) as caught:
        make("xyzzy")
    assert "Did you mean" not in str(caught.value)
    assert all(name in str(caught.value) for name in ENVIRONMENTS)


def test_an_unknown_option_is_told_the_nearest() -> None:
    with pytest.raises(HindsightError, match=r"no option 'bit' of bit-flipping\. Did you mean 'bits'"):
        make("bit-flipping", bit=8)
    with pytest.raises(HindsightError, match=r"no option 'bits' of four-rooms.*Known: slip"):
        make("four-rooms", bits=5)


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(HindsightError, match="'bit-flipping-8' already sets bits"):
        make("bit-flipping-8", bits=4)


def test_a_grid_needs_a_map() -> None:
    with pytest.raises(HindsightError, match="needs a map file"):
        make("grid")


def test_an_option_beside_a_map_is_refused_not_ignored(tmp_path: Path) -> None:
    path = tmp_path / "maze.txt"
    path.write_text("S..\n..#\n")
    with pytest.raises(HindsightError, match="no option 'slip' of grid"):
        make(f"grid:{path}", slip=0.5)
