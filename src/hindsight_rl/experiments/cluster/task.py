"""What runs on a machine of the cluster: one piece, from an order in plain text to messages in bytes.

Importable by its name, so that Ray ships that name and no code. Stateless: all that it knows is in the order and the
checkpoint; all that it leaves behind are its messages.
"""

import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hindsight_rl.core.cores import use_only
from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.experiments.cluster.messages import Message, Order, finished, processor
from hindsight_rl.experiments.cluster.placement import Placement
from hindsight_rl.experiments.study.policies import policy_path
from hindsight_rl.experiments.study.protocol import Piece
from hindsight_rl.experiments.study.worker import UNFINISHED, Observer, Programs, Unfinished, Worker
from hindsight_rl.records.versions import deciding, difference, simulator_versions, versions
from hindsight_rl.training.compilation import keep_compiled_programs

_PROGRAMS = Programs()
"""Of this process, which may run several pieces one after another: to trace a program again would take seconds."""


def work_stepwise(order_text: str, checkpoint: bytes | None = None) -> Iterator[bytes]:
    """Run a piece, from a checkpoint if there is one, and say each step of it."""
    order = Order.read(order_text)
    mine = versions()
    about = {"made_with": mine, "processor": processor(), **_place()}
    found = difference(deciding(order.made_with), deciding(mine))
    try:
        for message in _steps(order, checkpoint, about) if not found else ():
            yield message.to_bytes()
            # Only once it runs is it known which packages its simulators use.
            if found := difference(order.made_with, simulator_versions(sys.modules)):
                break
        if found:
            yield Message("refused", order.number, {**about, "cause": found}, {}).to_bytes()
    except (Unfinished, HindsightError) as error:
        yield Message("unfinished", order.number, {**about, "cause": str(error)}, {}).to_bytes()
    except Exception as error:  # whatever it was, the writer is told in a sentence
        yield Message("unfinished", order.number, {**about, "cause": f"{gist(error)}."}, {}).to_bytes()


def work_at_once(order_text: str, checkpoint: bytes | None = None) -> bytes:
    """As `work_stepwise`, but only the last message: Ray's client passes no others on."""
    *_, last = work_stepwise(order_text, checkpoint)
    return last


def _steps(order: Order, kept: bytes | None, about: dict[str, Any]) -> Iterator[Message]:
    yield Message("progress", order.number, {**about, "batch": 0}, {})  # tells where it runs; compiling takes its time
    _use_only_what_was_given(order.placement)
    keep_compiled_programs()
    with tempfile.TemporaryDirectory(prefix="hindsight-") as name:
        folder, newest, notices = Path(name), list[Message](), list[str]()
        if kept is not None:
            notices += _restore(folder, Message.read(kept))

        def keep(piece: Piece) -> None:
            content = {"checkpoint": np.frombuffer((folder / UNFINISHED).read_bytes(), np.uint8)}
            newest[:] = [Message("kept", order.number, about, content)]

        observer = Observer(kept=keep, notice=notices.append)
        worker = Worker(folder, observer, order.placement.seconds_between_checkpoints, order.placement.cores, _PROGRAMS)
        steps = worker.advance(order.piece)
        while True:
            try:
                batch = next(steps)
            except StopIteration as end:
                path = policy_path(folder, order.piece.plan.cell)
                policy = path.read_bytes() if path.exists() else None
                yield finished(order.number, end.value, policy, {**about, "notices": notices})
                return
            yield from newest
            newest.clear()
            yield Message("progress", order.number, {**about, "batch": batch}, {})


def finds_gpu() -> bool:
    """Whether JAX finds a GPU here."""
    return jax.default_backend() == "gpu"


def _use_only_what_was_given(placement: Placement) -> None:
    """The cores that Ray counts on, and no GPU that it has not given."""
    if not placement.gpus:
        jax.config.update("jax_platforms", "cpu")
    use_only(placement.cores)


def _restore(folder: Path, kept: Message) -> list[str]:
    """Put a checkpoint where the worker looks for it; what is to be said of that."""
    (folder / UNFINISHED).write_bytes(kept.arrays["checkpoint"].tobytes())
    there, here = kept.content.get("processor"), processor()
    if there == here:
        return []
    return [f"A piece went on here on {here}, and was begun on {there}: the last bits of its numbers may differ."]


def _place() -> dict[str, str]:
    """Where this runs, by the names of the system and of Ray."""
    ray = sys.modules.get("ray")
    node = ray.get_runtime_context().get_node_id() if ray is not None and ray.is_initialized() else ""
    return {"machine_name": socket.gethostname(), "node": node}
