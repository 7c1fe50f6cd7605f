"""Simulators stepped as fast as they can, one in each of some processes, without an agent: no rollout is faster.

The steps are the same work, with the same resets, as a rollout's: the same controls, and the same reads of the
emulator's screens and memory. Nothing is made of what was read.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

SEED = 0


def fetch_push_steps(actions: int) -> Iterator[None]:
    """Episodes of FetchPush, step by step."""
    from hindsight_rl.environments.extras import import_gymnasium, import_robotics
    from hindsight_rl.environments.fetch_push import CHANGES, ENVIRONMENT

    import_robotics()
    simulator = import_gymnasium().make(ENVIRONMENT, render_mode="rgb_array", disable_env_checker=True).unwrapped
    choices = np.random.default_rng(SEED).integers(len(CHANGES), size=10**5)
    number = 0
    while True:
        simulator.reset(seed=number)
        velocity = np.zeros(4, np.float32)
        for _ in range(actions):
            velocity[:2] = np.clip(velocity[:2] + CHANGES[choices[number % len(choices)]], -1, 1)
            simulator.step(velocity)
            number += 1
            yield


def ms_pacman_steps(actions: int) -> Iterator[None]:
    """Episodes of Ms. Pac-man, step by step; screens are read at the ticks whose frames are shown or combined."""
    from hindsight_rl.environments.extras import import_ale
    from hindsight_rl.environments.ms_pacman.game import (
        ACTIONS,
        FRAME_TICKS,
        FROZEN_TICKS,
        TICK_SEEN,
        TICKS,
        hold,
        open_emulator,
    )

    emulator = open_emulator()
    moves = [getattr(import_ale().Action, name) for name in ACTIONS]
    hold(emulator, moves[0], FROZEN_TICKS + TICKS)
    start = emulator.cloneState()
    read = {*FRAME_TICKS, *(tick - 1 for tick in FRAME_TICKS[1:])}
    choices = np.random.default_rng(SEED).integers(len(moves), size=10**5)
    number = 0
    while True:
        emulator.restoreState(start)
        for action in range(actions + 1):  # an episode begins with a random action, which is no step of the agent
            move = moves[choices[number % len(choices)]]
            number += 1
            for tick in range(1, TICKS + 1):
                emulator.act(move)
                if tick in read:
                    emulator.getScreen()
                if tick == TICK_SEEN:
                    emulator.getRAM()
            emulator.lives()
            if action:
                yield


def wrapped_steps(source: Any, action_count: int, actions: int) -> Iterator[None]:
    """Episodes of our own simulator class, step by step."""
    simulator = source.build()
    choices = np.random.default_rng(SEED).integers(action_count, size=10**5)
    number = 0
    while True:
        simulator.reset(number)
        simulator.sample_goal(number)
        for _ in range(actions):
            simulator.step(choices[number % len(choices)])
            number += 1
            yield


def gymnasium_steps(name: str, actions: int) -> Iterator[None]:
    """Episodes of an environment of Gymnasium, without its wrappers, step by step."""
    from hindsight_rl.environments.extras import import_gymnasium, import_robotics

    import_robotics()
    environment = import_gymnasium().make(name, disable_env_checker=True).unwrapped
    environment.action_space.seed(SEED)
    choices = [environment.action_space.sample() for _ in range(1000)]
    number = 0
    while True:
        environment.reset(seed=number)
        for _ in range(actions):
            environment.step(choices[number % len(choices)])
            number += 1
            yield


STEPPERS: Mapping[str, Callable[..., Iterator[None]]] = {
    "fetch-push": fetch_push_steps,
    "ms-pacman": ms_pacman_steps,
    "wrapped": wrapped_steps,
    "gymnasium": gymnasium_steps,
}


class BareSimulators:
    """A process for each core, each with one simulator."""

    def __init__(self, stepper: str, arguments: tuple[Any, ...], processes: int):
        context = multiprocessing.get_context("spawn")
        self._stack = ExitStack()
        self._connections = []
        for _ in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(stepper, arguments, theirs), daemon=True)
            process.start()
            theirs.close()
            self._stack.callback(process.join)
            self._stack.callback(ours.close)
            self._connections.append(ours)

    def __enter__(self) -> "BareSimulators":
        return self

    def __exit__(self, *trouble: object) -> None:
        self._stack.close()

    def steps_per_second(self, seconds: float) -> float:
        """Of all processes together, while all of them run."""
        for connection in self._connections:
            connection.send(seconds)
        return sum(connection.recv() for connection in self._connections)


def _serve(stepper: str, arguments: tuple[Any, ...], connection: Connection) -> None:
    steps = STEPPERS[stepper](*arguments)
    next(steps)
    with suppress(EOFError):
        while True:
            seconds = connection.recv()
            began, done = time.perf_counter(), 0
            while time.perf_counter() - began < seconds:
                next(steps)
                done += 1
            connection.send(done / (time.perf_counter() - began))
