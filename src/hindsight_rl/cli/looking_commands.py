"""Commands that look at what is there: `compare`, `runs` and `watch`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from hindsight_rl.cli.policy_commands import Switch

Names = Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]", help_behavior_hint="(default: all)")]
Below = Annotated[Positional[Path], arg(metavar="[FOLDER]", help_behavior_hint="(default: the current folder)")]


@dataclass(frozen=True)
class Compare:
    """Set runs beside each other: a table with intervals, a figure, and the settings that differ."""

    sources: Annotated[
        Positional[tuple[Path, ...]], arg(metavar="SOURCE [SOURCE ...]", help_behavior_hint="(required)")
    ]
    """Run folders, study folders, and tables of `study export`; all but the first are compared with the first."""
    over: Literal["episodes", "steps", "seconds"] = "episodes"
    """What training is measured in: episodes, simulator steps, or seconds."""
    by: Literal["average_return", "final_return", "final_success_rate"] = "average_return"
    """What a run is judged by, over the part of training that all have."""
    environments: Names = ()
    """Only these environments."""
    methods: Names = ()
    """Only these methods."""
    output: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: a new comparison.png)")] = None
    """The figure to write: .png, .svg or .pdf."""
    json: Switch = False
    """Print all numbers as JSON."""

    def run(self) -> None:
        """Compare, print and draw."""
        from hindsight_rl.cli.compare import run_compare

        run_compare(self)


@dataclass(frozen=True)
class RunList:
    """List the runs and studies below a folder: environment, method, state, last return, age."""

    folder: Below = Path(".")
    """Where to look."""
    sort: Literal["age", "name", "environment", "method", "state", "return", "progress"] = "age"
    """What comes first: the newest, the highest return, the furthest."""
    filter: Annotated[tuple[str, ...], arg(metavar="TEXT|FIELD=VALUE ...", help_behavior_hint="(default: all)")] = ()
    """Only what holds a text, or has a field (name, kind, environment, method, state) of that value."""
    json: Switch = False
    """Print the list as JSON."""

    def run(self) -> None:
        """Look, and print a table."""
        from hindsight_rl.cli.compare import run_list

        run_list(self)


@dataclass(frozen=True)
class Watch:
    """Show all runs and studies below a folder as they learn, on a page that only this machine can open."""

    folder: Below = Path(".")
    """Where to look."""
    port: int = 0
    """Port on 127.0.0.1; 0 takes a free one."""
    open: Switch = False
    """Open the page in the browser."""

    def run(self) -> None:
        """Serve until Ctrl-C."""
        from hindsight_rl.cli.watch import run_watch

        run_watch(self)
