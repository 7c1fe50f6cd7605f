"""The commands that take a trained policy somewhere else."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import FlagCreatePairsOff, Positional, arg

Switch = Annotated[FlagCreatePairsOff[bool], arg(help_behavior_hint="(default: off)")]
Checkpoint = Annotated[str, arg(metavar="best|last|BATCH")]
RUN = "A folder that `hindsight train` made, a policy file, or a policy of the zoo, such as zoo:four-rooms."


@dataclass(frozen=True)
class Export:
    """Write a policy for other programs: ONNX and StableHLO, with names, shapes and normalisation inside."""

    folder: Annotated[Positional[Path], arg(metavar="RUN", help=RUN)]
    policy: int = 0
    """Which of the folder's runs."""
    checkpoint: Checkpoint = "last"
    """Which policy of the run: the last, the best by evaluation, or that of a batch that --keep-every kept."""
    formats: tuple[Literal["npz", "onnx", "stablehlo"], ...] = ("npz", "onnx", "stablehlo")
    """What to write; npz is the file that hindsight_rl.load reads."""
    output: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="(default: export/ in the folder)")] = None
    """Where the files go."""
    trust: Switch = False
    """Import the modules that the folder's settings name, which runs their code."""

    def run(self) -> None:
        """Write the files, and list them."""
        from hindsight_rl.cli.policies import run_export

        run_export(self)


@dataclass(frozen=True)
class Zoo:
    """List the trained policies that come with the package: what they were trained with, and how well they do."""

    json: Switch = False
    """Print them as JSON, settings included."""

    def run(self) -> None:
        """Print a table."""
        from hindsight_rl.cli.policies import run_zoo

        run_zoo(self)
