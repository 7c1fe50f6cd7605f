"""What `benchmarks/hppo.py` compares: hindsight PPO and stable-baselines3's learners, of one size, doing as many steps.

Each plays 16 episodes, then takes as many gradient steps as hindsight PPO does by default, on minibatches of 256
decisions, with layers of hindsight PPO's default widths.
"""

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
from measured import need
from replay_contestants import CAPACITY, DISCOUNT, EPISODES, EPSILON, GOALS, REPLAY_RATE
from robots import gymnasium_environment
from stable_baselines import NEVER, TimedEnvironment

import hindsight_rl.environments.as_gymnasium  # noqa: F401  (registers the names)
from hindsight_rl.agents.hppo_samples import work_of
from hindsight_rl.environments.as_gymnasium import NAMES
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.interface import Task
from hindsight_rl.experiments.configuration import resolve
from hindsight_rl.networks.perceptron import flat_size
from hindsight_rl.rollout.compiled import collect
from hindsight_rl.rollout.hosted import collect_hosted, open_pool
from hindsight_rl.training.keys import keys_of
from hindsight_rl.training.program import make_program
from hindsight_rl.training.settings import Settings

MINIBATCH = 256
Clock = Callable[[], float]


def job_of(environment: str, **chosen: Any) -> tuple[Task, Settings]:
    """Hindsight PPO with its defaults, but for what is chosen."""
    job = resolve(environment, {"batch_size": EPISODES, **chosen})
    return job.environment.task, job.settings


def steps_on_a_batch(task: Task, settings: Settings) -> int:
    """Hindsight PPO's gradient steps on 16 new episodes."""
    options: Any = settings.options
    return int(options.steps_on_a_batch(EPISODES, work_of(task, options)))


class Ours:
    """Hindsight PPO. `play`, `learn` and `train` can be timed apart; `train` is what training does."""

    seconds_in_environment = 0.0

    def __init__(self, environment: str, **chosen: Any):
        task, self.settings = job_of(environment, **chosen)
        self.task, self._program = task, make_program(task, self.settings)
        self.gradient_steps = steps_on_a_batch(task, self.settings)
        self._rates = {name: jnp.float32(rate) for name, rate in self.settings.rates.items()}
        self._key = keys_of(jnp.uint32(0)).training
        # In training the buffer is updated where it lies; a copy of it for each call would be an artefact.
        self._update = jax.jit(self._program.agent.update, donate_argnums=0)
        self._agent = jax.jit(self._program.agent.init)(self._key)
        self._pool = open_pool(task, EPISODES) if isinstance(task, HostedTask) else None
        self._collect = jax.jit(self._played)
        self._batches = 0
        self.episodes, self.steps = 0, 0
        # Compiles: for a fresh agent, and for one that has learned, whose arrays are laid out otherwise.
        self.train()
        self.train()

    @property
    def agent(self) -> Any:
        """All that is learned."""
        return self._agent

    def _played(self, agent: Any, key: jax.Array) -> Any:
        def explore(*situation: Any) -> Any:
            return self._program.agent.explore(agent, *situation)

        return collect(self.task, explore, EPISODES, key, self.settings.episodes_end)  # type: ignore[arg-type]

    def play(self) -> None:
        """A batch of episodes."""
        key = jax.random.fold_in(self._key, self._batches)
        if self._pool is None:
            self._batch = self._collect(self._agent, key)
        else:
            assert isinstance(self.task, HostedTask)

            def explore(*situation: Any) -> Any:
                return self._program.explore(self._agent, *situation)

            self._batch = collect_hosted(self.task, self._pool, explore, EPISODES, key, self.settings.episodes_end)
        jax.block_until_ready(self._batch)
        self.episodes += EPISODES
        self.steps += int(jnp.sum(self._batch.lengths))

    def learn(self) -> None:
        """The gradient steps that follow a batch."""
        self._agent, cause, _ = self._update(self._agent, self._batch, self._rates, self._key)
        assert int(cause) == 0
        self._batches += 1

    def train(self) -> None:
        """Both."""
        self.play()
        self.learn()

    def close(self) -> None:
        """Let the workers go."""
        if self._pool is not None:
            self._pool.close()


