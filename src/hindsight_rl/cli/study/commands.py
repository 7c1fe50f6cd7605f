"""The commands below `hindsight study`, each a frozen dataclass whose fields are its arguments."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from hindsight_rl.cli.commands import On, Workers
from hindsight_rl.cli.policy_commands import Switch

Some = Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]", help_behavior_hint="(default: all)")]
Which = Annotated[Positional[str], arg(metavar="STUDY")]
Folder = Annotated[Positional[Path], arg(metavar="FOLDER")]
Sizes = Annotated[tuple[int, ...], arg(metavar="INT [INT ...]", help_behavior_hint="(default: all)")]


@dataclass(frozen=True)
class Slice:
    """Which part of which study."""

    study: Which
    """A preset (paper), a TOML file, or the folder of a study, to go on with it."""
    environments: Some = ()
    """Only these environments."""
    methods: Some = ()
    """Only these methods."""
    batch_sizes: Sizes = ()
    """Only these batch sizes."""
    search: Annotated[
        Literal["grid", "halving"] | None, arg(metavar="{grid,halving}", help_behavior_hint="(default: the study's)")
    ] = None
    """grid: every setting with all runs and batches. halving: a quarter of the settings goes on, for longer."""
    runs: Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: the study's)")] = None
    """Definitive runs of each cell. More than there are already only adds to them."""
    search_runs: Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: the study's)")] = None
    """Runs of each setting in the search (in its last rung, with halving)."""
    slice: Annotated[str | None, arg(metavar="NUMBER/COUNT", help_behavior_hint="(default: all)")] = None
    """Only this part of the cells, such as 2/8 for the second of eight array jobs; `study merge` joins them."""
    output: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="(default: studies/NAME)")] = None
    """Where the results go, or are already; a slice has a folder of its own, studies/NAME-slice-2-of-8."""


@dataclass(frozen=True)
class StudyRun(Slice):
    """Run a study, or go on with it: search the learning rates, then run the best with fresh seeds."""

    retry_failed: Switch = False
    """Run those runs again that ended with an exception, as earlier versions recorded them."""
    repair: Switch = False
    """Run those runs again that are damaged in the results file, and make damaged policies again."""
    tensorboard: Switch = False
    """Also write TensorBoard event files, into the folder's tensorboard/."""
    workers: Workers = None
    """Processes that play hosted environments; the numbers do not depend on it."""
    on: On = None
    """Run on Ray: ray (started here), auto (the cluster of this machine), HOST:PORT or ray://HOST:PORT."""
    piece_cores: int = 1
    """Cores for each piece of work, with --on; it has five runs for each."""
    piece_gpus: Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: 1 where JAX finds one)")] = None
    """GPUs for each piece of work, with --on."""
    json: Switch = False
    """Print a machine-readable summary on standard output."""

    def run(self) -> None:
        """Run, with progress on standard error."""
        from hindsight_rl.cli.study.run import run_study_command

        run_study_command(self)


@dataclass(frozen=True)
class StudyPlan(Slice):
    """Say what a study would run, and how long that would take on this machine; nothing is run."""

    skip_measurement: Switch = False
    """Only count: do not compile and time each cell."""
    on: On = None
    """Estimate for a Ray cluster: ray (this machine), auto, HOST:PORT or ray://HOST:PORT."""
    json: Switch = False
    """Print the plan as JSON."""

    def run(self) -> None:
        """Count, measure and print."""
        from hindsight_rl.cli.study.plan import run_plan

        run_plan(self)


@dataclass(frozen=True)
class StudyReport:
    """Turn a study's results, finished or not, into tables, figures and one HTML page."""

    folder: Folder
    """A folder that `hindsight study run` made."""
    output: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="(default: report in the folder)")] = None
    """Where report.html, figures/ and tables/ go."""

    def run(self) -> None:
        """Compute, draw and write."""
        from hindsight_rl.cli.study.report import run_report

        run_report(self)


@dataclass(frozen=True)
class StudyExport:
    """Write all evaluations of a study as one tidy table, CSV or Parquet."""

    folder: Folder
    """A folder that `hindsight study run` made."""
    output: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: evaluations.csv in it)")] = None
    """The file to write; its ending, .csv or .parquet, is the format."""

    def run(self) -> None:
        """Write the table."""
        from hindsight_rl.cli.study.report import run_export

        run_export(self)


@dataclass(frozen=True)
class StudyMerge:
    """Take the finished runs of other folders into a study's, as when slices of it ran on several machines."""

    folder: Folder
    """The study's folder; a new one is made."""
    source: Annotated[Positional[tuple[Path, ...]], arg(metavar="SOURCE [SOURCE ...]", help_behavior_hint="(required)")]
    """The folders to take runs from; they stay as they are."""
    environments: Some = ()
    """Only these environments."""
    methods: Some = ()
    """Only these methods."""
    batch_sizes: Sizes = ()
    """Only these batch sizes."""

    def run(self) -> None:
        """Take what is missing, and say how much that was."""
        from hindsight_rl.cli.study.run import run_merge

        run_merge(self)


STUDY_COMMANDS = {
    "run": StudyRun,
    "plan": StudyPlan,
    "report": StudyReport,
    "export": StudyExport,
    "merge": StudyMerge,
}


@dataclass(frozen=True)
class StudyCommands:
    """Whole studies, resumable: run, plan, report, export, merge. See: hindsight study --help"""

    def run(self) -> None:
        """Never called: the commands below it are parsed in its stead."""
