"""Trials with environments that mean harm."""

from reference.chaos import Broken, Chaos, Trial, spoken
from reference.chaos_stops import HOSTED
from reference.hostile import HOSTILE

from hindsight_rl.rollout.workers import WorkerPool

SECONDS_TO_WAIT = 4.0
OF_PROCESSES = ("Exits", "ExitsPolitely", "Hangs", "Interrupts", "Kills")
"""What these do, they do to the process that they are in; `check` plays in its own."""


def hostile(chaos: Chaos) -> bool:
    """A sentence or runs that are said to have failed; what the environment did to its worker, it did not do to us."""
    folder = chaos.empty("hostile")
    kind = chaos.random.choice(HOSTILE).__name__
    command = "train" if kind in OF_PROCESSES else chaos.random.choice(["train", "check"])
    # One that hangs would take minutes.
    *others, _ = WorkerPool.__init__.__defaults__ or ()
    chaos.patch.setattr(WorkerPool.__init__, "__defaults__", (*others, SECONDS_TO_WAIT))
    environment = f"gym:reference.hostile:{kind}-v0"
    arguments = [command, environment, *([*HOSTED, "--output", str(folder)] if command == "train" else [])]
    code, said = spoken(arguments)
    if not code and command == "train" and kind not in ("HugeReward",):
        raise Broken(f"silent: {kind} was trained on: {said[-1500:]}")
    if len(said) > 20_000:
        raise Broken(f"traceback: {kind} made the program say {len(said)} characters")
    return bool(code)


ENVIRONMENTS: dict[str, Trial] = {"hostile environment": hostile}
