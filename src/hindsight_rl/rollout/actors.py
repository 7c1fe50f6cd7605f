"""Workers on other machines: actors of Ray, which are told names and numbers and answer with numbers, as bytes.

A machine other than the learner's shares no memory with it, so that seeds and actions go with each order, and what the
simulators show comes back with each answer.
"""

import json
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.environments.extras import import_gymnasium
from hindsight_rl.environments.simulators import Simulator, SimulatorSource
from hindsight_rl.records.versions import deciding, difference, simulator_versions, versions
from hindsight_rl.rollout.crew import BEGIN, GOOD, Crew, Lost, Order, Worker, carry_out
from hindsight_rl.rollout.slots import Layout, Slots

DONE, SAID = b"\0", b"\1"
"""How an answer begins: with what the simulators show, or with a sentence."""
SPECIFICATION, FUNCTION = "gymnasium specification", "function"
"""What is spelled out by name where an environment is made from more than text."""
SECONDS_BETWEEN_LOOKS = 2.0
"""So long is an answer awaited before the head of the cluster is asked after."""


class Player:
    """The life of an actor: stateless but for its simulators, which an order to begin sets anew."""

    def __init__(self, told: str):
        """`told` is JSON: how to make a simulator, what it shows, and with which versions."""
        content = json.loads(told, object_hook=_unspelled)
        self._source, self._layout = SimulatorSource(**content["source"]), Layout(*map(_hashable, content["layout"]))
        self._made_with: Mapping[str, str] = content["made_with"]
        count = content["slots"]
        self._slots = Slots.within(bytearray(Slots.size(self._layout, count)), self._layout, count)
        self._simulators: dict[int, Simulator] = {}
        self._trouble = difference(deciding(self._made_with), deciding(versions()))
        self._compared = False

    def play(self, message: bytes) -> bytes:
        """Carry out an order."""
        order = _received(message, self._slots)
        answer = GOOD if self._trouble else carry_out(self._source, self._simulators, self._slots, order)
        if not self._compared:
            # Only now is it known which packages the simulators use.
            self._trouble = self._trouble or difference(self._made_with, simulator_versions(sys.modules))
            self._compared = True
        if self._trouble:
            answer = f"other versions are installed ({self._trouble}): install the same on all.".encode()
        if answer != GOOD:
            return SAID + f"On the machine '{socket.gethostname()}': ".encode() + answer
        return DONE + b"".join(array[order.slots].tobytes() for array in _shown(self._slots, order))


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _message(order: Order, slots: Slots) -> bytes:
    """An order with what it is about: seeds, or actions."""
    header = order.pack()
    told = (slots.seeds if order.kind == BEGIN else slots.actions)[order.slots].tobytes()
    return len(header).to_bytes(4, "little") + header + told


def _received(message: bytes, slots: Slots) -> Order:
    """The order of a message; what it is about goes into the slots."""
    end = 4 + int.from_bytes(message[:4], "little")
    order = Order.unpack(message[4:end])
    _fill(slots.seeds if order.kind == BEGIN else slots.actions, order, message[end:])
    return order


def _shown(slots: Slots, order: Order) -> list[np.ndarray]:
    """What an answer holds. Goals only where simulators draw them: later on the learner may have others."""
    shown = [slots.observations, slots.achieved_goals, slots.over]
    return [*shown, slots.goals] if order.kind == BEGIN else shown


def _fill(array: np.ndarray, order: Order, content: bytes) -> bytes:
    """Put the first bytes of some content into the rows of an order; the rest of the content."""
    count = len(order.slots) * int(np.prod(array.shape[1:]))
    array[order.slots] = np.frombuffer(content, array.dtype, count).reshape(len(order.slots), *array.shape[1:])
    return content[count * array.itemsize :]


