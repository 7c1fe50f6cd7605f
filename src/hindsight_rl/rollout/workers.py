"""Simulators in worker processes that share memory with the one that learns; imports nothing heavy.

The learner asks for one step of many episodes at once. A worker that dies or hangs is replaced, and its episodes are
played again from their seeds with the same actions, so that nothing is lost and nothing differs.
"""

import atexit
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.environments.simulators import Simulator, SimulatorSource
from hindsight_rl.rollout.orphans import end_with_parent
from hindsight_rl.rollout.slots import Layout, Slots

BEGIN, STEP = range(2)
"""What some slots are asked to do."""
GOOD = b""
SECONDS_TO_WAIT = 60.0
"""A worker that has not answered by then hangs."""
SECONDS_TO_START = 180.0
"""A new worker has to import packages and build simulators before its first answer."""
SECONDS_TO_END = 5.0
"""Workers that are then still there, since their simulators hang, are killed."""
ATTEMPTS = 3
"""Workers that may die over the same step before the step itself is to blame."""
UNABLE_TO_START = (
    "A worker process cannot start, as said above: a script that trains must do so below `if __name__ == '__main__':`, "
    "and what makes its environment must be found in a module."
)
"""A new interpreter ends with exit code 1 when the script that it imports, or what it is sent, fails."""


class _Order(NamedTuple):
    """What a worker is told: to begin an episode, or to take an action, in each of some slots."""

    kind: int
    slots: list[int]

    def pack(self) -> bytes:
        return np.array([self.kind, *self.slots], np.int32).tobytes()

    @classmethod
    def unpack(cls, message: bytes) -> "_Order":
        kind, *slots = np.frombuffer(message, np.int32).tolist()
        return cls(kind, slots)


def play_slot(simulator: Simulator, slots: Slots, slot: int, kind: int) -> None:
    """Do what a slot is asked to do, and show what came of it."""
    if kind == BEGIN:
        episode_seed, goal_seed = map(int, slots.seeds[slot])
        seen = simulator.reset(episode_seed)
        slots.goals[slot] = simulator.sample_goal(goal_seed)
    else:
        seen = simulator.step(slots.actions[slot])
    slots.observations[slot] = seen.observation
    slots.achieved_goals[slot] = seen.achieved_goal
    slots.over[slot] = seen.over


def serve(source: SimulatorSource, layout: Layout, slots: int, buffer: Any, connection: Connection) -> None:
    """The life of a worker: it ends when the learner closes the connection, or is gone."""
    for interruption in (signal.SIGINT, signal.SIGHUP):  # these are the learner's to handle
        signal.signal(interruption, signal.SIG_IGN)
    if parent := multiprocessing.parent_process():
        end_with_parent(parent.pid or 0)
    shared = Slots.within(buffer, layout, slots)
    simulators: dict[int, Simulator] = {}
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            order = _Order.unpack(connection.recv_bytes())
            connection.send_bytes(_answer(source, simulators, shared, order))
    for simulator in simulators.values():
        simulator.close()


