"""Simulators in worker processes that share memory with the one that learns; imports nothing heavy.

The learner asks for one step of many episodes at once. A worker that dies or hangs is replaced, and its episodes are
played again from their seeds with the same actions, so that nothing is lost and nothing differs.
"""

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from hindsight.core.errors import HindsightError
from hindsight.environments.simulators import Simulator, SimulatorSource, gist

IDLE, BEGIN, STEP = range(3)
"""What a slot is asked to do."""
GOOD = b""
SECONDS_TO_WAIT = 60.0
"""A worker that has not answered by then hangs."""
SECONDS_TO_START = 180.0
"""A new worker has to import packages and build simulators before its first answer."""
ATTEMPTS = 3
"""Workers that may die over the same step before the step itself is to blame."""
UNABLE_TO_START = (
    "A worker process cannot start, as said above: a script that trains must do so below `if __name__ == '__main__':`, "
    "and what makes its environment must be found in a module."
)
"""A new interpreter ends with exit code 1 when the script that it imports, or what it is sent, fails."""


class Layout(NamedTuple):
    """Shapes and types of what an episode shows and takes."""

    observation_shape: tuple[int, ...]
    observation_type: str
    goal_shape: tuple[int, ...]
    action_shape: tuple[int, ...]
    """Empty for an action that is a whole number."""


class Slots(NamedTuple):
    """The shared memory, as arrays with a row for each slot: a place in which one episode is played."""

    orders: np.ndarray
    seeds: np.ndarray
    """Of the episode, and of its goal."""
    actions: np.ndarray
    observations: np.ndarray
    achieved_goals: np.ndarray
    goals: np.ndarray
    over: np.ndarray

    @classmethod
    def shapes(cls, layout: Layout, slots: int) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Shape and type of each array."""
        action_type = np.float32 if layout.action_shape else np.int64
        return [
            ((slots,), np.dtype(np.int8)),
            ((slots, 2), np.dtype(np.uint64)),
            ((slots, *layout.action_shape), np.dtype(action_type)),
            ((slots, *layout.observation_shape), np.dtype(layout.observation_type)),
            ((slots, *layout.goal_shape), np.dtype(np.float32)),
            ((slots, *layout.goal_shape), np.dtype(np.float32)),
            ((slots,), np.dtype(np.bool_)),
        ]

    @classmethod
    def size(cls, layout: Layout, slots: int) -> int:
        """Bytes of shared memory."""
        return sum(_aligned(int(np.prod(shape)) * kind.itemsize) for shape, kind in cls.shapes(layout, slots))

    @classmethod
    def within(cls, buffer: Any, layout: Layout, slots: int) -> "Slots":
        """The arrays in a piece of memory."""
        arrays, offset = [], 0
        for shape, kind in cls.shapes(layout, slots):
            count = int(np.prod(shape))
            arrays.append(np.frombuffer(buffer, kind, count, offset).reshape(shape))
            offset += _aligned(count * kind.itemsize)
        return cls(*arrays)


def _aligned(size: int) -> int:
    return -(-size // 64) * 64


def play_order(simulator: Simulator, slots: Slots, slot: int) -> None:
    """Do what a slot is asked to do, and show what came of it."""
    if slots.orders[slot] == BEGIN:
        episode_seed, goal_seed = map(int, slots.seeds[slot])
        seen = simulator.reset(episode_seed)
        slots.goals[slot] = simulator.sample_goal(goal_seed)
    else:
        seen = simulator.step(slots.actions[slot])
    slots.observations[slot] = seen.observation
    slots.achieved_goals[slot] = seen.achieved_goal
    slots.over[slot] = seen.over


def serve(
    source: SimulatorSource, layout: Layout, slots: int, buffer: Any, mine: Sequence[int], connection: Connection
) -> None:
    """The life of a worker: it ends when the learner closes the connection, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the learner's to handle
    shared = Slots.within(buffer, layout, slots)
    simulators: dict[int, Simulator] = {}
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            connection.recv_bytes()
            connection.send_bytes(_answer(source, simulators, shared, mine))
    for simulator in simulators.values():
        simulator.close()


def _answer(source: SimulatorSource, simulators: dict[int, Simulator], shared: Slots, mine: Sequence[int]) -> bytes:
    """Play all orders of a worker; an error becomes a sentence."""
    try:
        for slot in mine:
            if shared.orders[slot] != IDLE:
                if slot not in simulators:
                    simulators[slot] = source.build()
                play_order(simulators[slot], shared, slot)
    except HindsightError as error:
        return str(error).encode()
    except Exception as error:
        return f"The environment raised {gist(error)}.".encode()
    return GOOD


@dataclass
class _Worker:
    process: Any
    connection: Connection
    slots: list[int]
    has_answered: bool = False


@dataclass
class _History:
    """What a slot has been told since its episode began."""

    seeds: np.ndarray | None = None
    actions: list[np.ndarray] = field(default_factory=list)


