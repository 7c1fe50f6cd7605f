"""Finding a Ray cluster, or starting a local one that nobody else can reach."""

import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hindsight_rl.core.cores import cores
from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.core.interruption import SIGNALS
from hindsight_rl.experiments.cluster.guard import in_the_hands_of_ray, known_at
from hindsight_rl.experiments.cluster.head import (
    GONE,
    SECONDS_BETWEEN_LOOKS,
    SECONDS_TO_ANSWER,
    Head,
    ending_without,
)
from hindsight_rl.experiments.cluster.placement import Machine
from hindsight_rl.experiments.cluster.start import BUSY, starting

T = TypeVar("T")
OBJECT_STORE_BYTES = 512 * 2**20
"""Room for results and checkpoints on their way; Ray would take a third of the memory."""
CLIENT = "ray://"
"""How the addresses of Ray's client begin, for a driver outside of the cluster."""
QUESTION_TO_HEAD, QUESTION_TO_SERVER = "/ray.rpc.NodeInfoGcsService/GetClusterId", "/ray.rpc.RayletDriver/ClusterInfo"
"""What Ray answers only to those who know the token; a Ray that does not know the question refuses nobody by it."""
ALWAYS = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",  # tell nobody
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
ELSEWHERE = {"RAY_gcs_rpc_server_connect_timeout_s": "5"}
LOCAL = {
    # Read by Ray where it looks for this machine's address: without clusters it takes the loopback one.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    **BUSY,
}
"""What Ray reads from the environment when it is imported; what the user has set stays."""


@dataclass(frozen=True)
class Cluster:
    """A connection to Ray."""

    ray: Any
    """The package, which is not there without its extra."""
    address: str
    head: Head | None = None
    """Not known to a driver outside of the cluster."""

    def require_head(self, now: bool = False) -> None:
        """Say that the head of the cluster is gone; looks now and then, however often it is asked, or at once."""
        if self.head is not None:
            self.head.require(now)

    @property
    def steps(self) -> bool:
        """Whether tasks can say something before they end."""
        return not self.address.startswith(CLIENT)

    @property
    def nodes(self) -> Mapping[str, int]:
        """The cores of each machine that is alive, by Ray's name for it."""
        return {name: machine.cores for name, machine in self.machines.items()}

    @property
    def machines(self) -> Mapping[str, Machine]:
        """What each machine that is alive has, by Ray's name for it."""
        nodes = self.answer(self.ray.nodes)
        return {node["NodeID"]: _machine(node["Resources"]) for node in nodes if node["Alive"]}

    def answer(self, question: Callable[[], T]) -> T:
        """The answer to what needs the head. Without it Ray waits, deaf to signals, and then ends this process."""
        if self.head is None:
            return question()
        answer: Future[T] = Future()
        threading.Thread(target=_answer, args=(question, answer), daemon=True).start()
        while True:
            answered, _ = wait([answer], SECONDS_BETWEEN_LOOKS)
            if not answered or answer.exception() is not None:
                self.head.require(now=bool(answered))
            if answered:
                return answer.result()


def _answer(question: Callable[[], T], answer: Future[T]) -> None:
    try:
        answer.set_result(question())
    except BaseException as error:
        answer.set_exception(error)


def _machine(held: Mapping[str, float]) -> Machine:
    return Machine(*(int(held.get(name, 0)) for name in ("CPU", "memory", "GPU")))


@contextmanager
def connected(address: str, needed_for: str = "--on") -> Iterator[Cluster]:
    """A connection for as long as it is needed: `ray` starts one here, `auto` finds the one this machine belongs to."""
    settings = ALWAYS | (LOCAL if address == "ray" else ELSEWHERE)
    if address == "ray":
        settings |= {"RAY_AUTH_TOKEN": secrets.token_hex(32)} if "RAY_AUTH_TOKEN_PATH" not in os.environ else {}
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    ray = _imported(needed_for)
    handlers, head = {each: signal.getsignal(each) for each in SIGNALS}, Head()
    with in_the_hands_of_ray(), ending_without(head):
        try:
            if address != "ray":
                address = _answering(address)
                _require_token()
                _require_admission(address)
            _connect(ray, address, head)
            _restore(handlers)
            yield Cluster(ray, address, None if address.startswith(CLIENT) else head)
        finally:
            ray.shutdown()
            _restore(handlers)


def _imported(needed_for: str) -> Any:
    try:
        import ray
    except ImportError:
        raise HindsightError(f"{needed_for} needs the package ray: pip install 'hindsight-rl[ray]'.") from None
    with suppress(AttributeError):
        # What Ray has to say of lost workers would go to standard output, among results; notices tell of them.
        ray._private.worker.print_to_stdstream = lambda *arguments, **options: None
    with suppress(AttributeError):
        # While it starts, Ray would take SIGTERM for itself, and end without saving.
        ray._private.utils.set_sigterm_handler = lambda handler: None
    return ray


