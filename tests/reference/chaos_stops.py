"""Trials in which the program is stopped: killed, interrupted, or out of disk or memory."""

import os
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reference.chaos import SENTENCES, Broken, Chaos, Trial, require, spoken
from small_jobs import PROGRAM

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
MOST_BYTES_OF_A_PROCESS = 3_000_000_000
HOSTED = ["--batch-size", "4", "--batches", "6", "--evaluate-every", "2", "--runs", "1", "--evaluation-episodes", "4"]
HOSTED += ["--hidden-layers", "8", "--horizon", "6", "--workers", "2"]
HOSTED_LEARNERS = {
    "hpg": [],
    "hppo": ["--kept-episodes", "16"],
    "hppo-ahead": ["--kept-episodes", "16", "--play-ahead"],
}
_IMPORTING = ("importlib", "import_module", "    import ", "    from ")


def killed(chaos: Chaos) -> bool:
    """Killed at an event on its files, with what was being written cut anywhere: it goes on to the same bytes."""
    source = chaos.random.choice([chaos.run, chaos.run, chaos.study])
    state = chaos.random.choice(chaos.killed[source])
    folder = Path(shutil.copytree(state, chaos.empty(f"{source.name}-killed")))
    for leftover in folder.rglob(".hindsight-*.tmp"):
        content = leftover.read_bytes()
        leftover.write_bytes(content[: chaos.random.randrange(len(content) + 1)])
    chaos.require_whole(folder, f"a kill at event {state.name}")
    return True


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Within, no file can grow past a size, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def full_disk(chaos: Chaos) -> bool:
    """Files may not grow past a random size: a sentence, and afterwards it goes on to the same bytes."""
    name = chaos.random.choice(["run", "study"])
    folder = chaos.empty(f"{name}-full")
    size = int(10 ** (1.5 + 4 * chaos.random.random()))
    with largest_file(size):
        code, _ = spoken(chaos.training(folder) if name == "run" else chaos.studying(folder))
    chaos.require_whole(folder, f"files of {size} bytes at most")
    return bool(code)


def interrupted(chaos: Chaos) -> bool:
    """One signal or several at a random moment of a run or a study: its exit code, and then the same bytes."""
    draw, name = chaos.random, chaos.random.choice(["run", "study"])
    folder = chaos.empty(f"{name}-interrupted")
    number, moment, times = draw.choice(HEARD), 0.6 * draw.random(), draw.choice([1, 1, 1, 2, 5])
    ended = threading.Event()

    def send() -> None:
        ended.wait(moment)
        for _ in range(times):
            if ended.is_set():
                return
            os.kill(os.getpid(), number)
            ended.wait(0.02 * draw.random())

    # The program hears what is not ignored; what comes too late for it must not end this process.
    before = {each: signal.signal(each, lambda *_: None) for each in HEARD}
    sender = threading.Thread(target=send)
    sender.start()
    try:
        code, said = spoken(chaos.training(folder) if name == "run" else chaos.studying(folder))
    finally:
        ended.set()
        sender.join()
        for each, handler in before.items():
            signal.signal(each, handler)
    if code not in (0, 128 + number):
        raise Broken(f"lost: signal {number} ended with {code}: {said[-1000:]}")
    chaos.require_whole(folder, f"signal {number} after {moment:.2f} s")
    return bool(code)


