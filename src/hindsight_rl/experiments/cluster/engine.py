"""Running a study on Ray: pieces out as text, messages back as bytes, the ledger of this process the one writer.

At least once executed: a piece whose worker, machine or object is lost is handed out again, from its newest checkpoint.
Exactly once recorded: the ledger takes each run once, whoever brings it, and writes it in one transaction.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.core.memory import memory
from hindsight_rl.experiments.cluster.connection import Cluster
from hindsight_rl.experiments.cluster.messages import Message, Order, finished_runs, order, policy_of
from hindsight_rl.experiments.cluster.placement import Estimates, Placement, require_place
from hindsight_rl.experiments.cluster.task import finds_gpu, work_at_once, work_stepwise
from hindsight_rl.experiments.study.ledger import Ledger
from hindsight_rl.experiments.study.policies import take_policy
from hindsight_rl.experiments.study.protocol import Piece
from hindsight_rl.experiments.study.worker import Unfinished
from hindsight_rl.records.files import make_folder, read_bytes, write_atomically
from hindsight_rl.records.runs import Cell, RunKey

UNFINISHED_PIECES = "unfinished"
"""The folder of checkpoints, one for each piece."""
MOST_TRIES = 6
"""A piece that loses its worker so often is what kills it."""
MOST_MACHINES = 4
"""A piece that an exception ended is tried on so many machines: one may lack a package that the other has."""
PIECES_FOR_A_SLOT = 2
"""Pieces handed out for each place that can run one, so that no place waits for the writer."""
SECONDS_BETWEEN_LOOKS = 1.0
MOST_NAMED = 3
"""Machines that a line of progress names."""


@dataclass(frozen=True)
class _Hand:
    """A piece that is out."""

    piece: Piece
    order: Order
    tries: int = 1
    failed_on: tuple[str, ...] = ()
    """Machines on which an exception ended it."""


class _Place(NamedTuple):
    """Where a piece runs, and which cell it is of."""

    node: str
    machine: str
    cell: str


@dataclass
class _Counts:
    """What went wrong so far, and where pieces were last heard of."""

    lost: int = 0
    again: int = 0
    places: dict[str, _Place] = field(default_factory=dict)

    def said(self, out: int) -> str:
        """What runs where, in a line."""
        on = Counter((place.node, place.machine) for place in self.places.values())
        cells = {place.node: place.cell for place in self.places.values()}  # the newest stands for all
        named = [f"{machine} {count} ({cells[node]})" for (node, machine), count in on.most_common(MOST_NAMED)]
        others = [f"{len(on) - MOST_NAMED} more machines"] if len(on) > MOST_NAMED else []
        where = f": {', '.join(named + others)}" if named else ""
        troubles = {"workers lost": self.lost, "retries": self.again}
        told = "".join(f"; {name}: {count}" for name, count in troubles.items() if count)
        return f"{len(self.places)} of {out} pieces run{where}{told}"


class RayEngine:
    """Runs what is missing of a study on a cluster."""

    def __init__(self, cluster: Cluster, placement: Placement = Placement()):  # noqa: B008 (frozen)
        self._cluster, self._ray, self._placement = cluster, cluster.ray, placement
        self._estimates = Estimates(placement)
        self._task = cluster.ray.remote(work_stepwise if cluster.steps else work_at_once)
        """Made once: Ray tells the head of each that is made."""
        self._out: dict[Any, _Hand] = {}
        self._counts = _Counts()

    def __call__(self, ledger: Ledger) -> None:
        """Run everything; what is finished is recorded at once, however this ends."""
        try:
            self._hand_out(ledger)
            while self._out:
                ready = self._ready()
                concluded = [self._hear(ledger, handle) for handle in ready]
                ledger.observer.status(self._counts.said(len(self._out)))
                if any(concluded) or not ready:  # not at each message: what is ahead takes a look at all runs
                    self._hand_out(ledger)
        except self._ray.exceptions.RaySystemError as error:
            self._cluster.require_head(now=True)
            raise HindsightError(f"Ray is gone ({gist(error)}); the same command goes on.") from error
        finally:
            self._end_tasks()
        if not ledger.unfinished:
            shutil.rmtree(ledger.folder / UNFINISHED_PIECES, ignore_errors=True)

    def _ready(self) -> list[Any]:
        """Those pieces that have something to say, as soon as there is one; none after a while."""
        out = list(self._out)
        self._cluster.require_head()
        ready, _ = self._ray.wait(out, num_returns=1, timeout=SECONDS_BETWEEN_LOOKS)
        if not ready:
            return []
        # All others too that have: with many workers, to wait for each one alone would take longer than to hear it.
        ready, _ = self._ray.wait(out, num_returns=len(out), timeout=0)
        return ready

    def _hand_out(self, ledger: Ledger) -> None:
        """Keep every place of the cluster busy."""
        machines = self._cluster.machines.values()
        if not machines:
            raise HindsightError("No machine of the Ray cluster is left; the same command goes on.")
        cores = sum(machine.cores // self._placement.cores for machine in machines)
        free = PIECES_FOR_A_SLOT * max(1, cores) - len(self._out)
        for piece in list(islice(self._ahead(ledger), max(0, free))):
            require_place(self._estimates.of(piece), machines, piece.plan.cell.name)
            ledger.observer.begin(piece)
            self._send(ledger, _Hand(piece, order(piece, self._placement)))

    def _ahead(self, ledger: Ledger) -> Iterator[Piece]:
        at_hand: dict[Cell, set[RunKey]] = {}
        for hand in self._out.values():
            at_hand.setdefault(hand.piece.plan.cell, set()).update(hand.piece.keys)
        most = self._placement.runs * self._placement.cores
        for plan in ledger.study.plans:
            yield from ledger.pieces_ahead(plan, most, at_hand.get(plan.cell, frozenset()))

    def _send(self, ledger: Ledger, hand: _Hand, node: str | None = None) -> None:
        path = _checkpoint_path(ledger, hand.order)
        kept = read_bytes(path, memory()) if path.exists() else None
        needs = self._estimates.of(hand.piece)
        options: dict[str, Any] = {"num_cpus": needs.cores, "memory": needs.memory, "max_retries": 0}
        if self._cluster.steps:
            options["num_returns"] = "streaming"
        if needs.gpus:
            options["num_gpus"] = needs.gpus
        if node is not None:
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        else:
            options["scheduling_strategy"] = "SPREAD"
        task = self._task.options(**options)
        handle = self._cluster.answer(lambda: task.remote(hand.order.text, kept))
        self._out[handle] = hand

    def _hear(self, ledger: Ledger, handle: Any) -> bool:
        """Take the next message of a piece; whether it was the last, or is lost."""
        hand = self._out[handle]
        try:
            content = self._cluster.answer(lambda: self._ray.get(next(handle) if self._cluster.steps else handle))
            message = Message.read(content)
            if message.number != hand.order.number:
                raise HindsightError("a message belongs to another piece")
        except (self._ray.exceptions.RayError, StopIteration, HindsightError) as error:
            del self._out[handle]
            self._lost(ledger, hand, error)
            return True
        place = _Place(message.content["node"], message.content["machine_name"], hand.piece.plan.cell.name)
        self._counts.places[hand.order.number] = place
        if message.kind == "progress":
            ledger.observer.tick(hand.piece, message.content["batch"])
        elif message.kind == "kept":
            path = _checkpoint_path(ledger, hand.order)
            make_folder(path.parent)
            write_atomically(path, content)
        else:
            del self._out[handle]
            self._counts.places.pop(hand.order.number, None)
            self._conclude(ledger, hand, message)
        return handle not in self._out

    def _conclude(self, ledger: Ledger, hand: _Hand, message: Message) -> None:
        if message.kind == "refused":
            raise HindsightError(
                f"The machine '{message.content['machine_name']}' of the cluster has other versions "
                f"({message.content['cause']}): install the same on all."
            )
        if message.kind == "unfinished":
            self._elsewhere(ledger, hand, message)
            return
        runs = finished_runs(message, hand.piece)
        for sentence in message.content["notices"]:
            ledger.observer.notice(sentence)
        if (policy := policy_of(message)) is not None:
            take_policy(ledger.folder, hand.piece.plan.cell, policy)
        ledger.record(hand.piece, runs, _checkpoint_path(ledger, hand.order), message.content["made_with"])

    def _elsewhere(self, ledger: Ledger, hand: _Hand, message: Message) -> None:
        """Try a piece that an exception ended on another machine, if there is one."""
        failed_on = (*hand.failed_on, message.content["node"])
        cause = f"{message.content['cause']} (on '{message.content['machine_name']}')"
        needs, machines = self._estimates.of(hand.piece), self._cluster.machines
        others = [node for node, held in machines.items() if node not in failed_on and needs.places_on(held)]
        if len(failed_on) >= MOST_MACHINES or not others:
            ledger.give_up(hand.piece, Unfinished(cause))
            return
        self._counts.again += 1
        self._counts.places.pop(hand.order.number, None)
        ledger.observer.notice(f"{hand.piece.name} is tried on another machine: {cause}")
        self._send(ledger, replace(hand, failed_on=failed_on), others[0])

    def _lost(self, ledger: Ledger, hand: _Hand, error: BaseException) -> None:
        """Hand a piece out again whose worker, machine or message is lost."""
        self._counts.lost += 1
        self._counts.places.pop(hand.order.number, None)
        why = gist(error).partition(". ")[0].rstrip(".")  # Ray goes on with advice of its own
        if hand.tries >= MOST_TRIES:
            ledger.give_up(hand.piece, Unfinished(f"its worker was lost {hand.tries} times, last with {why}."))
            return
        self._counts.again += 1
        ledger.observer.notice(f"{hand.piece.name} lost its worker and is handed out again ({why}).")
        self._send(ledger, replace(hand, tries=hand.tries + 1))

    def _end_tasks(self) -> None:
        for handle in self._out:
            try:
                self._cluster.answer(partial(self._ray.cancel, handle, force=True))
            except HindsightError:
                return  # without its head, Ray ends them itself
            except Exception:  # it may have ended
                continue


def gpus_for_a_piece(cluster: Cluster) -> int:
    """One, where a machine has a GPU and JAX finds it there; otherwise none."""
    if not any(machine.gpus for machine in cluster.machines.values()):
        return 0
    return int(cluster.ray.get(cluster.ray.remote(finds_gpu).options(num_gpus=1, max_retries=0).remote()))


def _checkpoint_path(ledger: Ledger, ordered: Order) -> Path:
    return ledger.folder / UNFINISHED_PIECES / f"{ordered.number}.npz"
