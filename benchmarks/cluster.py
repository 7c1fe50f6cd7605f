"""Studies past one machine: what a piece costs, one and two cores, and 1,000 pretended workers against the one writer.

`python benchmarks/cluster.py overhead`, `scaling` or `writer`; without a word, all three.
"""

import argparse
import itertools
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from hindsight_rl.experiments.cluster import engine
from hindsight_rl.experiments.cluster.connection import Cluster, connected
from hindsight_rl.experiments.cluster.messages import Order, finished
from hindsight_rl.experiments.cluster.placement import Placement
from hindsight_rl.experiments.study.files import parse_study
from hindsight_rl.experiments.study.plan import Study
from hindsight_rl.experiments.study.run import run_study
from hindsight_rl.experiments.study.worker import Observer
from hindsight_rl.records.runs import FinishedRun
from hindsight_rl.records.versions import versions

EVALUATIONS = 101
"""Of each pretended run: as many as 1,000 batches have that are evaluated every ten."""
STUDY = """
environments = ["bit-flipping-8"]
methods = ["hpg"]
batch_sizes = [{sizes}]
learning_rates = [1e-2]
hidden_layers = [16]
search = {{ runs = 1, batches = {batches}, evaluate_every = 10, evaluation_episodes = 32 }}
definitive = {{ runs = {runs}, batches = {batches}, evaluate_every = 10, evaluation_episodes = 32 }}
"""
LEAST_ROUNDS = 3


def study_of(cells: int, runs: int, batches: int = 1000) -> Study:
    """A study with so many cells, each with so many definitive runs."""
    sizes = ", ".join(str(size) for size in range(2, 2 + cells))
    return parse_study(STUDY.format(sizes=sizes, runs=runs, batches=batches), "the benchmark", "benchmark")


def pretended(order_text: str, checkpoint: bytes | None = None) -> Iterator[bytes]:
    """What a worker says of a piece that it does not train: results of the usual size, at once."""
    order = Order.read(order_text)
    batches = np.arange(EVALUATIONS, dtype=np.int64) * 10
    values = np.linspace(0, 1, EVALUATIONS)
    about = {"made_with": versions(), "processor": "", "machine_name": "pretended", "node": order.number[:3]}
    settings = order.piece.settings.flat
    runs = [
        FinishedRun(
            cell=order.piece.plan.cell,
            key=key,
            settings=settings,
            batches=batches,
            episodes=batches * 8,
            metrics={"mean_return": values, "success_rate": values},
            seconds=1.0,
            failure=None,
            records={},
        )
        for key in order.piece.keys
    ]
    yield finished(order.number, runs, None, {**about, "notices": []}).to_bytes()


