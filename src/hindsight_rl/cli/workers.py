"""What `--workers` says: a number of processes, or of Ray's actors."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.experiments.cluster.connection import connected
from hindsight_rl.rollout.actors import RayActors
from hindsight_rl.rollout.crew import Hands


@dataclass(frozen=True)
class Wanted:
    """So many workers; on a cluster, if one is named."""

    count: int | None
    cluster: str | None


def parse_workers(text: str | None, on: str | None) -> Wanted:
    """Read `8` or `ray:8`, with the cluster that `--on` names."""
    found = re.fullmatch(r"(ray:)?(-?[0-9]{1,9})", text) if text is not None else None
    if text is not None and found is None:
        raise HindsightError(f"--workers must be a whole number, or ray: and a whole number, not '{text}'.")
    if found is None or found[1] is None:
        if on is not None:
            raise HindsightError("--on says where the workers are that --workers ray:NUMBER asks for: add that.")
        return Wanted(int(found[2]) if found else None, None)
    return Wanted(int(found[2]), on or "ray")


@contextmanager
def hands(wanted: Wanted) -> Iterator[int | Hands | None]:
    """Those who will play, for as long as they are needed."""
    if wanted.cluster is None or wanted.count is None:
        yield wanted.count
        return
    with connected(wanted.cluster, "--workers ray:") as cluster:
        yield RayActors(cluster.ray, wanted.count, tuple(cluster.nodes.values()), cluster.require_head)
