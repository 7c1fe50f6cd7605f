"""The commands: each a frozen dataclass whose fields are its arguments, with a method `run`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from hindsight_rl.agents.options import Ended
from hindsight_rl.cli.policy_commands import RUN, Checkpoint, Switch
from hindsight_rl.core.run import EpisodesEnd

RayWorkers = Annotated[str | None, arg(metavar="INT|ray:INT", help_behavior_hint="(default: one for each core)")]
On = Annotated[str | None, arg(metavar="CLUSTER", help_behavior_hint="(default: this machine)")]
Workers = Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: one for each core)")]


@dataclass(frozen=True)
class Evaluate:
    """Evaluate the greedy policies of a run folder on fresh episodes."""

    folder: Annotated[Positional[Path], arg(metavar="RUN", help=RUN)]
    episodes: int = 1000
    """Episodes for each policy."""
    checkpoint: Checkpoint = "last"
    """Which policies: the last, the best by evaluation, or those of a batch that --keep-every kept."""
    goal: Annotated[tuple[float, ...], arg(metavar="NUMBER ...", help_behavior_hint="(default: drawn)")] = ()
    """A goal to pursue; the numbers of several goals may follow one another."""
    goals: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: drawn)")] = None
    """A text file with a goal to pursue in each line."""
    seed: int = 12345
    """Seed of the episodes."""
    workers: Workers = None
    """Processes that play a hosted environment; the numbers do not depend on it."""
    json: Switch = False
    """Print the results as JSON."""
    trust: Switch = False
    """Import the modules that the folder's settings name, which runs their code."""

    def run(self) -> None:
        """Evaluate and print a table."""
        from hindsight_rl.cli.evaluate import run_evaluate

        run_evaluate(self)


@dataclass(frozen=True)
class Render:
    """Show greedy episodes of a run folder: text in the terminal and an animated GIF."""

    folder: Annotated[Positional[Path], arg(metavar="RUN", help=RUN)]
    policy: int = 0
    """Which of the folder's runs to show."""
    checkpoint: Checkpoint = "last"
    """Which policy of the run: the last, the best by evaluation, or that of a batch that --keep-every kept."""
    episodes: int = 5
    """Episodes to show."""
    seed: int = 12345
    """Seed of the episodes."""
    output: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: policy.gif in the folder)")] = None
    """The GIF to write."""
    video: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: policy.mp4 for hosted ones)")] = (
        None
    )
    """An MP4 film to write; hosted environments are shown in no other way."""
    trust: Switch = False
    """Import the modules that the folder's settings name, which runs their code."""

    def run(self) -> None:
        """Play, print and draw."""
        from hindsight_rl.cli.inspect import run_render

        run_render(self)


@dataclass(frozen=True)
class Diagnose:
    """Say what is likely wrong with the runs of a folder, by the metrics that they recorded, and what to try."""

    folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """A folder that `hindsight train` made, or is still writing to."""
    json: Switch = False
    """Print the findings as JSON."""
    trust: Switch = False
    """Import the modules that the folder's settings name, which runs their code."""

    def run(self) -> None:
        """Print a sentence on each finding, and draw the metrics."""
        from hindsight_rl.cli.diagnose import run_diagnose

        run_diagnose(self)


@dataclass(frozen=True)
class Gradients:
    """Measure how far estimated gradients are from the exact one: bias, variance, error, cosine, sample sizes."""

    environment: Annotated[Positional[str], arg(metavar="ENVIRONMENT")]
    """A finite environment: bit flipping with up to 10 bits, or any grid."""
    run_folder: Annotated[Path | None, arg(metavar="RUN", help_behavior_hint="(default: a fresh policy)")] = None
    """A folder that `hindsight train` made, to take the policy from."""
    checkpoint: Annotated[int | None, arg(metavar="BATCH", help_behavior_hint="(default: the newest)")] = None
    """Which of the checkpoints that `train --keep-every` left in the folder."""
    policy: int = 0
    """Which of the folder's runs."""
    estimators: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]", help_behavior_hint="(default: all)")] = ()
    """Which estimators to compare, your own as my_module:mine, truncated corrections as truncated,rho=1,lambda=0.9."""
    dials: Switch = False
    """Add truncated corrections, those of hppo, with each of their dials turned in turn."""
    batch_sizes: tuple[int, ...] = (2, 16)
    """Episodes in a batch."""
    max_active_goals: Annotated[tuple[str, ...], arg(metavar="all|INT ...")] = ("all",)
    """Caps on the active goals of an episode."""
    episodes_end: tuple[EpisodesEnd, ...] = ("goal", "horizon")
    """When episodes end: when the pursued goal is reached, or only at the horizon."""
    normalisers: tuple[Ended, ...] = ("drop", "carry")
    """What ended episodes count in weighted estimators."""
    normaliser_floors: tuple[float, ...] = (0.0,)
    """What weighted estimators add to every ratio before they normalise; the paper's program adds 1e-12."""
    samples: int = 200
    """Batches drawn for each row."""
    seed: int = 0
    """Seed of a fresh policy and of the batches."""
    hidden_layers: tuple[int, ...] = (256, 256)
    """Widths of a fresh policy's hidden layers."""
    output: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="(default: a new one below runs/)")] = None
    """Where gradients.csv, sample-sizes.csv and gradients.png go."""
    json: Switch = False
    """Print the measurements as JSON on standard output."""
    trust: Switch = False
    """Import the modules that the folder's settings name, which runs their code."""

    def run(self) -> None:
        """Measure, with progress on standard error."""
        from hindsight_rl.cli.gradients import run_gradients

        run_gradients(self)


@dataclass(frozen=True)
class Check:
    """Check an environment of your own against the contract: shapes, determinism, purity, rewards, probabilities."""

    environment: Annotated[Positional[str], arg(metavar="ENVIRONMENT")]
    """Such as my_module:MyEnvironment; any other name works too."""
    seed: int = 0
    """Seed of the episodes that are played."""

    @property
    def options(self) -> Mapping[str, Any]:
        """What the environment is told; the flags for it are made when its name is known."""
        return {}

    def run(self) -> None:
        """Check, and print a line for each check."""
        from hindsight_rl.cli.inspect import run_check

        run_check(self)


@dataclass(frozen=True)
class Verify:
    """Look for damage in every file of the run and study folders at or below a folder; a line a file."""

    folder: Annotated[Positional[Path], arg(metavar="RUN|STUDY")]
    """A run, a study, or a folder of them."""

    def run(self) -> None:
        """Print the lines; the exit code is 1 when something is damaged."""
        from hindsight_rl.cli.verify import run_verify

        run_verify(self)


@dataclass(frozen=True)
class Environments:
    """List the environments, or the options of one."""

    name: Annotated[Positional[str], arg(metavar="[NAME]", help_behavior_hint="(default: all)")] = ""
    """An environment whose options to list."""

    def run(self) -> None:
        """Print a table."""
        from hindsight_rl.cli.inspect import list_environments

        list_environments(self.name)


@dataclass(frozen=True)
class Methods:
    """List the methods, or the options of one."""

    name: Annotated[Positional[str], arg(metavar="[NAME]", help_behavior_hint="(default: all)")] = ""
    """A method whose options to list."""

    def run(self) -> None:
        """Print a table."""
        from hindsight_rl.cli.inspect import list_methods

        list_methods(self.name)