class Counted(gymnasium.Wrapper):
    """Counts episodes that ended, and adds up the seconds spent in the environment."""

    def __init__(self, environment: gymnasium.Env, clock: Clock):
        super().__init__(environment)
        self.ended, self.seconds, self._clock = 0, 0.0, clock

    def reset(self, **options: Any) -> Any:
        """Begin an episode."""
        began = self._clock()
        result = super().reset(**options)
        self.seconds += self._clock() - began
        return result

    def step(self, action: Any) -> Any:
        """Take an action."""
        began = self._clock()
        result = super().step(action)
        self.seconds += self._clock() - began
        self.ended += bool(result[2] or result[3])
        return result

    def compute_reward(self, achieved: Any, goals: Any, infos: Any) -> Any:
        """The environment's own, for many pairs."""
        return self.env.get_wrapper_attr("compute_reward")(achieved, goals, infos)


class Theirs:
    """PPO, or DQN or SAC with hindsight replay, from stable-baselines3."""

    def __init__(self, kind: str, environment: str, clock: Clock):
        task, settings = job_of(environment)
        self.gradient_steps = steps_on_a_batch(task, settings)
        widths = settings.options.widths(flat_size(task.observation_shape) + flat_size(task.goal_shape))
        self._replays, self._clock = kind != "PPO", clock
        self._counted: list[Counted] = []
        vectors = need("stable_baselines3.common.vec_env")
        made = vectors.DummyVecEnv([lambda: self._make(environment, task)] * (1 if self._replays else EPISODES))
        common = {"seed": 0, "device": "cpu", "batch_size": MINIBATCH, "learning_rate": REPLAY_RATE}
        common |= {"gamma": DISCOUNT, "policy_kwargs": {"net_arch": list(widths)}}
        own = self._replay_options(kind) if self._replays else self._rollout_options(task.horizon - 1)
        self.model: Any = getattr(need("stable_baselines3"), kind)("MultiInputPolicy", made, **common, **own)
        _, self._callback = self.model._setup_learn(NEVER, None, True, "run", False)
        self.train()

    def _make(self, environment: str, task: Task) -> Counted:
        if isinstance(task, HostedTask):
            made = gymnasium_environment(task)
        else:
            name = next(name for name, ours in NAMES.items() if ours == environment)
            # Goals are judged with NumPy: a call of a compiled function for each would cost it more than all else.
            made = TimedEnvironment(gymnasium.make(name, disable_env_checker=True), task.horizon, "steps")
        self._counted.append(Counted(made, self._clock))
        return self._counted[-1]

    def _replay_options(self, kind: str) -> dict[str, Any]:
        buffers = need("stable_baselines3.her.her_replay_buffer")
        found = {"buffer_size": CAPACITY // (GOALS + 1), "learning_starts": 0, "train_freq": (EPISODES, "episode")}
        found |= {"gradient_steps": self.gradient_steps, "replay_buffer_class": buffers.HerReplayBuffer}
        found["replay_buffer_kwargs"] = {"n_sampled_goal": GOALS, "goal_selection_strategy": "future"}
        if kind == "DQN":
            found |= {"exploration_initial_eps": EPSILON, "exploration_final_eps": EPSILON}
        return found

    def _rollout_options(self, actions: int) -> dict[str, Any]:
        minibatches = -(-EPISODES * actions // MINIBATCH)
        return {"n_steps": actions, "n_epochs": max(1, round(self.gradient_steps / minibatches))}

    @property
    def episodes(self) -> int:
        """Finished so far."""
        return sum(each.ended for each in self._counted)

    @property
    def steps(self) -> int:
        """Actions taken so far."""
        return int(self.model.num_timesteps)

    @property
    def seconds_in_environment(self) -> float:
        """Spent in `reset` and `step` so far."""
        return sum(each.seconds for each in self._counted)

    def play(self) -> None:
        """A batch of episodes."""
        model = self.model
        if self._replays:
            model.collect_rollouts(
                model.env,
                train_freq=model.train_freq,
                callback=self._callback,
                learning_starts=0,
                replay_buffer=model.replay_buffer,
            )
        else:
            model.collect_rollouts(model.env, self._callback, model.rollout_buffer, n_rollout_steps=model.n_steps)

    def learn(self) -> None:
        """The gradient steps that follow a batch."""
        if self._replays:
            self.model.train(batch_size=MINIBATCH, gradient_steps=self.gradient_steps)
        else:
            self.model.train()

    def train(self) -> None:
        """Both."""
        self.play()
        self.learn()

    def close(self) -> None:
        """Nothing is open."""


def rate(
    amount: Callable[[], float],
    work: Callable[[], None],
    seconds: float,
    clock: Clock = time.perf_counter,
) -> float:
    """Per second of a clock: what some work adds to an amount, repeated for so many seconds."""
    before, began = amount(), clock()
    while True:
        work()
        if (spent := clock() - began) >= seconds:
            return (amount() - before) / spent
