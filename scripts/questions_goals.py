"""An open question about goals: when the pursued goals change, are old ones kept or forgotten?"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from question_tools import BATCH_SIZE, FIRST_SEED, SEEDS, Kept, draw_lines, panels, room_text, said, save

from hindsight_rl.environments.grid_world import GridWorld
from hindsight_rl.experiments.configuration import complete
from hindsight_rl.rollout.compiled import play
from hindsight_rl.training.program import make_program

SIZE, HORIZON = 7, 16
MIDDLE = SIZE // 2
EVALUATIONS = 10
"""In each phase."""
BATCHES = {"gcpg": 400, "hpg": 150, "hppo": 30}
"""In each phase: enough to learn its goals."""
OPTIONS: dict[str, dict[str, Any]] = {
    "gcpg": {"learning_rate": 1e-3, "hidden_layers": (64, 64)},
    "hpg": {"learning_rate": 1e-3, "hidden_layers": (64, 64)},
    "hppo": {},
}


class HalfRoom(GridWorld):
    """A room with the start in its middle, whose pursued goals lie on one side; every cell counts as a goal."""

    right: bool

    def __init__(self, right: bool):
        super().__init__(room_text(SIZE, (MIDDLE, MIDDLE)), horizon=HORIZON)
        self.right = right

    @property
    def side(self) -> np.ndarray:
        """The goals that are pursued."""
        columns = self.goals[:, 1]
        return self.goals[columns > MIDDLE if self.right else columns < MIDDLE]

    def sample_goal(self, key: Key[Array, ""]) -> Float[Array, "2"]:
        side = jnp.asarray(self.side)
        return side[jax.random.randint(key, (), 0, len(side))].astype(jnp.float32)


def curriculum() -> None:
    """First the goals on the left, then those on the right."""
    kept = Kept("curriculum")
    for name in BATCHES:
        kept.get(name, partial(_two_phases, name))
    shown = {name: batches for name, batches in BATCHES.items() if name in kept.found}
    figure, axes = panels(list(shown))
    for one, (name, batches) in zip(axes, shown.items(), strict=True):
        found = kept.found[name]
        lines = {"goals on the left": found["left"], "on the right": found["right"]}
        draw_lines(one, found["episodes"], lines, "episodes", "success rate")
        one.axvline(batches * BATCH_SIZE, color="#333333", linewidth=0.8, linestyle="dotted")
        one.set_ylim(0, 1.05)
    save("curriculum", figure)
    for name in shown:
        left, right = np.array(kept.found[name]["left"]), np.array(kept.found[name]["right"])
        before, after = left[:, EVALUATIONS], left[:, EVALUATIONS + 1 :]
        print(f"curriculum, {name}: left before {said(before)}, next {said(after[:, 0])}, end {said(after[:, -1])}")
        print(f"  lost next {said(before - after[:, 0])}, on average {said(before - after.mean(axis=1))}")
        print(f"  right before {said(right[:, EVALUATIONS])}, end {said(right[:, -1])}")


def _two_phases(name: str) -> dict[str, Any]:
    method, every = name.split(",")[0], BATCHES[name] // EVALUATIONS
    chosen = {"method": method, "batch_size": BATCH_SIZE, "batches": BATCHES[name], "evaluate_every": every}
    settings = complete("custom", {**chosen, "runs": 1, **OPTIONS[name]})
    rooms = [HalfRoom(right) for right in (False, True)]
    programs = [make_program(room, settings) for room in rooms]
    rates = {rate: jnp.full(1, value) for rate, value in settings.rates.items()}
    agent = programs[0].agent

    @jax.jit
    def succeed(state: Any, key: Array) -> Array:
        """On the goals of each side, as many episodes for each goal."""
        wanted = [jnp.tile(jnp.asarray(room.side, jnp.float32), (4, 1)) for room in rooms]
        exploit = lambda *of: agent.exploit(state, *of)  # noqa: E731
        return jnp.stack([jnp.mean(play(rooms[0], exploit, len(of), key, of).successes) for of in wanted])

    found: list[Any] = []
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        seeds = jnp.array([seed], jnp.uint32)
        states = programs[0].init(seeds)
        rows = []
        for stretch in range(2 * EVALUATIONS + 1):
            one = jax.tree.map(lambda leaf: leaf[0], states.agent)
            rows.append(succeed(one, jax.random.key(stretch)))
            advance = programs[stretch // EVALUATIONS].advance if stretch < 2 * EVALUATIONS else None
            if advance is not None:
                states, _, _ = advance(states, seeds, rates, stretch * every, every, False)
        found.append(np.array(rows))
    left, right = np.moveaxis(np.array(found), 2, 0)
    episodes = [stretch * every * BATCH_SIZE for stretch in range(2 * EVALUATIONS + 1)]
    return {"episodes": episodes, "left": left.tolist(), "right": right.tolist()}