class WorkerPool:
    """Plays episodes in `slots` over worker processes; with no workers, in this process.

    Use it as a context manager. `notice` hears of workers that had to be replaced. A source that cannot travel has a
    single simulator, here: then only the first slot is to be used, and `places` is 1.
    """

    def __init__(
        self,
        source: SimulatorSource,
        layout: Layout,
        slots: int,
        workers: int,
        notice: Callable[[str], None] = lambda sentence: None,
        seconds_to_wait: float = SECONDS_TO_WAIT,
    ):
        self._source, self._layout, self._count = source, layout, slots
        self.places = slots if source.portable else 1
        workers = workers if source.portable else 0
        self._notice, self._seconds_to_wait = notice, seconds_to_wait
        # A fresh interpreter: a fork would carry JAX's locks along, held by threads that are not there.
        self._context = multiprocessing.get_context("spawn")
        self._buffer = self._context.RawArray("b", Slots.size(layout, slots))
        self.slots = Slots.within(self._buffer, layout, slots)
        self._histories = [_History() for _ in range(slots)]
        self._own: dict[int, Simulator] = {}
        shares = [list(range(number, slots, workers)) for number in range(min(workers, slots))]
        self._workers = [self._start(share) for share in shares]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the workers go, and make sure that they have gone."""
        for worker in self._workers:
            worker.connection.close()
        for worker in self._workers:
            worker.process.join(timeout=5)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self._workers = []
        for simulator in self._own.values():
            simulator.close()
        self._own = {}

    def begin(self, slots: Sequence[int] | np.ndarray, seeds: np.ndarray) -> None:
        """Begin an episode in each of some slots; seeds of the episode and of its goal."""
        self.slots.orders[:] = IDLE
        self.slots.orders[slots] = BEGIN
        self.slots.seeds[slots] = seeds
        for slot, pair in zip(slots, seeds, strict=True):
            self._histories[slot] = _History(np.array(pair))
        self._play()

    def step(self, slots: Sequence[int] | np.ndarray, actions: np.ndarray) -> None:
        """Take an action in each of some slots."""
        self.slots.orders[:] = IDLE
        self.slots.orders[slots] = STEP
        self.slots.actions[slots] = actions
        for slot, action in zip(slots, actions, strict=True):
            self._histories[slot].actions.append(np.array(action))
        self._play()

    def _play(self) -> None:
        if not self._workers:
            answer = _answer(self._source, self._own, self.slots, range(self._count))
            if answer != GOOD:
                raise HindsightError(answer.decode())
            return
        busy = [number for number, worker in enumerate(self._workers) if np.any(self.slots.orders[worker.slots])]
        for number in busy:
            # A dead worker is noticed when its answer is awaited.
            with suppress(BrokenPipeError, ConnectionResetError):
                self._workers[number].connection.send_bytes(GOOD)
        for number in busy:
            self._await(number)

    def _await(self, number: int) -> None:
        """Wait for a worker's answer, and replace the worker if there is none."""
        trouble = self._hear(number)
        for _ in range(ATTEMPTS):
            if trouble is None:
                return
            trouble = self._replace(number, trouble)
        raise HindsightError(f"Worker {number} {trouble} {ATTEMPTS + 1} times over the same step of {self._source}.")

    def _hear(self, number: int) -> str | None:
        """A worker's answer: None when it is good, or what is wrong with the worker."""
        worker = self._workers[number]
        patience = self._seconds_to_wait if worker.has_answered else max(self._seconds_to_wait, SECONDS_TO_START)
        try:
            if not worker.connection.poll(patience):
                return f"did not answer for {patience:g} seconds"
            answer = worker.connection.recv_bytes()
            worker.has_answered = True
        except (EOFError, ConnectionResetError, BrokenPipeError):
            worker.process.join(timeout=5)
            if worker.process.exitcode == 1 and not worker.has_answered:
                raise HindsightError(UNABLE_TO_START) from None
            return f"died (exit code {worker.process.exitcode})"
        if answer != GOOD:
            raise HindsightError(answer.decode())
        return None

    def _replace(self, number: int, trouble: str) -> str | None:
        """Start a worker anew and play its episodes again, up to and including the step that was asked for."""
        worker = self._workers[number]
        self._notice(f"Worker {number} {trouble}; it is replaced and its episodes are played again.")
        worker.connection.close()
        worker.process.kill()
        worker.process.join()
        self._workers[number] = self._start(worker.slots)
        orders = self.slots.orders.copy()
        # A slot whose episode is over, and that was asked for nothing, needs no playing again.
        playing = [slot for slot in worker.slots if self._histories[slot].seeds is not None and orders[slot] != IDLE]
        longest = max((len(self._histories[slot].actions) for slot in playing), default=0)
        wanted = self.slots.actions.copy()
        for moment in range(-1, longest):
            self.slots.orders[worker.slots] = IDLE
            for slot in playing:
                history = self._histories[slot]
                if moment < 0:
                    self.slots.orders[slot], self.slots.seeds[slot] = BEGIN, history.seeds
                elif moment < len(history.actions):
                    self.slots.orders[slot], self.slots.actions[slot] = STEP, history.actions[moment]
            try:
                self._workers[number].connection.send_bytes(GOOD)
            except (BrokenPipeError, ConnectionResetError):
                return "died"
            if again := self._hear(number):
                return again
        self.slots.orders[:] = orders
        self.slots.actions[:] = wanted
        return None

    def _start(self, slots: list[int]) -> _Worker:
        ours, theirs = self._context.Pipe()
        arguments = (self._source, self._layout, self._count, self._buffer, slots, theirs)
        process = self._context.Process(target=serve, args=arguments, daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours, slots)
