"""Whatever ends the process that uses Ray, the command ends as it should: no Ray is needed to see that."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from hindsight_rl.experiments.cluster.head import GONE, Head
from hindsight_rl.experiments.cluster.start import starting

pytestmark = pytest.mark.skipif(not hasattr(signal, "sigtimedwait"), reason="macOS does without a guard")
GUARDED = """
import ctypes, os, signal, subprocess, sys, time
from types import SimpleNamespace
from hindsight_rl.core.interruption import signals_interrupt
from hindsight_rl.experiments.cluster import guard, head, start
guard.SECONDS_BETWEEN_LOOKS = 0.05
guard.SECONDS_TO_END = 0.3
print("begun", end=" ")
guard.guarded()

def begin_head():
    ray = SimpleNamespace(_private=SimpleNamespace(services=SimpleNamespace()))
    ray._private.services.start_gcs_server = lambda: SimpleNamespace(process=subprocess.Popen(["sleep", "1000"]))
    its = head.Head()
    with start.starting(its, ray):
        return ray._private.services.start_gcs_server().process
"""
ENDED = "The process that did the work was ended ({}); what is finished is kept."


def ended(what: str) -> tuple[int, str, str]:
    """The exit code of a guarded process, and what it said."""
    command = [sys.executable, "-c", GUARDED + what]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout, done.stderr.removeprefix("hindsight: ").rstrip()


@pytest.mark.parametrize(
    ("end", "how"),
    [
        ("os._exit(1)", "exit code 1"),
        ("os._exit(0)", "exit code 0"),
        ("os.abort()", "signal 6"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "signal 9"),
    ],
)
def test_what_ray_ends_without_a_word_is_a_sentence(end: str, how: str) -> None:
    assert ended(f"with guard.in_the_hands_of_ray():\n    {end}") == (2, "begun ", ENDED.format(how))


def test_what_ray_ends_once_its_head_is_gone_is_that_sentence() -> None:
    end = "with guard.in_the_hands_of_ray():\n    begin_head().kill()\n    time.sleep(1)\n    os._exit(1)"
    assert ended(end) == (2, "begun ", GONE)


def test_what_hangs_deaf_to_all_once_its_head_is_gone_is_ended_with_that_sentence() -> None:
    hang = "with guard.in_the_hands_of_ray():\n    begin_head().kill()\n    ctypes.PyDLL(None).sleep(1000)"
    assert ended(hang) == (2, "begun ", GONE)


def test_a_head_that_lives_ends_nobody() -> None:
    wait = "with guard.in_the_hands_of_ray():\n    head = begin_head()\n    time.sleep(1)\n    head.kill()\n"
    assert ended(wait + "time.sleep(1)\nprint('end')") == (0, "begun end\n", "")


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_an_end_of_its_own_stays_what_it_is(code: int) -> None:
    last = f"with guard.in_the_hands_of_ray():\n    sys.exit({code})"
    assert ended(last) == (code, "begun ", "")
    assert ended(f"os._exit({code})") == (code, "begun ", "")


def test_a_signal_that_ends_it_is_named_at_any_time() -> None:
    assert ended("os.abort()") == (2, "begun ", ENDED.format("signal 6"))


def test_its_own_sentence_is_the_only_one() -> None:
    assert ended("with guard.in_the_hands_of_ray():\n    head.end_with('Mine.')") == (2, "begun ", "Mine.")


WAITING = """
with signals_interrupt():
    try:
        print(os.getpid(), flush=True)
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        try:
            time.sleep(0.5)
        except KeyboardInterrupt:
            print("again", flush=True)
        sys.exit(42)
"""


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_each_signal_arrives_once_and_ctrl_c_on_a_terminal_too(number: signal.Signals | None) -> None:
    here, there = os.openpty()
    command = [sys.executable, "-c", GUARDED + WAITING]
    # In a session of its own, whose terminal is the other end.
    take = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    with subprocess.Popen(
        [sys.executable, "-c", take, *command],
        stdin=there,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline().split()[-1]) != process.pid
        if number is None:
            os.write(here, b"\x03")
        else:
            process.send_signal(number)
        assert process.stdout.read() == "interrupted\n"
    assert process.returncode == 42
    os.close(here)
    os.close(there)


def test_a_signal_from_outside_of_a_container_arrives() -> None:
    inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*inside, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no container can be made here")
    with subprocess.Popen(
        [*inside, sys.executable, "-c", GUARDED + WAITING], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (guard,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(guard), signal.SIGTERM)
        assert process.stdout.read() == "interrupted\n"
    assert process.returncode == 42


def test_who_is_guarded_does_not_outlive_the_guard() -> None:
    command = [sys.executable, "-c", GUARDED + WAITING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline().split()[-1])
        process.kill()
        assert process.stdout.read() == ""  # at its end
    deadline = time.monotonic() + 60
    while Path(f"/proc/{child}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("lives", [True, False])
def test_a_machine_that_is_slow_to_start_is_waited_for_as_long_as_its_processes_live(lives: bool) -> None:
    answers = iter([RuntimeError("not yet"), RuntimeError("not yet"), {"NodeID": "here"}])

    def get_node() -> object:
        answer = next(answers)
        if isinstance(answer, RuntimeError):
            raise answer
        return answer

    process = SimpleNamespace(pid=os.getpid(), poll=lambda: None if lives else 1)
    own = {"start_gcs_server": lambda: SimpleNamespace(process=process), "start_raylet": None, "get_node": get_node}
    ray = SimpleNamespace(_private=SimpleNamespace(services=SimpleNamespace(**own)))
    head = Head()
    with starting(head, ray):
        ray._private.services.start_gcs_server()
        assert head.is_gone is not lives
        if lives:
            assert ray._private.services.get_node() == {"NodeID": "here"}
        else:
            with pytest.raises(RuntimeError, match="not yet"):
                ray._private.services.get_node()
    assert vars(ray._private.services) == own
