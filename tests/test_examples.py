"""The examples do what they say."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import hindsight_rl

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_training_loop_example_learns(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "own_training_loop.py"), run_name="__main__")
    rates = [float(line.split(": ")[1].split("%")[0]) for line in capsys.readouterr().out.splitlines()]
    assert rates[0] < 50
    assert rates[-1] > 90


def test_the_custom_environment_can_be_learned_and_drawn() -> None:
    """Half of the example's own job, with a fixed seed."""
    ring = runpy.run_path(str(EXAMPLES / "custom_environment.py"))["Ring"]()
    result = hindsight_rl.train(ring, method="hpg", batch_size=4, batches=150, evaluate_every=150, runs=2)
    before, after = result.evaluations.mean_returns.mean(axis=0)
    assert after > before + 1.5
    assert ring.render(3, [3.0]).count("*") == 1
    assert len((EXAMPLES / "custom_environment.py").read_text().splitlines()) < 60


@pytest.mark.parametrize("kind", ["PointRobot", "DiscretePointRobot"])
def test_the_robot_draws_itself_and_its_goal(kind: str) -> None:
    gymnasium_goal = pytest.importorskip("hindsight_rl.environments.gymnasium.simulator").GymnasiumGoal
    robot = gymnasium_goal(runpy.run_path(str(EXAMPLES / "point_robot.py"))[kind], {}, pictures=True)
    robot.reset(0)
    colours = np.unique(robot.picture(robot.sample_goal(0)).reshape(-1, 3), axis=0).tolist()
    assert sorted(colours) == [[40, 80, 200], [220, 60, 60], [255, 255, 255]]


def test_the_example_map_is_a_map() -> None:
    assert hindsight_rl.make(f"grid:{EXAMPLES / 'maze.txt'}").horizon == 40