def _answer(source: SimulatorSource, simulators: dict[int, Simulator], shared: Slots, order: _Order) -> bytes:
    """Carry out an order; an error becomes a sentence."""
    try:
        for slot in order.slots:
            if slot not in simulators:
                simulators[slot] = source.build()
            play_slot(simulators[slot], shared, slot, order.kind)
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
    orders: deque[_Order] = field(default_factory=deque)
    """Those that it has not answered yet, the oldest first."""
    busy_since: float = 0.0
    """When it was given the oldest of them, or answered the one before that."""
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
        self._workers: list[_Worker] = []
        # Where nobody closes the pool, Python asks workers to end and waits for them, however long they hang.
        atexit.register(self._kill)
        self._workers += [self._start(share) for share in shares]

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
        deadline = time.monotonic() + SECONDS_TO_END
        for worker in self._workers:
            worker.process.join(timeout=max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self._workers = []
        atexit.unregister(self._kill)
        for simulator in self._own.values():
            simulator.close()
        self._own = {}

    def _kill(self) -> None:
        for worker in self._workers:
            worker.process.kill()

    def begin(self, slots: Sequence[int] | np.ndarray, seeds: np.ndarray) -> None:
        """Begin an episode in each of some slots; seeds of the episode and of its goal."""
        self.slots.seeds[slots] = seeds
        for slot, pair in zip(slots, seeds, strict=True):
            self._histories[slot] = _History(np.array(pair))
        self._ask(slots, BEGIN)
        self._await_all()

    def step(self, slots: Sequence[int] | np.ndarray, actions: np.ndarray) -> None:
        """Take an action in each of some slots."""
        self.ask(slots, actions)
        self._await_all()

    def ask(self, slots: Sequence[int] | np.ndarray, actions: np.ndarray) -> None:
        """Have an action taken in each of some slots, and do not wait for it; `answered` says when it is done."""
        self.slots.actions[slots] = actions
        for slot, action in zip(slots, actions, strict=True):
            self._histories[slot].actions.append(np.array(action))
        self._ask(slots, STEP)

    def answered(self, teams: Mapping[int, np.ndarray]) -> int:
        """Wait until all that was asked of one of some teams of slots is done, and say which; the first if several."""
        while True:
            busy = [number for number, worker in enumerate(self._workers) if worker.orders]
            pending = {slot for number in busy for order in self._workers[number].orders for slot in order.slots}
            for team, slots in teams.items():
                if pending.isdisjoint(slots.tolist()):
                    return team
            impatient = min(busy, key=self._patience)
            numbers = {self._workers[number].connection: number for number in busy}
            ready = [numbers[each] for each in wait(list(numbers), self._patience(impatient))]  # type: ignore[index]
            # When none has answered, the one that was waited for longest is found to hang.
            for number in ready or [impatient]:
                self._await(number, heard=bool(ready))

    def _ask(self, slots: Sequence[int] | np.ndarray, kind: int) -> None:
        asked = [int(slot) for slot in slots]
        if not self._workers:
            answer = _answer(self._source, self._own, self.slots, _Order(kind, asked))
            if answer != GOOD:
                raise HindsightError(answer.decode())
        for worker in self._workers:
            if mine := [slot for slot in asked if slot in worker.slots]:
                _send(worker, _Order(kind, mine))

    def _await_all(self) -> None:
        for number, worker in enumerate(self._workers):
            while worker.orders:
                self._await(number)
                worker = self._workers[number]

    def _limit(self, worker: _Worker) -> float:
        return self._seconds_to_wait if worker.has_answered else max(self._seconds_to_wait, SECONDS_TO_START)

    def _patience(self, number: int) -> float:
        """For how many seconds more a busy worker is waited for."""
        worker = self._workers[number]
        return max(0.0, worker.busy_since + self._limit(worker) - time.monotonic())

    def _await(self, number: int, heard: bool = False) -> None:
        """Wait for a worker's answer, unless it has been heard, and replace the worker if there is none."""
        trouble = self._hear(number, heard)
        for _ in range(ATTEMPTS):
            if trouble is None:
                return
            trouble = self._replace(number, trouble)
        raise HindsightError(f"Worker {number} {trouble} {ATTEMPTS + 1} times over the same step of {self._source}.")

    def _hear(self, number: int, heard: bool = False) -> str | None:
        """A worker's answer, to be waited for unless it has been heard: None when it is good, or what is wrong."""
        worker = self._workers[number]
        try:
            if not heard and not worker.connection.poll(self._patience(number)):
                return f"did not answer for {self._limit(worker):g} seconds"
            answer = worker.connection.recv_bytes()
            worker.has_answered, worker.busy_since = True, time.monotonic()
            worker.orders.popleft()
        except (EOFError, ConnectionResetError, BrokenPipeError):
            worker.process.join(timeout=5)
            if worker.process.exitcode == 1 and not worker.has_answered:
                raise HindsightError(UNABLE_TO_START) from None
            return f"died (exit code {worker.process.exitcode})"
        if answer != GOOD:
            raise HindsightError(answer.decode())
        return None

    def _replace(self, number: int, trouble: str) -> str | None:
        """Start a worker anew and play its episodes again, up to and including what was asked for last."""
        worker = self._workers[number]
        self._notice(f"Worker {number} {trouble}; it is replaced and its episodes are played again.")
        worker.connection.close()
        worker.process.kill()
        worker.process.join()
        anew = self._workers[number] = self._start(worker.slots)
        playing = [slot for slot in worker.slots if self._histories[slot].seeds is not None]
        histories = {slot: self._histories[slot] for slot in playing}
        for moment in range(-1, max((len(history.actions) for history in histories.values()), default=0)):
            if moment < 0:
                order = _Order(BEGIN, playing)
                self.slots.seeds[playing] = [histories[slot].seeds for slot in playing]
            else:
                order = _Order(STEP, [slot for slot in playing if moment < len(histories[slot].actions)])
                self.slots.actions[order.slots] = [histories[slot].actions[moment] for slot in order.slots]
            _send(anew, order)
            if again := self._hear(number):
                return again
        return None

    def _start(self, slots: list[int]) -> _Worker:
        ours, theirs = self._context.Pipe()
        arguments = (self._source, self._layout, self._count, self._buffer, theirs)
        process = self._context.Process(target=serve, args=arguments, daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours, slots)


def _send(worker: _Worker, order: _Order) -> None:
    if not worker.orders:
        worker.busy_since = time.monotonic()
    worker.orders.append(order)
    # A dead worker is noticed when its answer is awaited.
    with suppress(BrokenPipeError, ConnectionResetError):
        worker.connection.send_bytes(order.pack())
