"""Training from Python: `hindsight_rl.train`."""

import inspect
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from rich.console import Console

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.plugins import is_reference
from hindsight_rl.environments.hosted import check_workers
from hindsight_rl.environments.interface import Task
from hindsight_rl.environments.registry import Specification
from hindsight_rl.experiments.configuration import complete, resolve
from hindsight_rl.experiments.job import run_job
from hindsight_rl.experiments.train import Result, named_task
from hindsight_rl.running.folder import finish_folder
from hindsight_rl.running.shown import endings, show
from hindsight_rl.training.callbacks import Callback, Evaluated, as_callback
from hindsight_rl.training.loop import training
from hindsight_rl.training.program import Program, make_program
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import Snapshot


def train(
    environment: Any,
    report: Evaluated | None = None,
    *,
    output: str | PathLike[str] | None = None,
    resume: bool = False,
    progress: bool = True,
    callbacks: Sequence[Callback | Evaluated] = (),
    until_success: float | None = None,
    minutes: float | None = None,
    keep_every: int | None = None,
    workers: int | None = None,
    **settings: Any,
) -> Result:
    """Train on an environment and return learning curves and policies.

    `environment` is a name, an environment of this library, or a Gymnasium goal environment; to say more of the latter,
    pass what `hindsight_rl.environments.gymnasium.task.gymnasium_task` makes of it. `settings` are those of the run,
    the `method`, and the options of method and environment, by name, as on the command line; those not given are the
    paper's for a named environment.

    With `output` the run goes into a folder like one of `hindsight train`, with which `resume`, `hindsight evaluate`
    and `hindsight render` go on; `keep_every` keeps checkpoints there. `callbacks` (and `report`, another one) are
    called with a snapshot after each evaluation; one that returns True ends the training, and what was learned is
    returned. `until_success` and `minutes` end it too. `progress` goes to standard error, as from the command line; the
    logger `hindsight_rl` gets a line for each evaluation. `workers` play a hosted environment.
    """
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    chosen = [as_callback(each) for each in (*([report] if report else []), *callbacks)]
    chosen += endings(until_success, minutes)
    console = Console(stderr=True, markup=False, emoji=False, highlight=False, quiet=not progress)
    if output is None:
        if resume or keep_every is not None:
            raise HindsightError("resume and keep_every are for runs in a folder: give output=FOLDER.")
        return _in_memory(environment, settings, console, chosen, workers)
    job, folder = resolve(_reference(environment), settings, warnings.warn), Path(output)
    program = make_program(job.environment.task, job.settings)
    run = partial(run_job, job, folder, program, resume, keep_every=keep_every, workers=workers)
    where = f"train(..., output={str(folder)!r}, resume=True) goes on"
    snapshot, speed = show(job.settings, job.environment.id, console, run, chosen, where, warnings.warn)
    finish_folder(job, snapshot, folder, speed)
    return _result(job.settings, program, snapshot, job.environment)


def _in_memory(
    environment: Any, settings: dict[str, Any], console: Console, callbacks: list[Callback], workers: int | None
) -> Result:
    if isinstance(environment, str):
        job = resolve(environment, settings, warnings.warn)
        name, task, chosen = job.environment.id, job.environment.task, job.settings
        specification: Specification | None = job.environment
    else:
        name, task = named_task(environment)
        specification, chosen = None, complete(name, settings)
    check_workers([task], workers)
    program = make_program(task, chosen)
    run = partial(_until_end, program, chosen, workers)
    snapshot, _ = show(chosen, name, console, run, callbacks, notice=warnings.warn)
    return _result(chosen, program, snapshot, specification)


def _until_end(
    program: Program,
    settings: Settings,
    workers: int | None,
    report: Callable[[Snapshot], bool],
    tick: Callable[[int], None],
    notice: Callable[[str], None],
) -> Snapshot:
    for snapshot in training(program, settings, tick=tick, notice=notice, workers=workers):
        if report(snapshot):
            break
    return snapshot


def _result(settings: Settings, program: Program, snapshot: Snapshot, environment: Specification | None) -> Result:
    policies = program.policies(snapshot.states)
    return Result(settings, snapshot.evaluations, policies, snapshot.failures, environment)


def _reference(environment: Any) -> str:
    """The name under which another process finds an environment again, which a run folder must hold."""
    if isinstance(environment, str):
        return environment
    if (isinstance(environment, type) or inspect.isfunction(environment)) and environment.__module__ != "__main__":
        name = f"{environment.__module__}:{environment.__qualname__}"
        module = sys.modules.get(environment.__module__)
        if is_reference(name) and getattr(module, environment.__qualname__.split(".")[0], None) is not None:
            return name
    kind = type(environment).__name__ if isinstance(environment, Task) else repr(environment)
    raise HindsightError(
        f"A run folder names its environment, and {kind} has no name by which it can be made again: give a named "
        "environment, such as 'my_module:MyEnvironment', or a class or function of a module."
    )
