"""Our training, driven so that a clock can be stopped for evaluations."""

import time
from typing import Any

import jax
import jax.numpy as jnp
from replay_contestants import Arena, Contestant

from hindsight_rl.environments.registry import make_compiled
from hindsight_rl.training.program import Program, make_program


class Ours:
    """A learner, as `hindsight_rl.training` makes it of the same settings and seed."""

    seconds_in_environment = 0.0

    def __init__(self, arena: Arena, contestant: Contestant, seed: int, program: Program | None = None):
        settings = contestant.settings(arena)
        self._batch_size = settings.batch_size
        self._steps_per_batch = settings.options.gradient_steps if contestant.method.startswith("dqn") else 1
        self.program = program or make_program(make_compiled(arena.name), settings)
        self._seeds = jnp.array([seed], jnp.uint32)
        self._rates = {name: jnp.full(1, rate) for name, rate in settings.rates.items()}
        self.batches = 0
        began = time.perf_counter()
        self.states: Any = self.program.init(self._seeds)
        self._advance(0, False)
        self.compilation = time.perf_counter() - began

    @property
    def episodes(self) -> int:
        """Played so far."""
        return self.batches * self._batch_size

    @property
    def gradient_steps(self) -> int:
        """Done so far."""
        return self.batches * self._steps_per_batch

    def train(self, more: int) -> None:
        """Play so many more episodes at least, and learn."""
        batches = -(-more // self._batch_size)
        self._advance(batches, False)
        self.batches += batches

    def evaluate(self) -> tuple[float, float]:
        """Mean return and success rate of greedy episodes."""
        found = self._advance(0, True)
        return float(found["mean_return"][0]), float(found["success_rate"][0])

    def _advance(self, batches: int, evaluates: bool) -> Any:
        assert self.program.advance is not None
        advanced = self.program.advance(self.states, self._seeds, self._rates, self.batches, batches, evaluates)
        self.states, evaluation, _ = jax.block_until_ready(advanced)
        return evaluation
