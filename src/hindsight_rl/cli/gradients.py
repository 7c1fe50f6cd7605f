"""`hindsight gradients`: the gradient laboratory on the command line."""

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hindsight_rl.agents.options import HindsightOptions
from hindsight_rl.analysis.figures import figure_bytes
from hindsight_rl.analysis.gradient_figures import ErrorBar, gradient_errors
from hindsight_rl.cli.commands import Gradients
from hindsight_rl.cli.console import PlainConsole
from hindsight_rl.cli.train import new_folder
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.numbers import is_positive_integer, whole_number
from hindsight_rl.environments.interface import Environment
from hindsight_rl.environments.registry import Specification, require_compiled, specify
from hindsight_rl.estimators.dials import LADDER
from hindsight_rl.estimators.table import ESTIMATORS, find_estimator
from hindsight_rl.experiments.definition import trusting
from hindsight_rl.experiments.gradients import Measurement, Setup, measure, setups
from hindsight_rl.experiments.job import load_policies
from hindsight_rl.methods.registry import find_method
from hindsight_rl.records.files import SECONDS_OF_WRITING, make_folder, remove_leftovers, require_ours, write_atomically
from hindsight_rl.training.compilation import keep_compiled_programs
from hindsight_rl.training.keys import key_of

TABLE = "gradients.csv"


def run_gradients(command: Gradients) -> None:
    """Measure, then leave a table, a figure and a CSV."""
    keep_compiled_programs()
    specification = specify(command.environment)
    policy, label = _policy(command, specification)
    chosen = setups(
        (*(command.estimators or ESTIMATORS), *(dials.name for dials in LADDER if command.dials)),
        command.batch_sizes,
        _caps(command),
        command.episodes_end,
        command.normalisers,
        command.normaliser_floors,
    )
    folder = command.output or new_folder(f"gradients-{specification.id.replace(':', '-')}")
    require_ours(folder, TABLE)
    make_folder(folder)
    remove_leftovers(folder, older_than=SECONDS_OF_WRITING)
    console = PlainConsole(stderr=True)
    console.print(f"{len(chosen)} setups, {command.samples} batches each, {label}")
    measurements = _measure(command, specification, policy, chosen, console)
    _write(measurements, folder, f"{specification.id}, {label}")
    if command.json:
        rows = [asdict(measurement) for measurement in measurements]
        print(json.dumps({"environment": specification.id, "policy": label, "measurements": rows}))
    else:
        _print(measurements, f"Gradients on {specification.id}, {label}")
        PlainConsole().print(f"In {folder}: gradients.csv, sample-sizes.csv, gradients.png", soft_wrap=True)


def _policy(command: Gradients, specification: Specification) -> tuple[Any, str]:
    if command.run_folder is None:
        if command.checkpoint is not None:
            raise HindsightError("--checkpoint needs --run-folder.")
        agent = find_method("hpg").make(
            _environment(specification), HindsightOptions(hidden_layers=command.hidden_layers)
        )
        return agent.policy(agent.init(key_of(command.seed))), "a fresh policy"
    with trusting(command.run_folder, command.trust):
        job, snapshot, found = load_policies(command.run_folder, command.checkpoint)
    if job.environment != specification:
        raise HindsightError(f"'{command.run_folder}' was trained on {job.environment.id}, not {specification.id}.")
    if not 0 <= command.policy < len(found):
        raise HindsightError(f"'{command.run_folder}' holds the runs 0 to {len(found) - 1}, not {command.policy}.")
    if not hasattr(found[command.policy], "log_probabilities"):
        raise HindsightError(f"'{command.run_folder}' holds action values ({job.settings.method}), not a policy.")
    return found[command.policy].model, f"{job.settings.method} after {snapshot.batch} batches"


def _environment(specification: Specification) -> Environment:
    return require_compiled(specification.task, specification.id)


def _caps(command: Gradients) -> list[int | None]:
    caps: list[int | None] = []
    for text in command.max_active_goals:
        cap = whole_number(text)
        if text != "all" and not is_positive_integer(cap):
            raise HindsightError(f"--max-active-goals takes 'all' or whole numbers of at least 1, not '{text}'.")
        caps.append(cap)
    return caps


def _measure(
    command: Gradients, specification: Specification, policy: Any, chosen: list[Setup], console: Console
) -> list[Measurement]:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("batches", total=command.samples * len(chosen))

        def tick(setup: int, samples: int) -> None:
            progress.update(task, completed=setup * command.samples + samples, description=describe(chosen[setup]))

        found = []
        for measurement in measure(_environment(specification), policy, chosen, command.samples, command.seed, tick):
            found.append(measurement)
            if not console.is_terminal:
                console.print(f"{len(found)}/{len(chosen)} {describe(measurement.setup)}")
    return found


def describe(setup: Setup) -> str:
    """A setup in a few words."""
    cap = "" if setup.max_active_goals is None else f", {setup.max_active_goals} goals"
    ended = f", {setup.ended}" if find_estimator(setup.estimator).weighted and setup.episodes_end == "goal" else ""
    floor = f", floor {setup.normaliser_floor:g}" if setup.normaliser_floor else ""
    name = setup.estimator.replace(",", " ")  # so that a narrow table breaks it between two dials
    return f"{name}, {setup.batch_size}, end at {setup.episodes_end}{ended}{cap}{floor}"


def _print(measurements: list[Measurement], title: str) -> None:
    table = Table(title=title, caption="bias² and variance relative to the exact gradient's squared length")
    table.add_column("estimator, batch, episodes, ended, goals, floor")
    for name, width in (("bias²", 15), ("variance", 8), ("cosine", 6)):
        table.add_column(name, justify="right", no_wrap=True, min_width=width)
    for found in measurements:
        table.add_row(
            describe(found.setup),
            f"{found.bias:.2g} ± {found.bias_error:.1g}",
            f"{found.variance:.3g}",
            f"{found.cosine:.3f}",
        )
    PlainConsole().print(table)


def _write(measurements: list[Measurement], folder: Path, title: str) -> None:
    rows = [measurement.row() for measurement in measurements]
    write_atomically(folder / TABLE, _table(rows))
    sizes = [
        {**asdict(found.setup), "time": time, "effective_share": size}
        for found in measurements
        for time, size in enumerate(found.effective_sample_sizes, 1)
    ]
    write_atomically(folder / "sample-sizes.csv", _table(sizes))
    bars = [ErrorBar(describe(found.setup), found.bias, found.variance) for found in measurements]
    weighted = [found for found in measurements if found.setup.estimator == "weighted"] or measurements[:1]
    curves = {describe(found.setup): found.effective_sample_sizes for found in weighted[:6]}
    write_atomically(folder / "gradients.png", figure_bytes(gradient_errors(bars, curves, title)))


def _table(rows: list[dict[str, Any]]) -> bytes:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue().encode()
