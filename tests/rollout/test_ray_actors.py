"""Workers as actors of a real Ray: the same episodes whatever their number, and after one of them is lost."""

import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import pytest
from reference.goal_environments import Line
from reference.hosted_bits import hosted_bits

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.gymnasium.task import gymnasium_task
from hindsight_rl.rollout.actors import Player, RayActors, _told
from hindsight_rl.rollout.crew import BEGIN, Order
from hindsight_rl.rollout.hosted import layout_of

TESTS = Path(__file__).parent.parent
_ORDER = Order(BEGIN, [0]).pack()
FIRST = len(_ORDER).to_bytes(4, "little") + _ORDER + bytes(16)
"""An order to begin an episode, with its seeds."""
PLAYED = """
import os, sys
import jax
from rollout.test_hosted_rollout import BITS, KEY, POLICY, assert_same, compiled_episodes
from reference.hosted_bits import hosted_bits
from reference.hosted_bits import hosted_bits

from hindsight_rl.experiments.cluster.connection import connected
from hindsight_rl.rollout.actors import RayActors
from hindsight_rl.rollout.hosted import collect_hosted, open_pool

def episodes(hands, notices, **trouble):
    task = hosted_bits(BITS, **trouble)
    with open_pool(task, 6, hands, notices.append) as pool:
        return collect_hosted(task, pool, jax.jit(POLICY.explore), 6, KEY)

mark = sys.argv[1]
with connected("ray") as cluster:
    notices = []
    machines = tuple(cluster.nodes.values())
    assert_same(episodes(RayActors(cluster.ray, 1, machines), notices), compiled_episodes())
    assert not notices, notices
    open(mark, "w").close()
    two = RayActors(cluster.ray, 2, machines)
    assert_same(episodes(two, notices, crash_file=mark, trouble="die"), compiled_episodes())
    assert not os.path.exists(mark)
    print(*notices, sep="\\n")
"""


def test_actors_play_the_same_episodes_also_when_one_is_lost(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, "-c", PLAYED, str(tmp_path / "crash")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    (lost,) = done.stdout.splitlines()
    assert lost.startswith("Worker ")
    assert lost.endswith("it is replaced and its episodes are played again.")


@pytest.mark.parametrize(
    ("count", "machines", "share"), [(2, (2,), 1.0), (3, (2,), 0.5), (3, (1, 1), 0.5), (32, (2,), 0.0625)]
)
def test_all_actors_find_a_place(count: int, machines: tuple[int, ...], share: float) -> None:
    actors = RayActors(None, count, machines)
    assert actors.share == share
    assert sum(int(held / actors.share) for held in machines) >= count


def test_other_versions_of_what_plays_are_refused_with_both_named() -> None:
    task = hosted_bits(3)
    told = _told(task.source(), layout_of(task), 2)

    older = told.replace(f'"jax": "{jax.__version__}"', '"jax": "0.1"')
    assert older != told
    assert Player(told).play(FIRST)[:1] == b"\0"
    assert f"jax {jax.__version__} there, 0.1 here" in Player(older).play(FIRST).decode()


def test_an_environment_that_cannot_be_made_is_named_with_the_machine() -> None:
    task = hosted_bits(3, unheard_of=1)
    said = Player(_told(task.source(), layout_of(task), 2)).play(FIRST).decode()
    assert said.startswith(f"\1On the machine '{socket.gethostname()}': The environment raised TypeError")


@pytest.mark.parametrize("made", ["environments.registered_lines:MoodyLine-v0", Line])
def test_environments_of_gymnasium_travel_by_name(made: Any) -> None:
    task = gymnasium_task(made, horizon=5)
    here = task.source().build().reset(0)
    answer = Player(_told(task.source(), layout_of(task), 2)).play(FIRST)
    assert answer.startswith(b"\0" + here.observation.tobytes() + here.achieved_goal.tobytes())


def test_what_is_no_name_does_not_travel() -> None:
    task = hosted_bits(3, trouble=secrets)
    with pytest.raises(HindsightError, match="names and numbers only"):
        _told(task.source(), layout_of(task), 2)
