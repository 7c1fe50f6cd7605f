"""What docs/policies.md shows, played with the robot of the zoo; and goals that a simulator did not draw."""

import json
import re
from pathlib import Path

import pytest
from small_jobs import sentence

from hindsight_rl.cli import main

PAGE = Path(__file__).parent.parent / "docs/policies.md"
pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_from_a_folder_to_an_acting_robot(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gymnasium_robotics")
    block = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    shown, count = re.subn(r'load\(".*?", checkpoint="best"\)', 'load("zoo:fetch-reach")', block)
    assert count == 1
    assert len(shown.strip().splitlines()) <= 10
    exec(compile(shown, str(PAGE), "exec"), {})
    assert float(capsys.readouterr().out) == 1


def test_a_simulator_plays_goals_of_the_users_own(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gymnasium_robotics")
    within, beyond = ["1.3", "0.7", "0.6"], ["9", "9", "9"]
    main(["evaluate", "zoo:fetch-reach", "--episodes", "4", "--workers", "1", "--json", "--goal", *within, *beyond])
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert [row["success_rate"] for row in run["goals"]] == [1, 0]
    assert run["goals"][1]["mean_return"] == -50


def test_a_simulator_is_filmed_not_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("gymnasium_robotics")
    drawing = tmp_path / "arm.gif"
    with pytest.raises(SystemExit) as stop:
        main(["render", "zoo:fetch-reach", "--output", str(drawing)])
    assert stop.value.code == 2
    # Where it is the first to import Gymnasium's robots, they may say something before.
    said = f"A simulator is filmed, not drawn: give --video FILE, not --output {drawing}."
    assert sentence(capsys.readouterr().err) == said
