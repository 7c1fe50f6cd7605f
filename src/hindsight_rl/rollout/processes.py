"""Worker processes that share memory with the one that learns; imports nothing heavy."""

import multiprocessing
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.environments.simulators import Simulator, SimulatorSource
from hindsight_rl.rollout.crew import Crew, Lost, Order, Worker, carry_out
from hindsight_rl.rollout.orphans import end_with_parent
from hindsight_rl.rollout.slots import Layout, Slots

SECONDS_TO_END = 5.0
"""Workers that are then still there, since their simulators hang, are killed."""
UNABLE_TO_START = (
    "A worker process cannot start, as said above: a script that trains must do so below `if __name__ == '__main__':`, "
    "and what makes its environment must be found in a module."
)
"""A new interpreter ends with exit code 1 when the script that it imports, or what it is sent, fails."""


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
            order = Order.unpack(connection.recv_bytes())
            try:
                answer = carry_out(source, simulators, shared, order)
            except (KeyboardInterrupt, SystemExit) as error:  # here it can only be the environment that raises these
                answer = f"The environment raised {gist(error)}.".encode()
            connection.send_bytes(answer)
    for simulator in simulators.values():
        simulator.close()


@dataclass(eq=False)
class ProcessWorker(Worker):
    """A process, and the connection over which it is told what to do."""

    process: Any
    connection: Connection

    def send(self, order: Order) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send_bytes(order.pack())

    def receive(self, seconds: float) -> bytes | None:
        try:
            return self.connection.recv_bytes() if self.connection.poll(seconds) else None
        except (EOFError, ConnectionResetError, BrokenPipeError):
            self.process.join(timeout=5)
            if self.process.exitcode == 1 and not self.has_answered:
                raise HindsightError(UNABLE_TO_START) from None
            raise Lost(f"died (exit code {self.process.exitcode})") from None

    def kill(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


class ProcessCrew(Crew):
    """Processes of this machine, with what they show in memory that they share."""

    def __init__(self, source: SimulatorSource, layout: Layout, slots: int):
        self._source, self._layout, self._count = source, layout, slots
        # A fresh interpreter: a fork would carry JAX's locks along, held by threads that are not there.
        self._context = multiprocessing.get_context("spawn")
        self._buffer = self._context.RawArray("b", Slots.size(layout, slots))
        self.slots = Slots.within(self._buffer, layout, slots)

    def start(self, slots: list[int]) -> ProcessWorker:
        ours, theirs = self._context.Pipe()
        arguments = (self._source, self._layout, self._count, self._buffer, theirs)
        process = self._context.Process(target=serve, args=arguments, daemon=True)
        process.start()
        theirs.close()
        return ProcessWorker(slots, process, ours)

    def heard(self, workers: Sequence[Worker], seconds: float) -> list[Worker]:
        by_connection = {worker.connection: worker for worker in workers if isinstance(worker, ProcessWorker)}
        return [by_connection[each] for each in wait(list(by_connection), seconds)]  # type: ignore[index]

    def dismiss(self, workers: Sequence[Worker]) -> None:
        mine = [worker for worker in workers if isinstance(worker, ProcessWorker)]
        for worker in mine:
            worker.connection.close()
        deadline = time.monotonic() + SECONDS_TO_END
        for worker in mine:
            worker.process.join(timeout=max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.kill()


@dataclass(frozen=True)
class Processes:
    """So many worker processes."""

    count: int

    def crew(self, source: SimulatorSource, layout: Layout, slots: int) -> ProcessCrew:
        """Processes of this machine."""
        return ProcessCrew(source, layout, slots)
