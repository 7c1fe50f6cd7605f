"""Ctrl-C, SIGTERM, SIGHUP and closed pipes are never failures: one sentence, and everything goes on afterwards."""

import errno
import io
import os
import signal
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_jobs import ENVIRONMENT, sentence, small_flags

from hindsight_rl.cli import main
from hindsight_rl.core import interruption
from hindsight_rl.experiments.saving import Saver
from hindsight_rl.records.evaluations import Evaluations, read_evaluations
from hindsight_rl.running.progress import TrainingProgress
from hindsight_rl.training.state import Snapshot

pytestmark = pytest.mark.usefixtures("compiled_programs")


def stopped(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert isinstance(stop.value.code, int)
    return stop.value.code


def press(number: int = signal.SIGINT) -> None:
    """Send a signal to this process; it is here when this returns."""
    os.kill(os.getpid(), number)


def test_a_signal_in_a_callback_of_a_compiled_program_waits_until_it_is_over() -> None:
    """The numbers of the program are those that it would have had."""

    def double(value: np.ndarray) -> np.ndarray:
        press()
        return 2 * value

    program = jax.jit(lambda value: jax.pure_callback(double, jax.ShapeDtypeStruct((), jnp.float32), value))
    with interruption.signals_interrupt():
        assert float(program(jnp.float32(3))) == 6
        with pytest.raises(KeyboardInterrupt):
            interruption.raise_if_interrupted()
        assert interruption.is_interruption(ValueError("whatever came of it"))


def test_without_our_handlers_what_a_program_makes_of_an_interruption_is_known() -> None:
    """As in a notebook, where Python's own handler raises at once."""

    def raising(value: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    program = jax.jit(lambda value: jax.pure_callback(raising, jax.ShapeDtypeStruct((), jnp.float32), value))
    with pytest.raises(jax.errors.JaxRuntimeError) as made, interruption.signals_interrupt():
        float(program(jnp.float32(3)))
    assert interruption.is_interruption(made.value)
    assert not interruption.is_interruption(ValueError("CpuCallback error: a wheel came off"))


class Finalised:
    def __del__(self) -> None:
        press()


def test_a_signal_in_a_finaliser_is_not_lost() -> None:
    with interruption.signals_interrupt():
        Finalised()
        with pytest.raises(KeyboardInterrupt):
            interruption.raise_if_interrupted()


def test_a_signal_while_a_weak_reference_ends_is_not_lost(capfd: pytest.CaptureFixture[str]) -> None:
    """Python would print the interruption as ignored, and go on."""

    def press_in_weakref(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename == weakref.__file__:
            sys.setprofile(None)
            press()

    held, key = weakref.WeakKeyDictionary(), Finalised  # type: ignore[var-annotated]
    held[key] = 1
    with interruption.signals_interrupt():
        sys.setprofile(press_in_weakref)
        held.pop(key)
        with pytest.raises(KeyboardInterrupt):
            interruption.raise_if_interrupted()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["__enter__", "__exit__", "set_trace"])
def test_a_signal_while_jax_begins_or_ends_to_trace_does_not_leave_it_tracing(name: str) -> None:
    def press_in_jax(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == name and frame.f_code.co_filename.endswith("jax/_src/core.py"):
            sys.setprofile(None)
            press()

    with interruption.signals_interrupt():
        sys.setprofile(press_in_jax)
        assert float(jax.jit(lambda value: value + 1)(jnp.float32(1))) == 2
        with pytest.raises(KeyboardInterrupt):
            interruption.raise_if_interrupted()
    assert float(jnp.ones(()) + 1) == 2


def test_an_interruption_that_python_ignores_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    class Odd:
        def __del__(self) -> None:
            raise KeyboardInterrupt if self is not None else ValueError

    with interruption.signals_interrupt():
        Odd()
    assert capfd.readouterr().err == ""


def test_five_times_ctrl_c_saves_once() -> None:
    saved: list[object] = []

    def save(snapshot: object) -> None:
        for _ in range(4):
            press()
        saved.append(snapshot)

    first, returns = np.zeros(1, int), np.zeros((1, 1))
    newest = Snapshot([], Evaluations(first, {}, first, first, {"mean_return": returns, "success_rate": returns}))

    def train() -> None:
        with Saver(save, 1000.0) as saver:
            saver.newest = newest
            press()

    with interruption.signals_interrupt():
        with pytest.raises(KeyboardInterrupt):
            train()
        press()
    assert saved == [newest]
    assert interruption.exit_code() == 130


def test_what_the_process_was_told_to_ignore_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruption.signals_interrupt():
            press(signal.SIGHUP)
            interruption.raise_if_interrupted()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_after_an_interruption_the_program_ends_at_once() -> None:
    """While Python is taken apart, its handlers are gone, and a further signal would kill it."""
    script = """
import os, signal, sys
from hindsight_rl.cli import main
from hindsight_rl.cli.commands import Methods
Methods.run = lambda command: os.kill(os.getpid(), signal.SIGTERM)
class Last:
    def __del__(self, kill=os.kill, number=os.getpid()):
        kill(number, 15)
sys.last = Last()
sys.argv[1:] = ["methods"]
main()
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (143, "hindsight: Interrupted.\n")


class HalfClosed(io.StringIO):
    """A stream that nobody reads from some line on."""

    def write(self, text: str) -> int:
        if "40/40 batches" in text:
            raise BrokenPipeError(errno.EPIPE, "nobody reads")
        return super().write(text)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (None, 130)])
def test_a_signal_or_a_closed_pipe_saves_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int | None, code: int
) -> None:
    """The checkpoint that would be due much later is written at once."""
    update = TrainingProgress.update

    def updated(progress: TrainingProgress, batch: int, *rest: Any) -> None:
        update(progress, batch, *rest)
        if batch == 20 and number is not None:
            press(number)

    monkeypatch.setattr(TrainingProgress, "update", updated)
    if number is None:
        monkeypatch.setattr(sys, "stderr", HalfClosed())
    folder = tmp_path / "run"
    assert stopped(["train", ENVIRONMENT, *small_flags(), "--output", str(folder)]) == code
    reached = 40 if number is None else 20
    said = f"Interrupted after {reached} of 40 batches; the same command with --resume --output {folder} goes on."
    if number is not None:
        assert sentence(capsys.readouterr().err) == said
    assert read_evaluations(folder / "evaluations.csv").batches[-1] == reached
