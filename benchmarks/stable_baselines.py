"""stable-baselines3's DQN with its hindsight replay buffer, driven so that a clock can be stopped in between."""

import time
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from measured import need
from replay_contestants import (
    CAPACITY,
    DISCOUNT,
    EPISODES,
    EPSILON,
    GOALS,
    HIDDEN,
    REPLAY_RATE,
    Arena,
    Contestant,
    Rewards,
)

import hindsight_rl.environments.as_gymnasium  # noqa: F401  (registers the names)
from hindsight_rl.environments.registry import make_compiled
from hindsight_rl.rollout.compiled import play

STEPS_BETWEEN_TARGETS = 500
"""Actions between copies of the target network where a gradient step follows every action."""
FIRST_STEPS = 100
"""Random actions before learning starts there."""
NEVER = 10**12


class TimedEnvironment(gymnasium.Wrapper):
    """Adds up the seconds spent inside an environment, and judges goals with NumPy.

    Each call of a compiled function costs many times what it computes here. Those of `reset` and `step` are counted, so
    that they can be taken off; relabelling, which asks for rewards all the time, is spared them.
    """

    def __init__(self, environment: gymnasium.Env, horizon: int, rewards: Rewards):
        super().__init__(environment)
        self.seconds = 0.0
        self._horizon, self._rewards = horizon, rewards

    def reset(self, **options: Any) -> Any:
        """Begin an episode."""
        began = time.perf_counter()
        result = super().reset(**options)
        self.seconds += time.perf_counter() - began
        return result

    def step(self, action: Any) -> Any:
        """Take an action."""
        began = time.perf_counter()
        observation, reward, terminated, truncated, info = super().step(action)
        self.seconds += time.perf_counter() - began
        if self._rewards == "steps":
            reward = float(terminated) - 1
        return observation, reward, terminated, truncated, info

    def compute_reward(self, achieved: np.ndarray, goals: np.ndarray, infos: Any) -> np.ndarray:
        """The remaining time where the goal is achieved, or -1 wherever it is not."""
        reached = (achieved == goals).all(axis=-1)
        if self._rewards == "steps":
            return reached.astype(np.float32) - 1
        times = np.fromiter((info["time"] for info in infos), np.float32, len(infos))
        return np.where(reached, self._horizon - times, 0).astype(np.float32)


class StableBaselines:
    """A learner. `train` and `evaluate` take turns; only the first should be timed."""

    compilation = 0.0

    def __init__(self, arena: Arena, contestant: Contestant, seed: int, evaluation_episodes: int = 256):
        library, her = need("stable_baselines3"), need("stable_baselines3.her.her_replay_buffer")
        self._environment = make_compiled(arena.name)
        horizon = self._environment.horizon
        environment = gymnasium.make(arena.gymnasium, disable_env_checker=True)
        self._timed = TimedEnvironment(environment, horizon, contestant.rewards)
        self._cycles = contestant.schedule == "cycles"
        self.model: Any = library.DQN(
            "MultiInputPolicy",
            self._timed,
            learning_rate=REPLAY_RATE,
            buffer_size=CAPACITY // (GOALS + 1),
            learning_starts=0 if self._cycles else FIRST_STEPS,
            batch_size=contestant.minibatch,
            gamma=DISCOUNT,
            train_freq=(EPISODES, "episode") if self._cycles else (1, "step"),
            gradient_steps=arena.gradient_steps if self._cycles else 1,
            target_update_interval=NEVER if self._cycles else STEPS_BETWEEN_TARGETS,
            exploration_initial_eps=EPSILON,
            exploration_final_eps=EPSILON,
            replay_buffer_class=her.HerReplayBuffer,
            replay_buffer_kwargs={
                "n_sampled_goal": GOALS,
                "goal_selection_strategy": "future",
                # The remaining time is in the info.
                "copy_info_dict": contestant.rewards == "remaining",
            },
            policy_kwargs={"net_arch": list(HIDDEN)},
            seed=seed,
            device="cpu",
        )
        _, self._callback = self.model._setup_learn(NEVER, None, True, "run", False)
        self._evaluate = jax.jit(self._play, static_argnums=2)
        self._seed, self._evaluation_episodes = seed, evaluation_episodes

    @property
    def episodes(self) -> int:
        """Finished so far."""
        return int(self.model._episode_num)

    @property
    def gradient_steps(self) -> int:
        """Done so far."""
        return int(self.model._n_updates)

    @property
    def seconds_in_environment(self) -> float:
        """Spent in `reset` and `step` so far."""
        return self._timed.seconds

    def train(self, more: int) -> None:
        """Play so many more episodes at least, and learn: the body of the library's own `learn`."""
        target = self.episodes + more
        while self.episodes < target:
            self.collect()
            if self.model.num_timesteps > self.model.learning_starts:
                self.learn(self.model.gradient_steps)

    def collect(self) -> None:
        """Play one cycle of episodes, or take one action."""
        model = self.model
        model.collect_rollouts(
            model.env,
            train_freq=model.train_freq,
            callback=self._callback,
            learning_starts=model.learning_starts,
            replay_buffer=model.replay_buffer,
        )

    def learn(self, gradient_steps: int) -> None:
        """Take gradient steps."""
        if self._cycles:
            # As ours: the target network is the network at the start of the cycle.
            self.model.q_net_target.load_state_dict(self.model.q_net.state_dict())
        self.model.train(batch_size=self.model.batch_size, gradient_steps=gradient_steps)

    def evaluate(self) -> tuple[float, float]:
        """Mean return and success rate of greedy episodes, played by our compiled rollout."""
        key = jax.random.fold_in(jax.random.key(self._seed), self.episodes)
        returns, successes = self._evaluate(self.layers(), key, self._evaluation_episodes)
        return float(jnp.mean(returns)), float(jnp.mean(successes))

    def layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weights and biases of the Q-network, layer by layer."""
        arrays = [parameter.detach().numpy().copy() for parameter in self.model.q_net.q_net.parameters()]
        return [(weight.T, bias) for weight, bias in zip(arrays[::2], arrays[1::2], strict=True)]

    def _play(self, layers: list[Any], key: jax.Array, episodes: int) -> tuple[jax.Array, jax.Array]:
        def exploit(observations: jax.Array, goals: jax.Array, now: jax.Array) -> jax.Array:
            # In both environments a state achieves what it shows.
            shown = {"observation": observations, "achieved_goal": observations, "desired_goal": goals}
            return jnp.argmax(action_values(layers, [shown[part] for part in self.model.observation_space]), axis=1)

        outcomes = play(self._environment, exploit, episodes, key)
        return outcomes.returns, outcomes.successes


def action_values(layers: list[Any], parts: list[Any]) -> jax.Array:
    """What the library's network computes, from its weights."""
    rows = jnp.concatenate(parts, axis=1)
    for number, (weight, bias) in enumerate(layers):
        rows = (rows if number == 0 else jax.nn.relu(rows)) @ weight + bias[None]
    return rows
