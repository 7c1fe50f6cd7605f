"""How long a study will take: from speeds measured on this machine and a rough idea of what an update costs."""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from hindsight_rl.core.cores import cores
from hindsight_rl.core.run import evaluation_count
from hindsight_rl.experiments.study.plan import Plan, Stage
from hindsight_rl.experiments.study.protocol import NOTHING_KNOWN, Learned, Performances, rounds_ahead
from hindsight_rl.methods.interface import Sizes
from hindsight_rl.records.runs import Cell, FinishedRun
from hindsight_rl.training.loop import training
from hindsight_rl.training.program import Program, make_program
from hindsight_rl.training.settings import Settings

SECONDS_TO_MEASURE = 1.0


@dataclass(frozen=True)
class Work:
    """What is still to be done for a cell."""

    search_runs: int
    definitive_runs: int
    updates: int
    evaluations: int
    episodes: int
    """Training episodes."""


@dataclass(frozen=True)
class Speed:
    """Seconds of one core."""

    update: float
    evaluation: float = 0.0

    def seconds(self, work: Work, on_cores: int | None = None) -> float:
        """How long some work takes on so many cores; on all that this process may use, unless given."""
        return (work.updates * self.update + work.evaluations * self.evaluation) / (on_cores or cores())


def work_ahead(plan: Plan, performances: Performances, learned: Learned = NOTHING_KNOWN) -> Work:
    """What a plan still asks for, given what is finished."""
    rounds = rounds_ahead(plan, performances, learned)
    updates = sum(runs * this.stage.batches for this, runs in rounds)
    return Work(
        search_runs=sum(runs for _, runs in rounds[:-1]),
        definitive_runs=rounds[-1][1],
        updates=updates,
        evaluations=sum(runs * _evaluations(this.stage) for this, runs in rounds),
        episodes=updates * plan.batch_size,
    )


def _evaluations(stage: Stage) -> int:
    return evaluation_count(stage.batches, stage.evaluate_every)


def measured_speed(plan: Plan) -> Speed:
    """Compile a cell's program and time a few updates and evaluations of a fresh policy.

    As in training, every core has a run of its own: one run alone would borrow the others and look too fast.
    """
    settings = plan.settings(plan.definitive, 1)
    program = make_program(plan.specification.task, settings)
    if program.advance is None or program.nothing is None:
        return _hosted_speed(settings, program)
    compiled = program.advance
    seeds = np.zeros(1, np.uint32)
    states = program.init(jnp.asarray(seeds))
    # Of the very types that training uses, so that the program compiled here serves there.
    rates = {name: jnp.float32(np.full(1, rate)) for name, rate in settings.rates.items()}
    nothing = program.nothing(1)

    with ThreadPoolExecutor(cores()) as pool:

        def seconds(batches: int, evaluates: bool) -> float:
            def work(core: int) -> None:
                jax.block_until_ready(compiled(states, seeds, rates, 0, batches, evaluates, nothing))

            began = time.monotonic()
            list(pool.map(work, range(cores())))
            return time.monotonic() - began

        jax.block_until_ready(compiled(states, seeds, rates, 0, 1, True, nothing))  # compiles
        batches, taken = 1, seconds(1, False)
        while taken < SECONDS_TO_MEASURE / 2 and batches < settings.batches:
            batches = min(settings.batches, 2 * batches)
            taken = seconds(batches, False)
        return Speed(taken / batches, min(seconds(0, True) for _ in range(2)))


def _hosted_speed(settings: Settings, program: Program) -> Speed:
    """Time two batches and an evaluation of as many episodes; all cores play, so that counts for each of them."""
    short = replace(settings, batches=2, evaluate_every=1, evaluation_episodes=settings.batch_size)
    moments = []
    for _ in training(program, short):
        moments.append(time.monotonic())
    # The first batch compiles; the second plays as many greedy episodes as exploring ones.
    both = (moments[2] - moments[1]) * cores()
    return Speed(both / 2, both / 2 * settings.evaluation_episodes / settings.batch_size)


def observed_speeds(runs: Iterable[FinishedRun]) -> dict[Cell, Speed]:
    """The speed of each cell that has finished runs, evaluations counted in."""
    seconds: dict[Cell, float] = {}
    updates: dict[Cell, int] = {}
    for run in runs:
        if len(run.batches) and run.seconds > 0:
            seconds[run.cell] = seconds.get(run.cell, 0.0) + run.seconds
            updates[run.cell] = updates.get(run.cell, 0) + int(run.batches[-1])
    return {cell: Speed(seconds[cell] / updates[cell]) for cell in seconds if updates[cell]}


def guessed_speeds(plans: Iterable[Plan], known: Mapping[Cell, Speed]) -> dict[Cell, Speed]:
    """A speed for every cell: the known one, or one scaled from those that are known; none when nothing is known."""
    costs = {plan.cell: rough_cost(plan) for plan in plans}
    factors = [speed.update / costs[cell] for cell, speed in known.items() if cell in costs and speed.update > 0]
    if not factors:
        return dict(known)
    factor = float(np.exp(np.mean(np.log(factors))))
    return {cell: known.get(cell, Speed(factor * cost)) for cell, cost in costs.items()}


def rough_cost(plan: Plan) -> float:
    """What the method says of the cost of an update: only good for comparing cells."""
    task, settings = plan.specification.task, plan.settings(plan.definitive, 1)
    return settings.row.cost(Sizes(plan.batch_size, task.horizon, task.goal_count, task.state_limit), settings.options)
