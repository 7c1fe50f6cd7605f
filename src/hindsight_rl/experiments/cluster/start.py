"""A Ray of our own while it starts: which process its head is, and patience where others keep the machine busy."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hindsight_rl.experiments.cluster.guard import tell_head_process
from hindsight_rl.experiments.cluster.head import Head

SECONDS_TO_START = 300.0
"""Ray gives itself half a minute, which is too little on a busy machine."""
BUSY = {
    # Ray's workers are nice, by 15: beside other work they would stand still. Without Ray ours are not.
    "RAY_worker_niceness": "0",
    # It would take those who have not come up in a minute, or in half of one, for dead, the whole node with its agents.
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_agent_register_timeout_ms": "300000",
}
"""What Ray reads from the environment, for a machine that does other things too."""


@contextmanager
def starting(head: Head, ray: Any) -> Iterator[None]:
    """Know the head as soon as its process begins, and wait for as long as it and the raylet live, within reason."""
    services = ray._private.services
    own: dict[str, Any] = {
        name: getattr(services, name, None) for name in ("start_gcs_server", "start_raylet", "get_node")
    }
    begun: list[Any] = []

    def start_gcs_server(*arguments: Any, **options: Any) -> Any:
        started = begins("start_gcs_server")(*arguments, **options)
        head.is_there = lambda: started.process.poll() is None
        tell_head_process(started.process.pid)
        return started

    def begins(name: str) -> Callable[..., Any]:
        def start(*arguments: Any, **options: Any) -> Any:
            started = own[name](*arguments, **options)
            begun.append(started.process)
            return started

        return start

    def get_node(*arguments: Any, **options: Any) -> Any:
        deadline = time.monotonic() + SECONDS_TO_START
        while True:
            try:
                return own["get_node"](*arguments, **options)
            except RuntimeError:  # it is not there yet
                if time.monotonic() > deadline or any(process.poll() is not None for process in begun):
                    raise
                time.sleep(0.2)

    services.start_gcs_server, services.start_raylet = start_gcs_server, begins("start_raylet")
    services.get_node = get_node
    try:
        yield
    finally:
        for name, function in own.items():
            setattr(services, name, function)
