"""FetchPush: a robot arm pushes a block over a table to a given place."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hindsight_rl.environments.extras import import_gymnasium, import_robotics
from hindsight_rl.environments.goal_pictures import draw
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.interface import remaining_time_reward
from hindsight_rl.environments.simulators import Observed, Simulator, SimulatorSource

ENVIRONMENT = "FetchPush-v4"
"""Earlier versions have a faulty reset."""

CHANGES = tuple((size * x, size * y) for size in (0.1, 1.0) for x, y in ((1, 0), (0, 1), (-1, 0), (0, -1)))
"""What each action adds to the desired velocity of the gripper along x and y."""

TOLERANCE = 0.05
"""How near to its goal the block must come, in metres."""

CENTRE = (1.36313, 0.74910, 0.42489)
"""Goals are drawn from a square on the table around the place above which the gripper starts."""
REACH = (0.1501, 0.1501, 0.01)
"""How far from there a place is a goal in each direction; a block that lies on the table is never quite still."""

FINGERS = ("robot0:r_gripper_finger_joint", "robot0:l_gripper_finger_joint")
"""The joints of the robot whose positions and velocities an observation holds."""


class FetchPushTask(HostedTask):
    """The paper's FetchPush: 50 states of 28 numbers, eight actions, and places on the table as goals.

    An observation holds the simulator's 25 numbers (positions of gripper and block and of the block relative to the
    gripper, the fingers, the block's rotation, all their velocities), then the desired velocity of the gripper along
    x, y and z; the last one is always zero.
    """

    name: str = "FetchPush"
    horizon: int = 50
    observation_shape: tuple[int, ...] = (28,)
    observation_type: str = "float32"
    goal_shape: tuple[int, ...] = (3,)
    action_count: int = len(CHANGES)
    goal_count: int = 1

    def source(self, pictures: bool = False) -> SimulatorSource:
        return SimulatorSource(__name__, "FetchPush")

    def goal_probability(self, goal: Float[Array, "3"]) -> Float[Array, ""]:
        """One for every place that can be a goal, as they are all as likely: a density needs no unit here."""
        return jnp.all(jnp.abs(goal - jnp.array(CENTRE)) <= jnp.array(REACH)).astype(jnp.float32)

    def reached(self, achieved: Float[Array, "3"], goal: Float[Array, "3"]) -> Bool[Array, ""]:
        return jnp.linalg.norm(achieved - goal) < TOLERANCE

    def reward(self, achieved: Float[Array, "3"], goal: Float[Array, "3"], time: Int[Array, ""]) -> Float[Array, ""]:
        return remaining_time_reward(self.reached(achieved, goal), time, self.horizon)


def fetch_push() -> FetchPushTask:
    """The task, or a sentence on what must be installed first."""
    import_robotics()
    return FetchPushTask()


class FetchPush(Simulator):
    """One physics engine. The gripper gets a desired velocity, which actions change and which lies within [-1, 1]."""

    def __init__(self) -> None:
        import_robotics()
        made = import_gymnasium().make(ENVIRONMENT, render_mode="rgb_array", disable_env_checker=True)
        # Its wrappers count and check steps, which the rollout and the tests do.
        self._environment = made.unwrapped
        # It looks up all fifteen joints one by one, a sixth of the time of a step, and shows the two of the fingers.
        names = self._environment._model_names
        names._joint_names = [name for name in names.joint_names if name in FINGERS]
        self._velocity = np.zeros(3)

    def reset(self, seed: int) -> Observed:
        self._velocity = np.zeros(3)
        return self._observed(self._environment.reset(seed=seed)[0])

    def sample_goal(self, seed: int) -> np.ndarray:
        """The goal that the simulator itself drew when the episode began; the seed of the episode has decided it."""
        return self._environment.goal.astype(np.float32)

    def step(self, action: np.ndarray) -> Observed:
        self._velocity[:2] = np.clip(self._velocity[:2] + CHANGES[int(action)], -1, 1)
        controls = np.array([*self._velocity, 0], np.float32)
        return self._observed(self._environment.step(controls)[0])

    def picture(self, goal: np.ndarray) -> np.ndarray:
        return draw(self._environment, "FetchPush", np.asarray(goal))

    def close(self) -> None:
        self._environment.close()

    def _observed(self, seen: dict[str, np.ndarray]) -> Observed:
        observation = np.concatenate([seen["observation"], self._velocity]).astype(np.float32)
        return Observed(observation, seen["achieved_goal"].astype(np.float32))
