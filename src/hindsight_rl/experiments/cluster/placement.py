"""What a piece needs of a machine, and how many pieces a cluster can run at a time."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.experiments.study.protocol import Piece
from hindsight_rl.records.runs import Cell
from hindsight_rl.training.memory import needed_bytes
from hindsight_rl.training.program import make_program

PROCESS_BYTES = 600 * 2**20
"""Twice what a process takes that has imported JAX and trains something small (300 MB): programs differ in size."""


@dataclass(frozen=True)
class Machine:
    """What Ray says that a machine has."""

    cores: int
    memory: int
    gpus: int = 0


@dataclass(frozen=True)
class Placement:
    """What a piece gets."""

    cores: int = 1
    runs: int = 5
    """Of a piece, for each core: as many as one call of the compiled program trains."""
    seconds_between_checkpoints: float = 30.0
    gpus: int = 0


class Needs(NamedTuple):
    """What a machine must have free before it is given a piece."""

    cores: int
    memory: int
    gpus: int

    def places(self, machines: Iterable[Machine]) -> int:
        """How many such pieces fit on some machines at a time."""
        return sum(self.places_on(machine) for machine in machines)

    def places_on(self, machine: Machine) -> int:
        """How many such pieces fit on a machine at a time."""
        shares = [machine.cores // self.cores, machine.memory // self.memory]
        return min([*shares, machine.gpus // self.gpus] if self.gpus else shares)


class Estimates:
    """What pieces need. Memory is our own estimate of what a program must hold, the same for all pieces alike."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._held: dict[tuple[Cell, str, int], int] = {}

    def of(self, piece: Piece) -> Needs:
        """What a piece needs."""
        alike = (piece.plan.cell, piece.round.name, len(piece.keys))
        if alike not in self._held:
            self._held[alike] = PROCESS_BYTES + _held_by_runs(piece)
        return Needs(self._placement.cores, self._held[alike], self._placement.gpus)


def _held_by_runs(piece: Piece) -> int:
    try:
        program = make_program(piece.plan.specification.task, piece.settings)
    except HindsightError:
        return 0  # what makes the environment may be on other machines only
    return sum(needed_bytes(program, piece.settings, len(piece.keys)).values())


def require_place(needs: Needs, machines: Iterable[Machine], name: str) -> None:
    """Refuse what no machine of a cluster can ever run: Ray would wait for one."""
    machines = list(machines)
    if not machines or needs.places(machines):
        return
    largest = max(machines, key=lambda machine: (machine.gpus >= needs.gpus, machine.cores, machine.memory))
    wanted, held = (
        f"cores: {each.cores}, memory: {each.memory / 1e9:,.1f} GB" + f", GPUs: {each.gpus}" * bool(needs.gpus)
        for each in (needs, largest)
    )
    raise HindsightError(f"No machine of the cluster has what a piece of {name} needs ({wanted}; the largest: {held}).")
