"""Runs and studies as the live page is told of them: plain numbers and texts, which the page draws."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from hindsight_rl.analysis.inventory import Content, Item, find, inventory, read_content
from hindsight_rl.analysis.statistics import Curve, bootstrap_interval
from hindsight_rl.analysis.study.curves import COUNTERS, LearningCurve, learning_curves, metric_curves
from hindsight_rl.analysis.study.summaries import missing
from hindsight_rl.records.evaluations import Evaluations
from hindsight_rl.records.results import RESULTS
from hindsight_rl.records.run_folders import EVALUATIONS, SETTINGS, SUMMARY, RunFolder, changed, films_in, is_plain_file
from hindsight_rl.records.runs import StudyResults

POINTS = 240
"""Of a long curve so many evaluations are sent: a screen has no room for more."""
LOG_BYTES, LOG_LINES = 16_384, 60
NEWEST = "newest policy"
View = dict[str, Any]


class Watcher:
    """What lies below a folder, read again only where a file has changed."""

    def __init__(self, root: Path, film_of: Callable[[RunFolder], Path | None] = lambda run: None):
        self.root = root
        self._film_of = film_of
        self._held: dict[Path, tuple[Any, Content]] = {}
        self._first_seen: dict[str, tuple[int, float]] = {}
        # One reader at a time: several tabs must not read a large study at once.
        self._lock = threading.Lock()

    def overview(self) -> View:
        """Every run and study in a few numbers, with the curve of its return."""
        with self._lock:
            items = inventory(self.root, self._read)
            shown = [{**asdict(item), "seconds_left": self._seconds_left(item)} for item in items]
            for item, view in zip(items, shown, strict=True):
                view["charts"] = [] if item.state == "damaged" else self._charts(item.name)[:1]
        return {"folder": self.root.resolve().name or "/", "items": shown}

    def detail(self, name: str) -> View | None:
        """All charts of one of them, its films and its log; None for a name that is not among them."""
        with self._lock:
            folder = self.folder(name)
            if folder is None:
                return None
            films = [{"file": name, "version": int(changed(film))} for name, film in self._films(folder).items()]
            return {"name": name, "charts": self._charts(name), "films": films, "log": self._log(folder)}

    def folder(self, name: str) -> Path | None:
        """The folder of that name, among those that were found: no path is ever made of what a stranger says."""
        return {self._name(path): path for path in find(self.root)}.get(name)

    def film(self, name: str, file: str) -> Path | None:
        """A film of one of them, likewise only if it is among those that were found."""
        with self._lock:
            folder = self.folder(name)
            return None if folder is None else self._films(folder).get(file)

    def _films(self, folder: Path) -> dict[str, Path]:
        """That of the newest policy, where one was made, then those that lie in the folder itself."""
        within = [film for film in films_in(folder) if film.resolve().is_relative_to(self.root.resolve())]
        content = self._read(folder)
        newest = self._film_of(content) if isinstance(content, RunFolder) else None
        return ({f"{NEWEST}{newest.suffix}": newest} if newest else {}) | {film.name: film for film in within}

    def _name(self, folder: Path) -> str:
        return folder.relative_to(self.root).as_posix() if folder != self.root else folder.resolve().name or "."

    def _read(self, folder: Path) -> Content:
        stamp = [_stamp(folder / name) for name in (SETTINGS, EVALUATIONS, SUMMARY, RESULTS)]
        if folder not in self._held or self._held[folder][0] != stamp:
            self._held[folder] = (stamp, read_content(folder))
        return self._held[folder][1]

    def _charts(self, name: str) -> list[View]:
        folder = self.folder(name)
        if folder is None:
            return []
        content = self._read(folder)
        return run_charts(content) if isinstance(content, RunFolder) else study_charts(content)

    def _seconds_left(self, item: Item) -> float | None:
        """From the pace since the page was opened; None for a study, whose runs take unequally long."""
        if item.state != "running" or item.kind != "run":
            self._first_seen.pop(item.name, None)
            return None
        batch, when = self._first_seen.setdefault(item.name, (item.done, item.changed))
        if item.done <= batch or item.changed <= when:
            return None
        return (item.planned - item.done) * (item.changed - when) / (item.done - batch)

    def _log(self, folder: Path) -> list[str]:
        """Failures, then the newest evaluations, then the ends of files that are called *.log."""
        content = self._read(folder)
        if isinstance(content, RunFolder):
            lines = [*content.failures, *_evaluation_lines(content)]
        else:
            lines = _study_lines(content)
        for path in sorted(folder.glob("*.log")):
            if is_plain_file(path):
                lines += [f"{path.name}:", *_last_lines(path)]
        return lines


def _study_lines(results: StudyResults) -> list[str]:
    lines = [
        f"{row.cell.name}: {row.planned - row.missing} of {row.planned} definitive runs, {row.search_runs} of search"
        for row in missing(results)
    ]
    for run in results.runs:
        if run.failure:
            lines.append(f"{run.cell.name}, {run.key.stage}, seed {run.key.seed} failed: {run.failure.sentence}")
    return [*lines, *(f"Damaged: {name}" for name in results.damaged)]


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _evaluation_lines(run: RunFolder) -> list[str]:
    evaluations = run.evaluations
    if evaluations is None:
        return ["No evaluation is saved yet."]
    lines = []
    for place in range(len(evaluations.batches) - 1, max(-1, len(evaluations.batches) - 1 - LOG_LINES), -1):
        returns, rates = evaluations.mean_returns[:, place], evaluations.success_rates[:, place]
        left = np.isfinite(returns)
        if left.any():
            said = (
                f"return {returns[left].mean():.2f}, success {rates[left].mean():.2f}, {left.sum()} of {left.size} runs"
            )
            lines.append(f"batch {evaluations.batches[place]:,}: {said}")
    return lines


def _last_lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_BYTES))
            text = file.read(LOG_BYTES).decode(errors="replace")
    except OSError:
        return ["(cannot be read)"]
    # Progress lines overwrite themselves: of each, what was written last counts.
    lines = [line.rpartition("\r")[2] for line in text.replace("\r\n", "\n").split("\n")]
    return ["".join(letter for letter in line if letter.isprintable()) for line in lines if line.strip()][-LOG_LINES:]


def run_charts(run: RunFolder) -> list[View]:
    """Return, success rate, then what the method reported; the mean over runs that did not fail, with its interval."""
    evaluations = run.evaluations
    if evaluations is None:
        return []
    done = np.isfinite(evaluations.final_return)
    names = [name for name in evaluations.metrics if name not in COUNTERS]
    charts = [_chart(_words(name), [_metric(evaluations, name, done, run.method)]) for name in names]
    return [chart for chart in charts if chart["series"][0]["mean"]]


def study_charts(results: StudyResults) -> list[View]:
    """For each environment and batch size the return of its methods, then each metric in the same way."""
    named: dict[str, Sequence[LearningCurve]] = {"average return": learning_curves(results)}
    named |= {_words(name): curves for name, curves in metric_curves(results).items()}
    charts = []
    for words, curves in named.items():
        for place in dict.fromkeys(one.cell[:2] for one in curves):
            here = [one for one in curves if one.cell[:2] == place and one.curve.runs]
            series = [_series(one.cell.method, one.curve, {"episodes": one.episodes}) for one in here]
            if series:
                charts.append(_chart(f"{words}, {place[0]}, batch size {place[1]}", series))
    return charts


def _metric(evaluations: Evaluations, name: str, done: Float[np.ndarray, " run"], method: str) -> View:
    values = evaluations.metrics[name][done]
    known = np.isfinite(values).all(axis=0) if len(values) else np.zeros(len(evaluations.batches), bool)
    here = values[:, known]
    low, high = bootstrap_interval(here, generator=np.random.default_rng(0)) if here.size else (here, here)
    mean = here.mean(axis=0) if here.size else np.zeros(0)
    others = {"episodes": evaluations.episodes[known]}
    steps = evaluations.metrics.get("steps")
    if steps is not None and here.size and np.isfinite(steps[done][:, known]).all():
        others["steps"] = steps[done][:, known].mean(axis=0)
    return _series(method, Curve(evaluations.batches[known], mean, low, high, len(values)), others)


def _series(name: str, curve: Curve, others: Mapping[str, np.ndarray]) -> View:
    """A curve, thinned, with the other things that it can be drawn over."""
    points = len(curve.batches)
    kept = np.unique(np.linspace(0, max(points - 1, 0), min(points, POINTS)).round().astype(int))
    columns = {"mean": curve.mean, "low": curve.low, "high": curve.high}
    where = {"batches": curve.batches, **others}
    return {
        "name": name,
        "runs": curve.runs,
        **{key: [round(float(values[place]), 6) for place in kept] for key, values in columns.items()},
        "over": {key: [float(values[place]) for place in kept] for key, values in where.items()},
    }


def _chart(title: str, series: list[View]) -> View:
    return {"title": title, "series": series}


def _words(name: str) -> str:
    return "average return" if name == "mean_return" else name.replace("_", " ")