def _connect(ray: Any, address: str, head: Head) -> None:
    quiet = {"log_to_driver": False, "logging_level": "critical", "namespace": "hindsight"}
    here = {"num_cpus": cores(), "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    try:
        if address == "ray":
            with starting(head, ray):
                ray.init(address="local", **here, **quiet)
            if head.is_there is None:
                known_at(head, *_place(ray.get_runtime_context().gcs_address))
        else:
            if not address.startswith(CLIENT):
                known_at(head, *_place(address))
            ray.init(address=address, **quiet)
    except Exception as error:  # Ray raises what it likes, bare exceptions too, where a part of it did not start
        raise _not_connected(address, head, error) from error


def _not_connected(address: str, head: Head, error: Exception) -> HindsightError:
    if isinstance(error, ImportError):
        return HindsightError("ray:// needs Ray's client: pip install 'hindsight-rl[ray]'.")
    if head.is_gone:
        return HindsightError(GONE)
    if isinstance(error, ConnectionError) and address != "ray":
        return _not_admitted(address)
    what = "Ray did not start" if address == "ray" else f"Ray at '{address}' refused"
    return HindsightError(f"{what}: {gist(error).rstrip('.')}.")


def _answering(address: str) -> str:
    """The address at which a cluster answers. Ray itself would try for minutes, deaf to signals."""
    if address != "auto":
        _place(address)
    if address.startswith(CLIENT):
        _require_answer(address)
        return address
    from ray._private import ray_constants

    found = _found(address)
    try:
        _require_answer(found)
    except HindsightError:
        # Ray takes this machine's name in its network for its loopback address, where it was not told otherwise.
        ray_constants.ENABLE_RAY_CLUSTER = False
        if (here := _found(address)) == found:
            raise
        _require_answer(here)
        return here
    return found


def _found(address: str) -> str:
    """An address as Ray understands it; `auto` is that of the cluster which this machine belongs to."""
    services: Any = import_module("ray._private.services")
    here = sorted(services.find_gcs_addresses()) if address == "auto" and not os.environ.get("RAY_ADDRESS") else []
    if len(here) > 1:
        raise HindsightError(f"Several Rays run on this machine ({', '.join(here)}): name one as --on HOST:PORT.")
    try:
        return str(services.canonicalize_bootstrap_address_or_die(address))
    except ConnectionError as error:
        raise HindsightError(
            "This machine belongs to no Ray cluster: start one with `ray start`, or name one as --on HOST:PORT."
        ) from error


def _place(address: str) -> tuple[str, int]:
    with suppress(ValueError):
        parts = urlsplit(address if "://" in address else f"//{address}")
        if parts.hostname and parts.port:
            return parts.hostname, parts.port
    raise HindsightError(f"--on must be ray, auto, HOST:PORT or ray://HOST:PORT, not '{address}'.")


def _require_answer(address: str) -> None:
    """Ray itself would try for minutes."""
    host, port = _place(address)
    began = time.monotonic()
    try:
        socket.create_connection((host, port), SECONDS_TO_ANSWER).close()
    except OSError as error:
        raise _no_answer(address) from error
    if os.environ.get("RAY_USE_TLS", "0") == "0" and not _speaks(f"{host}:{port}", began + SECONDS_TO_ANSWER):
        raise _no_answer(address)


def _speaks(place: str, deadline: float) -> bool:
    """Whether somebody there speaks Ray's protocol. At one who does not, Ray would end this process."""
    import grpc

    with grpc.insecure_channel(place) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=max(1.0, deadline - time.monotonic()))
        except grpc.FutureTimeoutError:
            return False
    return True


def _require_token() -> None:
    named = any(name in os.environ for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    if os.environ["RAY_AUTH_MODE"] == "token" and not named and not (Path.home() / ".ray" / "auth_token").exists():
        raise HindsightError(
            "A Ray cluster asks for its token, and there is none: set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, "
            "or put it into ~/.ray/auth_token."
        )


def _require_admission(address: str) -> None:
    """Ask something small with our token. Ray itself would ask twenty times where it is another one."""
    import grpc

    if os.environ.get("RAY_USE_TLS", "0") != "0":
        return
    try:
        loader = import_module("ray._raylet").AuthenticationTokenLoader.instance()
        headers = loader.get_token_for_http_header() if loader.has_token() else {}
    except (ImportError, AttributeError):
        return  # another version of Ray, which will say itself what it thinks of the token
    question = QUESTION_TO_SERVER if address.startswith(CLIENT) else QUESTION_TO_HEAD
    host, port = _place(address)
    with grpc.insecure_channel(f"{host}:{port}") as channel, suppress(grpc.RpcError):
        call = channel.unary_unary(question).future(b"", timeout=SECONDS_TO_ANSWER, metadata=tuple(headers.items()))
        if call.code() == grpc.StatusCode.UNAUTHENTICATED:
            raise _not_admitted(address)


def _not_admitted(address: str) -> HindsightError:
    return HindsightError(f"Ray at '{address}' lets nobody in: the token may be another one.")


def _no_answer(address: str) -> HindsightError:
    return HindsightError(f"No Ray cluster answers at '{address}'.")


def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
    """Ray takes SIGTERM for itself, and would end without saving."""
    with suppress(ValueError):  # only the main thread has signals
        for each, handler in handlers.items():
            signal.signal(each, handler)
