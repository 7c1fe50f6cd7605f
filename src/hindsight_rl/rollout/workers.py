"""A pool of workers in which episodes are played; imports nothing heavy.

The learner asks for one step of many episodes at once. A worker that dies or hangs is replaced, and its episodes are
played again from their seeds with the same actions, so that nothing is lost and nothing differs.
"""

import atexit
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.simulators import Simulator, SimulatorSource
from hindsight_rl.rollout.crew import BEGIN, GOOD, STEP, Hands, Lost, Order, Worker, carry_out
from hindsight_rl.rollout.processes import Processes
from hindsight_rl.rollout.slots import Layout

SECONDS_TO_WAIT = 60.0
"""A worker that has not answered by then hangs."""
SECONDS_TO_START = 180.0
"""A new worker has to import packages and build simulators before its first answer."""
MOST_SIMULATORS = 256
"""Each takes some megabytes: a larger batch is played in turns, but for more workers, who are to have one each."""
ATTEMPTS = 3
"""Workers that may die over the same step before the step itself is to blame."""


@dataclass
class _History:
    """What a slot has been told since its episode began."""

    seeds: np.ndarray | None = None
    goal: np.ndarray | None = None
    """The one to pursue, where it is not the simulator's."""
    actions: list[np.ndarray] = field(default_factory=list)


class WorkerPool:
    """Plays episodes in `slots` over workers: so many processes, or other hands. With no workers, in this process.

    Use it as a context manager. `notice` hears of workers that had to be replaced. A source that cannot travel has a
    single simulator, here. Only the first `places` slots are to be used: nobody has room for any number of simulators.
    """

    def __init__(
        self,
        source: SimulatorSource,
        layout: Layout,
        slots: int,
        workers: int | Hands,
        notice: Callable[[str], None] = lambda sentence: None,
        seconds_to_wait: float = SECONDS_TO_WAIT,
    ):
        self._source = source
        hands = Processes(workers) if isinstance(workers, int) else workers
        hands = hands if source.portable else Processes(0)
        self.places = min(slots, max(MOST_SIMULATORS, hands.count)) if source.portable else 1
        self._notice, self._seconds_to_wait = notice, seconds_to_wait
        self._crew = hands.crew(source, layout, slots)
        self.slots = self._crew.slots
        self._histories = [_History() for _ in range(slots)]
        self._own: dict[int, Simulator] = {}
        shares = [list(range(number, slots, hands.count)) for number in range(min(hands.count, slots))]
        self._workers: list[Worker] = []
        # Where nobody closes the pool, Python asks workers to end and waits for them, however long they hang.
        atexit.register(self._kill)
        self._workers += [self._crew.start(share) for share in shares]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the workers go, and make sure that they have gone."""
        self._crew.dismiss(self._workers)
        self._workers = []
        atexit.unregister(self._kill)
        for simulator in self._own.values():
            simulator.close()
        self._own = {}

    def _kill(self) -> None:
        for worker in self._workers:
            worker.kill()

    def begin(self, slots: Sequence[int] | np.ndarray, seeds: np.ndarray) -> None:
        """Begin an episode in each of some slots; seeds of the episode and of its goal."""
        self.slots.seeds[slots] = seeds
        for slot, pair in zip(slots, seeds, strict=True):
            self._histories[slot] = _History(np.array(pair))
        self._ask(slots, BEGIN)
        self._await_all()

    def pursue(self, slots: Sequence[int], goals: np.ndarray) -> None:
        """Have other goals in some slots than the simulators drew."""
        self.slots.goals[slots] = goals
        for slot, goal in zip(slots, goals, strict=True):
            self._histories[slot].goal = np.array(goal)

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
            numbers = {self._workers[number]: number for number in busy}
            heard = self._crew.heard(list(numbers), self._patience(impatient))
            # When none has answered, the one that was waited for longest is found to hang.
            for number in [numbers[worker] for worker in heard] or [impatient]:
                self._await(number)

    def _ask(self, slots: Sequence[int] | np.ndarray, kind: int) -> None:
        asked = [int(slot) for slot in slots]
        if not self._workers:
            answer = carry_out(self._source, self._own, self.slots, Order(kind, asked))
            if answer != GOOD:
                raise HindsightError(answer.decode())
        for worker in self._workers:
            if mine := [slot for slot in asked if slot in worker.slots]:
                _send(worker, Order(kind, mine))

    def _await_all(self) -> None:
        for number, worker in enumerate(self._workers):
            while worker.orders:
                self._await(number)
                worker = self._workers[number]

    def _limit(self, worker: Worker) -> float:
        return self._seconds_to_wait if worker.has_answered else max(self._seconds_to_wait, SECONDS_TO_START)

    def _patience(self, number: int) -> float:
        """For how many seconds more a busy worker is waited for."""
        worker = self._workers[number]
        return max(0.0, worker.busy_since + self._limit(worker) - time.monotonic())

    def _await(self, number: int) -> None:
        """Wait for a worker's answer, and replace the worker if there is none."""
        trouble = self._hear(number)
        for _ in range(ATTEMPTS):
            if trouble is None:
                return
            trouble = self._replace(number, trouble)
        raise HindsightError(f"Worker {number} {trouble} {ATTEMPTS + 1} times over the same step of {self._source}.")

    def _hear(self, number: int) -> str | None:
        """Wait for a worker's answer: None when it is good, or how the worker is lost."""
        worker = self._workers[number]
        try:
            answer = worker.receive(self._patience(number))
        except Lost as error:
            return str(error)
        if answer is None:
            return f"did not answer for {self._limit(worker):g} seconds"
        worker.has_answered, worker.busy_since = True, time.monotonic()
        worker.orders.popleft()
        if answer != GOOD:
            raise HindsightError(answer.decode())
        return None

    def _replace(self, number: int, trouble: str) -> str | None:
        """Start a worker anew and play its episodes again, up to and including what was asked for last."""
        worker = self._workers[number]
        self._notice(f"Worker {number} {trouble}; it is replaced and its episodes are played again.")
        worker.kill()
        anew = self._workers[number] = self._crew.start(worker.slots)
        playing = [slot for slot in worker.slots if self._histories[slot].seeds is not None]
        histories = {slot: self._histories[slot] for slot in playing}
        for moment in range(-1, max((len(history.actions) for history in histories.values()), default=0)):
            if moment < 0:
                order = Order(BEGIN, playing)
                self.slots.seeds[playing] = [histories[slot].seeds for slot in playing]
            else:
                order = Order(STEP, [slot for slot in playing if moment < len(histories[slot].actions)])
                self.slots.actions[order.slots] = [histories[slot].actions[moment] for slot in order.slots]
            _send(anew, order)
            if again := self._hear(number):
                return again
        for slot, history in histories.items():
            if history.goal is not None:
                self.slots.goals[slot] = history.goal
        return None


def _send(worker: Worker, order: Order) -> None:
    if not worker.orders:
        worker.busy_since = time.monotonic()
    worker.orders.append(order)
    worker.send(order)
