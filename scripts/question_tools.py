"""What the open questions share: numbers that are kept, runs of a method, intervals, small figures."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hindsight_rl.analysis.beside.entries import read_entries
from hindsight_rl.analysis.figures import COLOURS, FAINT, INK, figure_bytes, new_figure
from hindsight_rl.analysis.statistics import bootstrap_interval
from hindsight_rl.environments.grid_world import GridWorld
from hindsight_rl.environments.interface import Environment
from hindsight_rl.experiments.configuration import complete
from hindsight_rl.records.files import make_folder, write_atomically
from hindsight_rl.training.loop import training
from hindsight_rl.training.program import Program, make_program
from hindsight_rl.training.state import Snapshot

FOLDER = Path(__file__).parent.parent / "results" / "questions"
SEEDS, FIRST_SEED = 5, 100
BATCH_SIZE = 16
COMPUTES = [True]
"""Whether numbers that are missing are computed."""


class Kept:
    """The numbers of one question by name, saved as soon as they are there; none is computed twice."""

    def __init__(self, question: str):
        self._path = FOLDER / f"{question}.json"
        self.found: dict[str, Any] = {}
        self._read()

    def _read(self) -> None:
        """Take over what another process may have added."""
        if self._path.exists():
            self.found |= json.loads(self._path.read_text())

    def get(self, name: str, compute: Callable[[], Any]) -> None:
        """Compute what is not kept under a name yet, unless nothing is to be computed."""
        self._read()
        if name not in self.found and COMPUTES[0]:
            value = _plain(compute())
            self._read()
            self.found[name] = value
            make_folder(FOLDER)
            lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in self.found.items()]
            write_atomically(self._path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
            print(f"{self._path.stem}: {name}", flush=True)


def _plain(value: Any) -> Any:
    """Arrays and numbers of NumPy and JAX for JSON, with as many digits as matter."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, int | str):
        return value
    array = np.asarray(value, np.float64)
    return [_plain(one) for one in array] if array.ndim else float(f"{float(array):.5g}")


class Moment(NamedTuple):
    """A job right after an evaluation."""

    program: Program
    snapshot: Snapshot

    @property
    def batch(self) -> int:
        """Batches done."""
        return self.snapshot.batch

    def agents(self) -> list[Any]:
        """What each run has learned."""
        import jax

        states = self.snapshot.states.agent
        count = len(self.snapshot.evaluations.seeds)
        return [jax.tree.map(lambda leaf, run=run: leaf[run], states) for run in range(count)]


def learn(environment: Environment, method: str, batches: int, every: int, **options: Any) -> Iterator[Moment]:
    """Runs of a method with fresh seeds, evaluation by evaluation."""
    chosen = {"method": method, "batch_size": BATCH_SIZE, "batches": batches, "evaluate_every": every}
    settings = complete("custom", {**chosen, "runs": SEEDS, "seed": FIRST_SEED, **options})
    program = make_program(environment, settings)
    for snapshot in training(program, settings):
        yield Moment(program, snapshot)


def curves(environment: Environment, method: str, batches: int, every: int, **options: Any) -> dict[str, Any]:
    """Success rate and mean return of each run at each evaluation."""
    *_, last = learn(environment, method, batches, every, **options)
    evaluations = last.snapshot.evaluations
    return {
        "episodes": evaluations.episodes,
        "success_rates": evaluations.success_rates.tolist(),
        "mean_returns": evaluations.mean_returns.tolist(),
    }


def committed_curves(environment: str, method: str) -> dict[str, Any]:
    """The same of runs with batches of 16 that were made before."""
    results = FOLDER.parent
    source = results / "hppo" / f"{environment}-hppo" if method == "hppo" else results / "paper" / "evaluations.parquet"
    wanted = (environment, method, BATCH_SIZE)
    found = [one for one in read_entries(source) if (one.environment, one.method, one.settings["batch_size"]) == wanted]
    evaluations = found[0].evaluations
    return {
        "episodes": evaluations.episodes,
        "success_rates": evaluations.success_rates.tolist(),
        "mean_returns": evaluations.mean_returns.tolist(),
    }


def square_room(size: int, slip: float = 0.0, horizon: int = 16, start: tuple[int, int] = (0, 0)) -> GridWorld:
    """A room without walls."""
    return GridWorld(room_text(size, start), slip=slip, horizon=horizon)


def room_text(size: int, start: tuple[int, int] = (0, 0)) -> str:
    """Its map."""
    rows = [["."] * size for _ in range(size)]
    rows[start[0]][start[1]] = "S"
    return "\n".join("".join(row) for row in rows)


def interval(values: Sequence[float] | np.ndarray) -> tuple[float, float, float]:
    """Mean over runs, and its 95 % bootstrap interval."""
    array = np.asarray(values, np.float64)
    low, high = bootstrap_interval(array[:, None], generator=np.random.default_rng(0))
    return float(array.mean()), float(low[0]), float(high[0])


def said(values: Sequence[float] | np.ndarray, form: str = ".2f") -> str:
    """The same in words."""
    mean, low, high = interval(values)
    return f"{mean:{form}} ({low:{form}} to {high:{form}})"


def panels(titles: Sequence[str], height: float = 3.4) -> tuple[Figure, list[Axes]]:
    """A figure with some axes beside each other."""
    figure = new_figure((4.3 * len(titles), height))
    axes = [figure.add_subplot(1, len(titles), number + 1) for number in range(len(titles))]
    for one, title in zip(axes, titles, strict=True):
        one.set_title(title, loc="left", color=INK, fontsize=10.5, fontweight="bold")
        one.grid(axis="y", color="#E4E4E4", linewidth=0.8)
        one.spines[["top", "right"]].set_visible(False)
        one.spines[["left", "bottom"]].set_color(FAINT)
        one.tick_params(colors=INK, length=3)
    return figure, axes


def draw_lines(
    axes: Axes, x: Sequence[float], lines: Mapping[str, Any], over: str, quantity: str, first: int = 0
) -> None:
    """Means over runs (first axis of each line) with their 95 % intervals; `first` is the first one's colour."""
    for number, (name, values) in enumerate(lines.items(), first):
        array = np.asarray(values, np.float64)
        low, high = bootstrap_interval(array, generator=np.random.default_rng(0))
        colour = COLOURS[number % len(COLOURS)]
        axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
        axes.plot(x, array.mean(axis=0), color=colour, linewidth=1.8, marker="os^Dv"[number % 5], ms=3.5, label=name)
    axes.set_xlabel(over, color=INK)
    axes.set_ylabel(quantity, color=INK)
    axes.legend(frameon=False, fontsize=8.5, labelcolor=INK)


def draw_points(
    axes: Axes, groups: Mapping[str, Sequence[float] | np.ndarray], quantity: str, zero: bool = False
) -> None:
    """Each run as a point, and the mean with its interval."""
    for number, values in enumerate(groups.values()):
        mean, low, high = interval(values)
        axes.plot([number] * len(values), values, "o", color=FAINT, ms=3.5, alpha=0.6)
        axes.errorbar(
            number, mean, yerr=[[mean - low], [high - mean]], fmt="s", color=COLOURS[number % len(COLOURS)], capsize=4
        )
    if zero:
        axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xticks(range(len(groups)), list(groups), fontsize=8.5, color=INK)
    axes.set_xlim(-0.5, max(len(groups), 1) - 0.5)
    axes.set_ylabel(quantity, color=INK)


def save(question: str, figure: Figure) -> None:
    """The figure of a question."""
    make_folder(FOLDER)
    write_atomically(FOLDER / f"{question}.png", figure_bytes(figure))
