"""`hindsight study report` and `hindsight study export`."""

from pathlib import Path

import numpy as np
from rich.console import Console

from hindsight_rl.analysis.report.build import report_files
from hindsight_rl.analysis.words import counted
from hindsight_rl.cli.console import PlainConsole
from hindsight_rl.cli.inspect import animate_policy
from hindsight_rl.cli.study.commands import StudyExport, StudyReport
from hindsight_rl.cli.study.run import tell_damage
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.interface import Environment
from hindsight_rl.exact import best_return
from hindsight_rl.experiments.paper import paper_result
from hindsight_rl.experiments.study.plan import Plan
from hindsight_rl.experiments.study.policies import kept_policy, policy_path
from hindsight_rl.records.files import SECONDS_OF_WRITING, make_folder, remove_leftovers, require_ours, write_atomically
from hindsight_rl.records.results import RESULTS, ResultsFile
from hindsight_rl.records.runs import DEFINITIVE, StudyResults
from hindsight_rl.records.tidy import to_csv, to_parquet
from hindsight_rl.training.compilation import keep_compiled_programs

EPISODES_SHOWN = 3
PAGE = "report.html"
"""The file of a report's folder that is written first."""
FORMATS = {".csv": to_csv, ".parquet": to_parquet}


def run_report(command: StudyReport) -> None:
    """Write the report of a study."""
    keep_compiled_programs()
    with ResultsFile.open(command.folder / RESULTS) as file:
        results = file.read()
    tell_damage(results, command.folder)
    plans = [Plan.from_json(cell, content) for cell, content in results.plans.items()]
    console = PlainConsole(stderr=True)
    with console.status("Reading the results"):
        best_returns = {plan.environment: best_return(plan.specification.task) for plan in plans}
    animations = _animations(command.folder, plans, results, console)
    with console.status("Drawing"):
        files = report_files(results, _paper, best_returns, animations)
    output = command.output or command.folder / "report"
    require_ours(output, PAGE)
    remove_leftovers(output, output / "figures", output / "tables", older_than=SECONDS_OF_WRITING)
    for name, content in files.items():
        make_folder((output / name).parent)
        write_atomically(output / name, content)
    finished = sum(run.failure is None for run in results.runs)
    PlainConsole().print(
        f"{output / PAGE} rests on {counted(finished, 'finished run')}; figures and tables are beside it.",
        soft_wrap=True,
    )


def _paper(environment: str, method: str, batch_size: int) -> tuple[float, float] | None:
    found = paper_result(environment, method, batch_size)
    return (found.mean, found.std) if found else None


def _animations(folder: Path, plans: list[Plan], results: StudyResults, console: Console) -> dict[str, bytes]:
    """For each environment and method, the best policy of any batch size."""
    best: dict[tuple[str, str], tuple[float, Plan]] = {}
    for plan in plans:
        performances = [run.average_performance for run in results.of(plan.cell, DEFINITIVE) if not run.failure]
        if performances:
            rival = best.get((plan.environment, plan.method), (-np.inf, plan))
            best[plan.environment, plan.method] = max(rival, (max(performances), plan), key=lambda entry: entry[0])
    animations = {}
    with console.status("Playing") as status:
        for number, (_, plan) in enumerate(best.values(), 1):
            status.update(f"Playing: policy {number} of {len(best)}")
            policy, environment = kept_policy(folder, plan), plan.specification.task
            path = policy_path(folder, plan.cell)
            if policy is None and path.exists():
                console.print(f"'{path}' is damaged and not shown; `study run` with --repair makes it again.")
            # Hosted environments have films of their own, far too large for a page.
            if policy is not None and isinstance(environment, Environment):
                caption = f"{plan.method} on {plan.environment}, batch size {plan.batch_size}"
                animations[caption] = animate_policy(environment, policy, EPISODES_SHOWN, seed=0)
    return animations


def run_export(command: StudyExport) -> None:
    """Write all evaluations as one table."""
    path = command.output or command.folder / "evaluations.csv"
    if path.suffix not in FORMATS:
        raise HindsightError(f"'{path}' must end in .csv or .parquet, which says what to write.")
    with ResultsFile.open(command.folder / RESULTS) as file:
        results = file.read()
    tell_damage(results, command.folder)
    make_folder(path.parent)
    remove_leftovers(path.parent, older_than=SECONDS_OF_WRITING)
    write_atomically(path, FORMATS[path.suffix](results))
    PlainConsole().print(f"{path} has the evaluations of {len(results.runs):,} runs.", soft_wrap=True)