@dataclass(eq=False)
class ActorWorker(Worker):
    """An actor, and its answers to come."""

    ray: Any
    actor: Any
    require_head: Callable[[], None]
    shared: Slots
    """Where its answers go."""
    answers: deque[Any] = field(default_factory=deque)

    def send(self, order: Order) -> None:
        self.answers.append(self.actor.play.remote(_message(order, self.shared)))

    def receive(self, seconds: float) -> bytes | None:
        try:
            ready, _ = _awaited(self.ray, [self.answers[0]], seconds, self.require_head)
            if not ready:
                return None
            answer = self.ray.get(self.answers.popleft())
        except self.ray.exceptions.RaySystemError as error:
            raise HindsightError(f"Ray is gone ({gist(error)}).") from error
        except self.ray.exceptions.RayError as error:
            raise Lost(f"was lost ({gist(error)})") from error
        if answer[:1] == SAID:
            return answer[1:]
        rest = answer[1:]
        for array in _shown(self.shared, self.orders[0]):
            rest = _fill(array, self.orders[0], rest)
        return GOOD

    def kill(self) -> None:
        with suppress(Exception):  # it may be gone, or Ray itself
            self.ray.kill(self.actor)


def _awaited(ray: Any, answers: list[Any], seconds: float, require_head: Callable[[], None]) -> tuple[list[Any], Any]:
    """Those answers that have come, as soon as there is one; none by then."""
    deadline = time.monotonic() + seconds
    while True:
        patience = max(0.0, min(SECONDS_BETWEEN_LOOKS, deadline - time.monotonic()))
        require_head()
        ready, rest = ray.wait(answers, num_returns=1, timeout=patience)
        if ready or time.monotonic() >= deadline:
            return ready, rest


class ActorCrew(Crew):
    """Actors wherever the cluster has room."""

    def __init__(self, hands: "RayActors", source: SimulatorSource, layout: Layout, slots: int):
        self._ray, self._require_head = hands.ray, hands.require_head
        self._told = _told(source, layout, slots)
        options = {"num_cpus": hands.share, "scheduling_strategy": "SPREAD", "max_restarts": 0, "max_task_retries": 0}
        self._make = self._ray.remote(Player).options(**options)
        self.slots = Slots.within(bytearray(Slots.size(layout, slots)), layout, slots)

    def start(self, slots: list[int]) -> ActorWorker:
        return ActorWorker(slots, self._ray, self._make.remote(self._told), self._require_head, self.slots)

    def heard(self, workers: Sequence[Worker], seconds: float) -> list[Worker]:
        owners = {worker.answers[0]: worker for worker in workers if isinstance(worker, ActorWorker)}
        ready, _ = _awaited(self._ray, list(owners), seconds, self._require_head)
        return [owners[each] for each in ready]

    def dismiss(self, workers: Sequence[Worker]) -> None:
        for worker in workers:
            worker.kill()


def _told(source: SimulatorSource, layout: Layout, slots: int) -> str:
    content = {"source": vars(source), "layout": layout, "slots": slots}
    try:
        return json.dumps(content | {"made_with": versions() | simulator_versions()}, default=_spelled)
    except (AttributeError, TypeError, ValueError):
        raise HindsightError(
            "Ray's workers are told names and numbers only, and this environment is made from something else: "
            "pass its registered name."
        ) from None


def _spelled(value: Any) -> dict[str, Any]:
    """What is no JSON and still only names and numbers: a specification of Gymnasium, a function of a module."""
    if hasattr(value, "to_json"):
        return {SPECIFICATION: value.to_json()}
    module, name = str(value.__module__), str(value.__name__)
    if getattr(sys.modules.get(module), name, None) is value:
        return {FUNCTION: [module, name]}
    raise TypeError


def _unspelled(content: dict[str, Any]) -> Any:
    if content.keys() == {SPECIFICATION}:
        return import_gymnasium().envs.registration.EnvSpec.from_json(content[SPECIFICATION])
    if content.keys() == {FUNCTION}:
        module, name = content[FUNCTION]
        return getattr(import_module(module), name)
    return content


@dataclass(frozen=True)
class RayActors:
    """So many actors on a cluster with some cores."""

    ray: Any
    count: int
    machines: tuple[int, ...]
    """The cores of each machine."""
    require_head: Callable[[], None] = lambda: None
    """Raises a sentence where the cluster's head is gone; it is called often."""

    def crew(self, source: SimulatorSource, layout: Layout, slots: int) -> ActorCrew:
        """Actors on the cluster."""
        return ActorCrew(self, source, layout, slots)

    @property
    def share(self) -> float:
        """The share of a core that each actor is given: one, or as little as it takes for all to find a place."""
        parts = 1
        while self.count > sum(held * parts for held in self.machines) and parts < self.count:
            parts += 1
        return int(10_000 / parts) / 10_000
