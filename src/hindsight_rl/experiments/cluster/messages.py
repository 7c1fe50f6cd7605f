"""What goes between the one writer and those who run pieces: text and bytes, checked on arrival, never code."""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.experiments.cluster.placement import Placement
from hindsight_rl.experiments.study.plan import Plan, Stage
from hindsight_rl.experiments.study.protocol import Piece, Round
from hindsight_rl.experiments.study.worker import identity
from hindsight_rl.records.checkpoints import checkpoint_bytes, read_checkpoint
from hindsight_rl.records.runs import Cause, Cell, Choices, FinishedRun, RunKey
from hindsight_rl.records.versions import deciding, simulator_versions, versions

NAME = Path("a message of a piece")
"""How errors speak of a message that is not whole."""
Kind = Literal["progress", "kept", "finished", "unfinished", "refused"]


@dataclass(frozen=True)
class Order:
    """What a worker is told: names and settings only."""

    piece: Piece
    number: str
    """A digest over cell, runs, settings and the version of the code, under which results come back."""
    made_with: Mapping[str, str]
    """The versions of the one who ordered."""
    placement: Placement

    @property
    def text(self) -> str:
        """The order as JSON."""
        this = self.piece.round
        told = asdict(this) | {"stage": asdict(this.stage)}
        content = {
            "cell": self.piece.plan.cell,
            "plan": self.piece.plan.to_json(),
            "round": told,
            "keys": self.piece.keys,
            "number": self.number,
            "made_with": dict(self.made_with),
            "placement": asdict(self.placement),
        }
        return json.dumps(content)

    @classmethod
    def read(cls, text: str) -> "Order":
        """The inverse of `text`."""
        content = json.loads(text)
        plan, told = Plan.from_json(Cell(*content["cell"]), content["plan"]), content["round"]
        choices = tuple(_choices(each) for each in told["choices"])
        this = Round(told["name"], choices, Stage(**told["stage"]), told["first_seed"])
        keys = tuple(_key(each) for each in content["keys"])
        return cls(
            Piece(plan, this, keys),
            content["number"],
            content["made_with"],
            Placement(**content["placement"]),
        )


@dataclass(frozen=True)
class Message:
    """What a worker says: how far it is, a checkpoint, the finished runs, or why there are none."""

    kind: Kind
    number: str
    """That of the order."""
    content: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]

    def to_bytes(self) -> bytes:
        """The message, with digests over all of it."""
        return checkpoint_bytes(self.arrays, {"kind": self.kind, "number": self.number, **self.content}, NAME)

    @classmethod
    def read(cls, content: bytes) -> "Message":
        """The inverse of `to_bytes`; anything else is refused."""
        arrays, metadata = read_checkpoint(content, NAME)
        try:
            return cls(metadata.pop("kind"), metadata.pop("number"), metadata, arrays)
        except KeyError as error:
            raise HindsightError(f"{NAME} lacks {error}.") from None


def order(piece: Piece, placement: Placement) -> Order:
    """The order of a piece by this process."""
    mine = _mine()
    spelled = json.dumps([identity(piece), deciding(mine)], sort_keys=True)
    return Order(piece, hashlib.sha256(spelled.encode()).hexdigest()[:32], mine, placement)


@cache
def _mine() -> dict[str, str]:
    return deciding(versions()) | simulator_versions()


@cache
def processor() -> str:
    """The kind of processor, on which the last bits of numbers depend."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{platform.machine()} {names[0] if names else platform.processor()}".strip()


def finished(number: str, runs: Sequence[FinishedRun], policy: bytes | None, about: Mapping[str, Any]) -> Message:
    """The message with finished runs, and the best policy among them where they are definitive ones."""
    arrays = {f"{index}/{name}": array for index, run in enumerate(runs) for name, array in _arrays(run).items()}
    if policy is not None:
        arrays["policy"] = np.frombuffer(policy, np.uint8)
    rows = [
        {
            "key": run.key,
            "settings": dict(run.settings),
            "seconds": run.seconds,
            "failure": [run.failure.batch, run.failure.sentence] if run.failure else None,
            "metrics": list(run.metrics),
            "records": list(run.records),
        }
        for run in runs
    ]
    return Message("finished", number, {**about, "runs": rows}, arrays)


def finished_runs(message: Message, piece: Piece) -> list[FinishedRun]:
    """The runs of a message, provided that they are those of the piece."""
    try:
        runs = [_run(piece.plan.cell, index, row, message) for index, row in enumerate(message.content["runs"])]
    except (LookupError, TypeError, ValueError) as error:
        raise HindsightError(f"{NAME} holds no runs: {error}.") from error
    if tuple(run.key for run in runs) != piece.keys:
        raise HindsightError(f"{NAME} holds other runs than {piece.name} was to have.")
    return runs


def policy_of(message: Message) -> bytes | None:
    """The file of a policy, if the message has one."""
    return message.arrays["policy"].tobytes() if "policy" in message.arrays else None


def _arrays(run: FinishedRun) -> dict[str, np.ndarray]:
    metrics = {f"metrics/{name}": values for name, values in run.metrics.items()}
    records = {f"records/{name}": array for name, array in run.records.items()}
    return {"batches": run.batches, "episodes": run.episodes, **metrics, **records}


def _run(cell: Cell, index: int, row: Mapping[str, Any], message: Message) -> FinishedRun:
    def array(name: str) -> np.ndarray:
        return message.arrays[f"{index}/{name}"]

    return FinishedRun(
        cell=cell,
        key=_key(row["key"]),
        settings=row["settings"],
        batches=array("batches"),
        episodes=array("episodes"),
        metrics={name: array(f"metrics/{name}") for name in row["metrics"]},
        seconds=float(row["seconds"]),
        failure=Cause(*row["failure"]) if row["failure"] else None,
        records={name: array(f"records/{name}") for name in row["records"]},
    )


def _key(content: Sequence[Any]) -> RunKey:
    stage, choices, seed = content
    return RunKey(stage, _choices(choices), seed)


def _choices(content: Sequence[Any]) -> Choices:
    return tuple((name, value) for name, value in content)
