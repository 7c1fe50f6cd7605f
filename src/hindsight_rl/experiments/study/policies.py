"""The policies that a study keeps: that of the best definitive run of each cell, for people to look at."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.experiments.study.plan import Plan
from hindsight_rl.experiments.study.protocol import Piece
from hindsight_rl.records.checkpoints import load_checkpoint, read_checkpoint, save_checkpoint
from hindsight_rl.records.files import make_folder, write_atomically
from hindsight_rl.records.runs import DEFINITIVE, Cell, Choices, RunKey
from hindsight_rl.training.program import make_program
from hindsight_rl.training.state import Snapshot, state_from_arrays, state_to_arrays

POLICIES, CELL = "policies", "cell"


def keep_best_policy(folder: Path, piece: Piece, snapshot: Snapshot) -> None:
    """Keep the state of the best definitive run, for people to look at."""
    performance = np.nan_to_num(snapshot.evaluations.average_performance, nan=-np.inf)
    best = int(np.argmax(performance))
    path = policy_path(folder, piece.plan.cell)
    if piece.round.name != DEFINITIVE or not np.isfinite(performance[best]):
        return
    if held_performance(folder, piece.plan.cell) >= performance[best]:
        return
    make_folder(path.parent)
    state = jax.tree.map(lambda leaf: np.asarray(leaf)[best : best + 1], snapshot.states)
    metadata: dict[str, Any] = {"key": list(piece.keys[best]), "average_performance": float(performance[best])}
    save_checkpoint(path, state_to_arrays(state), {CELL: list(piece.plan.cell), **metadata})


def take_policy(folder: Path, cell: Cell, content: bytes) -> None:
    """Keep a policy that was made elsewhere, if it is better than the one held or, as good, of an earlier run."""
    path = policy_path(folder, cell)
    offered, held = _rank(read_checkpoint(content, path)[1]), held_performance(folder, cell)
    if np.isfinite(held) and _rank(load_checkpoint(path)[1]) <= offered:
        return
    make_folder(path.parent)
    write_atomically(path, content)


def _rank(metadata: Mapping[str, Any]) -> tuple[float, Any]:
    """Smaller is better. Runs come in by any order, so that equals are told apart by their keys."""
    return -float(metadata["average_performance"]), metadata["key"]


def policy_path(folder: Path, cell: Cell) -> Path:
    """Where the best policy of a cell is kept."""
    return folder / POLICIES / f"{cell.file_name}.npz"


def held_performance(folder: Path, cell: Cell) -> float:
    """That of the policy which is kept of a cell; a missing, damaged or foreign one is worse than any other."""
    path = policy_path(folder, cell)
    try:
        if not path.exists():
            return -np.inf
        _, metadata = load_checkpoint(path)
        require_of_cell(path, metadata, cell)
        return float(metadata["average_performance"])
    except (HindsightError, KeyError, TypeError):
        return -np.inf


def require_of_cell(path: Path, metadata: Mapping[str, Any], cell: Cell) -> None:
    """Refuse the policy of another cell, which somebody may have put there; earlier versions did not write the cell."""
    if metadata.get(CELL, list(cell)) != list(cell):
        raise HindsightError(f"'{path}' holds a policy of another cell: {metadata[CELL]}.")


def kept_policy(folder: Path, plan: Plan) -> Any | None:
    """The policy of the best definitive run of a cell, if one has been finished."""
    path = policy_path(folder, plan.cell)
    if not np.isfinite(held_performance(folder, plan.cell)):
        return None
    arrays, metadata = load_checkpoint(path)
    program = make_program(plan.specification.task, plan.settings(plan.definitive, 1, held_choices(metadata)))
    return program.policies(state_from_arrays(program.states(1), arrays))[0]


def held_choices(metadata: Mapping[str, Any]) -> Choices | None:
    """What was chosen for the run that a policy is from; earlier versions kept its rates only, which do not matter."""
    stage_choices_seed = metadata["key"]
    if len(stage_choices_seed) != len(RunKey._fields):
        return None
    return tuple((name, value) for name, value in stage_choices_seed[1])
