"""Open questions about rewards: dense ones, and one that is learned from a few labels."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from question_tools import (
    BATCH_SIZE,
    SEEDS,
    Kept,
    committed_curves,
    curves,
    draw_lines,
    draw_points,
    learn,
    panels,
    room_text,
    said,
    save,
)

from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.grid_world import GridWorld
from hindsight_rl.rollout.compiled import play

SIZE, HORIZON = 11, 32
METHODS: dict[str, tuple[int, dict[str, Any]]] = {
    "gcpg": (150, {"learning_rate": 5e-4}),
    "hpg": (100, {"learning_rate": 1e-3}),
    "hppo": (16, {}),
}
"""Batches and options; the rates are those that the study of sparse rewards chose."""
BITS = 6
LABELS = (16, 64, 256)
DRAWS = 200
"""Classifiers for each number of labels; one of them, of middling quality, is learned with."""
FRESH_EPISODES = 256


class DenseRoom(GridWorld):
    """The empty room with a reward at every step: 1 at the goal, less the farther away, nothing in the far corner.

    Whoever reaches the goal gets 1 for every step that is left, as if it stayed there.
    """

    def __init__(self) -> None:
        super().__init__(room_text(SIZE), horizon=HORIZON)

    def reward(self, achieved: Float[Array, "2"], goal: Float[Array, "2"], time: Int[Array, ""]) -> Float[Array, ""]:
        distance = jnp.sum(jnp.abs(achieved - goal))
        near = 1 - distance / (2 * SIZE - 2)
        return jnp.where(self.reached(achieved, goal), self.horizon - time, near).astype(jnp.float32)


def dense_rewards() -> None:
    """Does hindsight still help where every step is rewarded?"""
    kept = Kept("dense-rewards")
    for method, (batches, options) in METHODS.items():
        kept.get(f"{method}, dense", partial(curves, DenseRoom(), method, batches, batches // 10, **options))
        kept.get(f"{method}, sparse", partial(committed_curves, "empty-room", method))
    figure, axes = panels(list(METHODS))
    for one, (method, (batches, _)) in zip(axes, METHODS.items(), strict=True):
        for number, name in enumerate(("sparse", "dense")):
            if f"{method}, {name}" not in kept.found:
                continue
            found = kept.found[f"{method}, {name}"]
            within = np.array(found["episodes"]) <= batches * BATCH_SIZE
            rates = np.array(found["success_rates"])[:, within]
            draw_lines(
                one,
                np.array(found["episodes"])[within].tolist(),
                {f"{name} ({len(rates)} runs)": rates},
                "episodes",
                "success rate",
                number,
            )
    save("dense-rewards", figure)
    for name, found in kept.found.items():
        batches = METHODS[name.split(",")[0]][0]
        rates = np.array(found["success_rates"])[:, np.array(found["episodes"]) <= batches * BATCH_SIZE]
        last = said(rates[:, -1])
        print(f"dense-rewards, {name}: {len(rates)} runs, mean {said(rates.mean(axis=1))}, last {last}")


class LearnedReward(BitFlipping):
    """Bit flipping whose learner is told by a classifier whether a string reaches a goal."""

    weights: tuple[float, ...]
    """Of each bit that differs, and last the offset."""

    def __init__(self, weights: tuple[float, ...]):
        super().__init__(len(weights) - 1)
        self.weights = weights

    def reached(self, achieved: Float[Array, " bit"], goal: Float[Array, " bit"]) -> Bool[Array, ""]:
        *of_bits, offset = self.weights
        return jnp.sum(jnp.abs(achieved - goal) * jnp.array(of_bits)) + offset > 0


def learned_reward() -> None:
    """How many labelled pairs of state and goal does a reward need?"""
    kept = Kept("learned-reward")
    for labels in LABELS:
        kept.get(f"errors, {labels} labels", partial(_all_errors, labels))
        kept.get(f"errors, {labels} labels, near misses", partial(_all_errors, labels, near=True))
    for labels in LABELS:
        kept.get(f"learning, {labels} labels", partial(_learn_from_labels, kept, labels))
    kept.get("learning, known", lambda: _true_success(BitFlipping(BITS)))
    figure, axes = panels(["strings taken for the goal by mistake", "success with the true reward"])
    errors = {
        (labels, kind): np.array(kept.found[f"errors, {labels} labels{kind}"])
        for kind in ("", ", near misses")
        for labels in LABELS
    }
    ticks = [f"{labels}{' near' if kind else ''}" for labels, kind in errors]
    axes[0].boxplot([of[:, 0] for of in errors.values()], tick_labels=ticks)
    axes[0].set_xlabel("labelled pairs")
    axes[0].set_ylabel(f"of {2**BITS - 1}, {DRAWS} classifiers")
    names = {"known": "known", **{f"{labels} labels": str(labels) for labels in LABELS}}
    names = {name: shown for name, shown in names.items() if f"learning, {name}" in kept.found}
    draw_points(axes[1], {short: kept.found[f"learning, {name}"] for name, short in names.items()}, "success rate")
    axes[1].set_xlabel("labelled pairs")
    save("learned-reward", figure)
    for (labels, kind), of in errors.items():
        false, missed = of.T
        print(f"learned-reward, {labels}{kind}: false {np.quantile(false, [0.25, 0.5, 0.75])}, missed {missed.mean()}")
        print(f"  without a mistake {np.mean((false == 0) & (missed == 0)):.2f}")
    for name in names:
        print(f"learned-reward, {name}: success {said(kept.found[f'learning, {name}'])}")


def _classifier(labels: int, seed: int, near: bool = False) -> tuple[float, ...]:
    """Logistic regression on which bits differ: half of its pairs are strings with themselves as goals.

    The others are strings with random goals or, where `near`, with goals that differ in one bit.
    """
    from scipy.optimize import minimize

    generator = np.random.default_rng(seed)
    states, goals = generator.integers(0, 2, (2, labels, BITS))
    if near:
        goals = np.where(np.arange(BITS) == generator.integers(0, BITS, (labels, 1)), 1 - states, states)
    positive = np.arange(labels) < labels // 2
    goals = np.where(positive[:, None], states, goals)
    signs = np.where((states == goals).all(axis=1), 1.0, -1.0)
    inputs = np.concatenate([np.abs(states - goals), np.ones((labels, 1))], axis=1)

    def loss(weights: np.ndarray) -> float:
        return float(np.mean(np.logaddexp(0, -signs * (inputs @ weights))) + 1e-3 * np.sum(weights[:-1] ** 2))

    return tuple(float(round(weight, 6)) for weight in minimize(loss, np.zeros(BITS + 1)).x)


def _all_errors(labels: int, near: bool = False) -> list[tuple[int, int]]:
    return [_errors(_classifier(labels, seed, near)) for seed in range(DRAWS)]


def _errors(weights: tuple[float, ...]) -> tuple[int, int]:
    """Patterns of differing bits that pass for equal strings, and whether equal strings do not."""
    patterns = (np.arange(2**BITS)[:, None] >> np.arange(BITS)) & 1
    passes = patterns @ np.array(weights[:-1]) + weights[-1] > 0
    return int(passes[1:].sum()), int(not passes[0])


def _middling(kept: Kept, labels: int) -> tuple[float, ...]:
    """The classifier with the median number of mistakes."""
    mistakes = np.array(kept.found[f"errors, {labels} labels"])[:, 0]
    return _classifier(labels, int(np.argsort(mistakes, kind="stable")[DRAWS // 2]))


def _learn_from_labels(kept: Kept, labels: int) -> Any:
    return _true_success(LearnedReward(_middling(kept, labels)))


def _true_success(environment: BitFlipping) -> Any:
    """The share of goals truly reached by the policies that HPG learned with a reward."""
    *_, last = learn(environment, "hpg", 150, 150, hidden_layers=(64, 64))
    truth, agent = BitFlipping(BITS), last.program.agent

    @jax.jit
    def succeed(state: Any) -> Array:
        found = play(truth, lambda *of: agent.exploit(state, *of), FRESH_EPISODES, jax.random.key(1))
        return jnp.mean(found.successes)

    rates = [float(succeed(state)) for state in last.agents()]
    assert len(rates) == SEEDS
    return rates