def process(arguments: list[str], home: Path, limit: int | None = None) -> "subprocess.Popen[str]":
    """The program in a process of its own, where need be with a limit of its address space."""
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(home / "compiled")}
    limited = [] if limit is None else ["sh", "-c", f'ulimit -v {limit // 1024}; exec "$@"', "sh"]
    return subprocess.Popen(
        [*limited, str(PROGRAM), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        errors="replace",
        start_new_session=True,
    )


def ended(started: "subprocess.Popen[str]", seconds: float = 300) -> str:
    """What a process said, once it is over; none may hang, leave a traceback of ours, or take too much memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    try:
        said, _ = started.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        raise Broken("lost: a process did not end") from None
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    if most > before and most * 1024 > MOST_BYTES_OF_A_PROCESS:
        raise Broken(f"memory: a process took {most / 1e6:,.1f} GB")
    if "Traceback (most" in said and not while_importing(said):
        raise Broken(f"traceback: {said[-3000:]}")
    return said


def while_importing(said: str) -> bool:
    """Whether a traceback is that of Python, interrupted before the program began."""
    last = said.rpartition("Traceback (most")[2]
    return "KeyboardInterrupt" in last and any(word in last for word in _IMPORTING) and "in _run" not in last


def stopped(chaos: Chaos) -> bool:
    """A process killed or interrupted at a random moment, in the midst of writing too: it goes on to the same bytes."""
    name = chaos.random.choice(["run", "study"])
    folder = chaos.empty(f"{name}-stopped")
    number = chaos.random.choice([signal.SIGKILL, signal.SIGKILL, *HEARD[:3]])
    started = process(chaos.training(folder) if name == "run" else chaos.studying(folder), chaos.home)
    wait_for(folder, started)
    time.sleep(1.5 * chaos.random.random() ** 2)
    started.send_signal(number)
    ended(started)
    if started.returncode not in (*SENTENCES, -number):
        raise Broken(f"lost: signal {number} ended with {started.returncode}")
    chaos.require_whole(folder, f"signal {number} to a process")
    return started.returncode != 0


def wait_for(folder: Path, started: "subprocess.Popen[str]", seconds: float = 120) -> None:
    """Until the program has begun to write: before, there is nothing to lose."""
    deadline = time.monotonic() + seconds
    while not folder.exists() and started.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)


def stopped_hosted(chaos: Chaos) -> bool:
    """Training whose episodes workers play, killed or interrupted at a random moment: the same bytes, no orphans."""
    folder, learner = chaos.empty("hosted-stopped"), chaos.random.choice(sorted(HOSTED_LEARNERS))
    flags = ["--method", learner.partition("-")[0], *HOSTED, *HOSTED_LEARNERS[learner]]
    arguments = ["train", "gym:reference.hostile:Good-v0", *flags, "--output", str(folder)]
    reference = chaos.home / f"hosted-{learner}"
    if not reference.exists():
        require([*arguments[:-1], str(reference)])
    number = chaos.random.choice([signal.SIGKILL, *HEARD[:3]])
    started = process(arguments, chaos.home)
    wait_for(folder, started)
    time.sleep(6 * chaos.random.random())
    started.send_signal(number)
    ended(started)
    require([*arguments, *(["--resume"] if (folder / "settings.json").exists() else [])])
    for name in ("evaluations.csv", "checkpoint.npz"):
        if (folder / name).read_bytes() != (reference / name).read_bytes():
            raise Broken(f"lost: after signal {number} the hosted run of {learner} has another {name}")
    if left := _members(started.pid):
        raise Broken(f"lost: processes outlive signal {number}: {left}")
    return started.returncode != 0


def _members(session: int, seconds: float = 15) -> list[int]:
    """The processes of a session that are still there after some time."""
    deadline = time.monotonic() + seconds
    while (found := _alive(session)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def _alive(session: int) -> list[int]:
    """Those that are not only waiting for their parent to notice their end."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def little_memory(chaos: Chaos) -> bool:
    """A process that may have little memory: done, or a sentence, or an end of the system's; then the same bytes."""
    name = chaos.random.choice(["run", "study"])
    folder = chaos.empty(f"{name}-small")
    limit = int(10 ** (8.7 + 1.1 * chaos.random.random()))
    started = process(chaos.training(folder) if name == "run" else chaos.studying(folder), chaos.home, limit)
    said = started.communicate(timeout=300)[0]
    if "Traceback (most" in said and not any(word in said for word in _NO_MEMORY):
        raise Broken(f"traceback: with {limit} bytes: {said[-3000:]}")
    chaos.require_whole(folder, f"a limit of {limit} bytes of memory")
    return started.returncode != 0


_NO_MEMORY = ("MemoryError", "cannot allocate", "failed to map", "can't start new thread", "ImportError", "SystemError")
"""Python itself, or a library that cannot even be imported, says so in its own words."""

STOPS: dict[str, Trial] = {"killed at a file event": killed, "full disk": full_disk, "interrupted": interrupted}
PROCESSES: dict[str, Trial] = {
    "process stopped": stopped,
    "hosted process stopped": stopped_hosted,
    "little memory": little_memory,
}
