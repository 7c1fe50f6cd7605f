"""What can be done with trained policies: `hindsight export` and `hindsight zoo`; where their files go."""

import json
from pathlib import Path
from typing import Any

from rich.table import Table

from hindsight_rl.cli.console import PlainConsole
from hindsight_rl.cli.policy_commands import Export, Zoo
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.experiments.definition import trusting
from hindsight_rl.experiments.export import export
from hindsight_rl.experiments.policies import Known, load_known
from hindsight_rl.experiments.policy_files import read_card
from hindsight_rl.experiments.zoo import PREFIX, zoo_folder, zoo_names
from hindsight_rl.records.checkpoints import load_checkpoint


def chosen(source: Path, checkpoint: str, number: int) -> Known:
    """One of the policies of a folder or file."""
    found = load_known(source, checkpoint)
    if not 0 <= number < len(found):
        raise HindsightError(f"'{source}' holds the runs 0 to {len(found) - 1}, not {number}.")
    return found[number]


def beside(source: Path, name: str) -> Path:
    """Where a file about a policy goes: into its folder, beside its file, or, for the zoo's, into the current one."""
    if str(source).startswith(PREFIX) and not source.exists():
        return Path(f"{str(source).replace(':', '-')}-{name}")
    return source / name if source.is_dir() else source.with_name(f"{source.stem}-{name}")


def run_export(command: Export) -> None:
    """Write a policy in each of the formats."""
    if not command.formats:
        raise HindsightError("--formats must name at least one format.")
    with trusting(command.folder, command.trust):
        known = chosen(command.folder, command.checkpoint, command.policy)
        written = export(known, command.output or beside(command.folder, "export"), command.formats)
    for path in written:
        PlainConsole().print(f"{path}: {path.stat().st_size:,} bytes", soft_wrap=True)


def run_zoo(command: Zoo) -> None:
    """A table of the policies that come with the package."""
    rows = [_row(name) for name in zoo_names()]
    if command.json:
        print(json.dumps(rows))
        return
    table = Table("name", "method", "seed", "batches", "mean return", "success")
    for row in rows:
        low, high = row["interval"]
        figures = (f"{row['mean_return']:.2f} ± {(high - low) / 2:.2f}", f"{row['success_rate']:.1%}")
        table.add_row(row["name"], row["method"], str(row["seed"]), str(row["batch"]), *figures)
    PlainConsole().print(table)
    PlainConsole().print("± spans 95 %, from fresh greedy episodes; --json has all settings.", soft_wrap=True)
    PlainConsole().print("Next: hindsight render zoo:four-rooms")


def _row(name: str) -> dict[str, Any]:
    path = zoo_folder() / f"{name}.npz"
    card = read_card(path, load_checkpoint(path)[1])
    return {
        "name": f"{PREFIX}{name}",
        "environment": card.environment,
        "method": card.settings.method,
        "settings": card.settings.flat,
        "seed": card.seed,
        "batch": card.batch,
        **card.measured,
        "bytes": path.stat().st_size,
    }