class PretendedRay:
    """As much of Ray as the engine uses, with so many workers, each of which needs some time for a piece."""

    def __init__(self, workers: int, seconds: float):
        self._workers, self._seconds = workers, seconds
        self.spent = [0.0, 0.0]
        """Seconds, and seconds of CPU, that went into what workers would have done."""
        self._running: deque[tuple[float, Any]] = deque()
        self._waiting: deque[Any] = deque()
        self.exceptions = _Exceptions

    def nodes(self) -> list[dict[str, Any]]:
        """One large machine."""
        return [{"NodeID": "all", "Alive": True, "Resources": {"CPU": self._workers, "memory": 2**60}}]

    def remote(self, function: Any) -> Any:
        """Something with `options` and `remote`, as Ray's."""
        return _Remote(self)

    def begin(self, handle: Any) -> Any:
        """Run a piece, or have it wait for a worker."""
        self._waiting.append(handle)
        self._advance()
        return handle

    def _advance(self) -> None:
        while self._waiting and len(self._running) < self._workers:
            self._running.append((time.monotonic() + self._seconds, self._waiting.popleft()))

    def wait(self, handles: Any, num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        """Those that are done; all pieces take equally long, so that the first begun are the first done."""
        if self._running and timeout:
            time.sleep(max(0.0, min(timeout, self._running[0][0] - time.monotonic())))
        now, most = time.monotonic(), num_returns
        ready = [handle for due, handle in itertools.islice(self._running, most) if due <= now]
        return ready, []

    def get(self, content: bytes) -> bytes:
        """The content itself; its worker takes the next piece."""
        self._running.popleft()
        self._advance()
        return content

    def cancel(self, handle: Any, force: bool) -> None:
        """Nothing runs after its end."""


class _Exceptions:
    class RayError(Exception):
        """Never raised here."""

    class RaySystemError(RayError):
        """Never raised here."""


class _Remote:
    def __init__(self, ray: PretendedRay):
        self._ray = ray

    def options(self, **options: Any) -> "_Remote":
        return self

    def remote(self, order_text: str, checkpoint: bytes | None) -> Any:
        return self._ray.begin(self._said(order_text))

    def _said(self, order_text: str) -> Iterator[bytes]:
        began, used = time.monotonic(), time.process_time()
        messages = list(pretended(order_text))
        self._ray.spent[0] += time.monotonic() - began
        self._ray.spent[1] += time.process_time() - used
        yield from messages


def measure_writer(workers: int, seconds: float, cells: int, runs: int) -> str:
    """Results that the one writer takes in a second from so many workers, and its memory."""
    study, ray, count = study_of(cells, runs), PretendedRay(workers, seconds), cells * runs
    cluster, observer = Cluster(ray, "pretended"), Observer(notice=print)
    with tempfile.TemporaryDirectory() as folder:
        began, used = time.monotonic(), time.process_time()
        run_study(study, Path(folder) / "study", observer, engine=engine.RayEngine(cluster, Placement()))
        took = time.monotonic() - began - ray.spent[0]
        used = time.process_time() - used - ray.spent[1]
        size = (Path(folder) / "study" / "results.sqlite").stat().st_size
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    offered = f"{5 * workers / seconds:.0f}" if seconds else "any"
    return (
        f"{workers:>6} workers, {seconds:g} s a piece (offered {offered} results/s), {cells} cells of {runs} runs: "
        f"{count / took:.0f} results/s, {5e3 * used / count:.1f} ms of the writer's CPU a piece "
        f"({count / used:.0f} results for a second of it), {memory:.0f} MB, file {size / 1e6:.0f} MB"
    )


def measure_overhead(pieces: int) -> str:
    """Milliseconds that a piece takes on a real Ray when its runs take none."""
    study, moments = study_of(1, 5 * pieces), list[float]()
    observer = Observer(finish=lambda piece, runs: moments.append(time.monotonic()), notice=print)
    vars(engine)["work_stepwise"] = pretended
    with tempfile.TemporaryDirectory() as folder, connected("ray") as cluster:
        run_study(study, Path(folder) / "study", observer, engine=engine.RayEngine(cluster, Placement()))
    # The first ones start the workers, which import JAX.
    gaps = 1e3 * np.diff(moments[len(moments) // 4 :])
    mean, median = np.mean(gaps), np.median(gaps)
    return f"overhead of a piece of five runs: {mean:.1f} ms (median {median:.1f}) over {len(gaps)} pieces"


TIMED = """
import os, sys, time
from pathlib import Path
os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: int(sys.argv[1])]))
sys.path.insert(0, sys.argv[3])
from cluster import timed
print(*timed(Path(sys.argv[2])))
"""


def timed(folder: Path) -> tuple[float, float]:
    """Seconds and seconds of CPU of a piece, on a Ray with the cores that this process may use."""
    moments, spent = list[float](), list[float]()

    def finish(piece: object, runs: object) -> None:
        moments.append(time.monotonic())
        spent.append(spent_by_all())

    study = study_of(1, 60, batches=3000)
    with connected("ray") as cluster:
        run_study(study, folder, Observer(finish=finish, notice=print), engine=engine.RayEngine(cluster, Placement()))
    # The first pieces compile; each worker does so once.
    first = 2 * len(os.sched_getaffinity(0)) - 1
    pieces = len(moments) - 1 - first
    return (moments[-1] - moments[first]) / pieces, (spent[-1] - spent[first]) / pieces


def spent_by_all() -> float:
    """Seconds of CPU of this process and all below it: Ray's processes, the workers, and the one writer."""
    parents, spent = dict[int, int](), dict[int, int]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            words, process = path.read_text().rpartition(")")[2].split(), int(path.parent.name)
            parents[process], spent[process] = int(words[1]), int(words[11]) + int(words[12])
    ours = {os.getpid()}
    while below := {process for process, parent in parents.items() if parent in ours} - ours:
        ours |= below
    return sum(spent[process] for process in ours) / os.sysconf("SC_CLK_TCK")


def measure_scaling() -> str:
    """Pieces in a second on one core and on both, in turn; both as the clock and as the processors have it."""
    rounds: dict[int, list[list[float]]] = {1: [], 2: []}
    for _, cores in itertools.product(range(LEAST_ROUNDS), rounds):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", TIMED, str(cores), f"{folder}/study", str(Path(__file__).parent)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            rounds[cores].append([float(word) for word in done.stdout.split()])
    (one, one_cpu), (two, two_cpu) = (np.median(values, axis=0) for values in rounds.values())
    spread = "; ".join(
        f"{cores}: {', '.join(f'{clock:.2f} ({cpu:.2f})' for clock, cpu in values)}" for cores, values in rounds.items()
    )
    return (
        f"seconds a piece (of CPU): one core {one:.2f} ({one_cpu:.2f}), two {two:.2f} ({two_cpu:.2f}): efficiency "
        f"{one / two / 2:.2f}, as the processors have it {one_cpu / two_cpu:.2f} (rounds {spread})"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["overhead", "scaling", "writer"])
    what = parser.parse_args().what
    load = os.getloadavg()[0]
    print(f"load of the machine before: {load:.1f}, cores: {os.cpu_count()}", flush=True)
    if what in (None, "overhead"):
        print(measure_overhead(200), flush=True)
    if what in (None, "scaling"):
        print(measure_scaling(), flush=True)
    if what in (None, "writer"):
        for workers, seconds, cells, runs in WRITER:
            print(measure_writer(workers, seconds, cells, runs), flush=True)


WRITER = [(1000, 0.0, 10, 500), (1000, 60.0, 10, 1000), (1000, 0.0, 100, 50), (10_000, 0.0, 10, 2000)]
"""Workers, seconds of a piece, cells of the study and runs of a cell."""

if __name__ == "__main__":
    main()
