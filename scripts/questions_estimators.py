"""Open questions about the estimators: their variance along training, and subsampling of active goals."""

import csv
import time
from functools import partial

import numpy as np
from question_tools import (
    BATCH_SIZE,
    FIRST_SEED,
    FOLDER,
    Kept,
    committed_curves,
    curves,
    draw_lines,
    draw_points,
    learn,
    panels,
    said,
    save,
)

from hindsight_rl.analysis.figures import COLOURS, INK
from hindsight_rl.environments.interface import Environment
from hindsight_rl.environments.registry import make_compiled

STAGES = {
    "bit-flipping-8": {"fresh": 0, "half": 56, "trained": 1400},
    "four-rooms": {"fresh": 0, "half": 119, "trained": 1700},
}
"""Batches after which results/gradients measured the policy of one run."""
ESTIMATORS = ("gcpg", "per-decision", "weighted", "weighted+v-active", "no-ratios")
CAPS = (1, 3, None)
RATE = 1e-3


def gradients(environment: str, estimator: str, quantity: str, cap: str = "") -> list[float]:
    """What `make results-gradients` measured at each stage, with episodes that end at their goal as in training."""
    found = []
    for stage in STAGES[environment]:
        with (FOLDER.parent / "gradients" / f"{environment}-{stage}" / "gradients.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                ends_at_goal = row.get("episodes_end", row.get("horizon")) in ("goal", "paper")
                if ends_at_goal and (row["estimator"], row["max_active_goals"], row["ended"]) == (
                    estimator,
                    cap,
                    "drop",
                ):
                    found.append(float(row[quantity]))
    return found


def variance() -> None:
    """How the estimators scatter at the beginning, in the middle and at the end of a run of HPG."""
    quantities = {"variance": "variance", "mean_squared_error": "squared error", "cosine": "cosine with the gradient"}
    figure, axes = panels(
        [f"{environment}: {shown}" for environment in STAGES for shown in ("variance", "cosine")], 3.6
    )
    kinds = [(environment, kind) for environment in STAGES for kind in ("variance", "cosine")]
    for one, (environment, kind) in zip(axes, kinds, strict=True):
        for number, estimator in enumerate(ESTIMATORS):
            values = gradients(environment, estimator, kind)
            one.plot(range(3), values, marker="os^Dv"[number], ms=4, color=COLOURS[number], label=estimator)
        one.set_xticks(range(3), [f"{stage}\n{batch}" for stage, batch in STAGES[environment].items()], color=INK)
        one.set_xlabel("batches of HPG", color=INK)
        if kind == "variance":
            one.set_yscale("log")
    axes[0].legend(frameon=False, fontsize=8.5)
    save("variance", figure)
    for environment in STAGES:
        for estimator in ESTIMATORS:
            row = {shown: np.round(gradients(environment, estimator, kind), 3) for kind, shown in quantities.items()}
            print(f"variance, {environment}, {estimator}: {row}")


def subsampling() -> None:
    """What it costs and saves to learn about a few active goals of each episode only, on 8 bits."""
    kept = Kept("subsampling")
    environment = make_compiled("bit-flipping-8")
    names = {cap: "all goals" if cap is None else f"{cap} of each" for cap in CAPS}
    for cap, name in names.items():
        made = partial(curves, environment, "hpg", 140, 14, max_active_goals=cap, learning_rate=RATE)
        kept.get(name, made if cap else partial(committed_curves, "bit-flipping-8", "hpg"))
        kept.get(f"seconds, {name}", partial(_seconds_of_an_update, environment, cap))
    shown = [name for name in names.values() if name in kept.found]
    figure, axes = panels(["learning, 8 bits", "an update, 8 bits", "gradient of a half-trained policy"])
    for number, name in enumerate(shown):
        found = kept.found[name]
        within = np.array(found["episodes"]) <= 140 * BATCH_SIZE
        x, rates = np.array(found["episodes"])[within], np.array(found["mean_returns"])[:, within]
        draw_lines(axes[0], x.tolist(), {f"{name} ({len(rates)} runs)": rates}, "episodes", "mean return", number)
        print(f"subsampling, {name}: mean return over {x[-1]} episodes {said(rates.mean(axis=1))}")
    seconds = {name: kept.found[f"seconds, {name}"] for name in names.values() if f"seconds, {name}" in kept.found}
    draw_points(axes[1], {name: 1e3 * np.array(of) for name, of in seconds.items()}, "milliseconds of the processor")
    axes[1].set_ylim(bottom=0)
    print("subsampling, milliseconds:", {name: said(1e3 * np.array(of), ".1f") for name, of in seconds.items()})
    _draw_gradients(axes[2])
    save("subsampling", figure)


def _draw_gradients(axes: object) -> None:
    """Bias, variance and cosine of weighted estimates, with all goals and with 3 of each episode."""
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    groups = [(environment, cap) for environment in STAGES for cap in ("", "3")]
    labels = [f"{environment}\n{cap + ' of each' if cap else 'all goals'}" for environment, cap in groups]
    for shift, (quantity, label) in enumerate(
        (("bias", "squared bias"), ("variance", "variance"), ("cosine", "cosine"))
    ):
        heights = [gradients(environment, "weighted", quantity, cap)[1] for environment, cap in groups]
        axes.bar(np.arange(len(groups)) + 0.26 * (shift - 1), heights, 0.24, label=label, color=COLOURS[shift])
        print(f"subsampling, half-trained, {label}: {dict(zip(labels, np.round(heights, 2), strict=True))}")
    axes.set_xticks(range(len(groups)), labels, fontsize=7.5, color=INK)
    axes.legend(frameon=False, fontsize=8.5)


def _seconds_of_an_update(environment: Environment, cap: int | None) -> list[float]:
    """Of the processor, in five stretches of 20 updates of a fresh run."""
    import jax

    moment = next(iter(learn(environment, "hpg", 140, 140, max_active_goals=cap, learning_rate=RATE, runs=1)))
    advance, state = moment.program.advance, moment.snapshot.parts[0]
    assert advance is not None
    seeds, rates = np.array([FIRST_SEED], np.uint32), {"learning_rate": np.full(1, RATE, np.float32)}
    found = []
    for stretch in range(6):
        began = time.process_time()
        state, _, _ = jax.block_until_ready(advance(state, seeds, rates, 20 * stretch, 20, False))
        found.append((time.process_time() - began) / 20)
    return found[1:]  # the first may have compiled
