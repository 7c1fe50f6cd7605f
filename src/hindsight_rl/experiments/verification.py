"""Looking through run and study folders for damage, a line for each file; nothing that they name is imported or run.

A link that leads nowhere is there, and is damage.
"""

import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from os.path import lexists
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.experiments.best_policies import BEST
from hindsight_rl.experiments.definition import SETTINGS
from hindsight_rl.experiments.job import (
    CHECKPOINT,
    CHECKPOINTS,
    EVALUATIONS,
    VERSIONS,
    kept_checkpoint,
    require_settings_as_written,
)
from hindsight_rl.experiments.policy_files import MARK
from hindsight_rl.experiments.study.policies import CELL, POLICIES
from hindsight_rl.experiments.study.worker import UNFINISHED
from hindsight_rl.records.checkpoints import load_checkpoint
from hindsight_rl.records.evaluations import Evaluations, read_evaluations
from hindsight_rl.records.files import read_bytes, read_json
from hindsight_rl.records.results import RESULTS, ResultsFile
from hindsight_rl.records.runs import Cell

SUMMARY = "summary.json"
_RECORDED = "evaluations/"
"""In front of the names of a checkpoint's arrays that hold evaluations."""
_SIGNATURES = {".png": b"\x89PNG\r\n\x1a\n", ".gif": b"GIF8"}


class Verdict(NamedTuple):
    """What was found of a file."""

    path: Path
    sound: bool
    sentence: str


def verify(folder: Path) -> Iterator[Verdict]:
    """A verdict on each file of all run and study folders at or below a folder, in order."""
    if not folder.is_dir():
        raise HindsightError(f"'{folder}' is no folder.")
    marked, closed = _marked_below(folder)
    if not marked and not closed:
        raise HindsightError(f"'{folder}' holds neither a run nor a study: it has no {SETTINGS} and no {RESULTS}.")
    for found in sorted(marked):
        yield from _of_study(found) if lexists(found / RESULTS) else _of_run(found)
    yield from closed


def _marked_below(root: Path) -> tuple[list[Path], list[Verdict]]:
    """The folders of runs and studies at or below a folder, and those that cannot be looked into; no link is followed.

    Without recursion: folders can be nested deeper than Python's calls.
    """
    marked, closed, left = list[Path](), list[Verdict](), [root]
    while left:
        folder = left.pop()
        try:
            with os.scandir(folder) as entries:
                found = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        except OSError as error:
            closed.append(Verdict(folder, False, f"cannot be looked into: {error.strerror}."))
            continue
        if not {SETTINGS, RESULTS, CHECKPOINT}.isdisjoint(found):
            marked.append(folder)
        left += [folder / name for name, is_folder in found.items() if is_folder]
    return marked, closed


def _of_run(folder: Path) -> Iterator[Verdict]:
    yield _checked(folder / SETTINGS, lambda: _settings(folder))
    yield _checked(folder / CHECKPOINT, lambda: _checkpoint(folder / CHECKPOINT))
    job = _job(folder)
    for path in sorted((folder / CHECKPOINTS).glob("*.npz")):
        yield _checked(path, partial(_kept, folder, path, job))
    for path in sorted((folder / BEST).glob("*.npz")):
        yield _checked(path, partial(_best, path, job))
    yield _checked(folder / EVALUATIONS, lambda: _table(folder))
    for name in (VERSIONS, SUMMARY):
        if lexists(folder / name):
            yield _checked(folder / name, partial(_object, folder / name))
    yield from _pictures(folder)


def _of_study(folder: Path) -> Iterator[Verdict]:
    yield _checked(folder / RESULTS, lambda: _results(folder / RESULTS))
    if lexists(folder / UNFINISHED):
        yield _checked(folder / UNFINISHED, lambda: _checkpoint(folder / UNFINISHED))
    for path in sorted((folder / POLICIES).glob("*.npz")):
        yield _checked(path, partial(_policy, path))
    if lexists(folder / EVALUATIONS):
        yield _checked(folder / EVALUATIONS, lambda: _export(folder / EVALUATIONS))
    yield from _pictures(folder)


def _pictures(folder: Path) -> Iterator[Verdict]:
    for path in sorted(path for ending in _SIGNATURES for path in folder.glob(f"*{ending}")):
        yield _checked(path, partial(_picture, path))


def _checked(path: Path, check: Callable[[], str]) -> Verdict:
    try:
        return Verdict(path, True, check())
    except HindsightError as error:
        return Verdict(path, False, str(error))
    except (LookupError, TypeError, ValueError) as error:  # a manifest with right digests can still say anything
        return Verdict(path, False, f"{path} is not what hindsight writes ({gist(error)}).")


def _settings(folder: Path) -> str:
    content = _object(folder / SETTINGS)
    if not (folder / CHECKPOINT).exists():
        return f"{content}; no checkpoint to compare it with yet"
    try:
        _, metadata = load_checkpoint(folder / CHECKPOINT)
    except HindsightError:
        return f"{content}; its digest is in the checkpoint, which cannot be read"
    return "as written" if require_settings_as_written(folder, metadata) else f"{content}; written without a digest"


def _job(folder: Path) -> Any:
    """What the checkpoint says of the run's settings, with a digest; nothing if it cannot be read."""
    try:
        return load_checkpoint(folder / CHECKPOINT)[1].get("job")
    except HindsightError:
        return None


def _checkpoint(path: Path) -> str:
    arrays, _ = load_checkpoint(path)
    return f"{len(arrays)} arrays, all as written"


def _kept(folder: Path, path: Path, job: Any) -> str:
    """A kept checkpoint must be of this run, and of the batch that its name says."""
    arrays, metadata = load_checkpoint(path)
    if path != kept_checkpoint(folder, int(_evaluations(arrays).batches[-1])):
        raise HindsightError(f"{path} is not of the batch that its name says.")
    _require_of_run(path, metadata.get("job"), job)
    return f"{len(arrays)} arrays, all as written"


def _best(path: Path, job: Any) -> str:
    """A best policy must be of this run, and of the seed that its name says."""
    arrays, metadata = load_checkpoint(path)
    card = metadata.get(MARK)
    if not isinstance(card, dict) or path.name != f"seed-{card.get('seed')}.npz":
        raise HindsightError(f"{path} is no policy of the seed that its name says.")
    _require_of_run(path, card, job)
    return f"{len(arrays)} arrays, all as written"


def _require_of_run(path: Path, said: Any, job: Any) -> None:
    """Refuse a file from another run. Versions differ in which settings there are; a longer run in its batches."""
    held, ours = _flat(said), _flat(job)
    for name in sorted(held.keys() & ours.keys() - {"format", "run.batches"}):
        if held[name] != ours[name]:
            raise HindsightError(f"{path} belongs to another run: {name} is {held[name]}, not {ours[name]}.")


def _flat(content: Any, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in content.items() if isinstance(content, dict) else ():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _table(folder: Path) -> str:
    """The table must say what the checkpoint says."""
    try:
        arrays, _ = load_checkpoint(folder / CHECKPOINT)
    except HindsightError:
        rows = read_evaluations(folder / EVALUATIONS).batches
        return f"{len(rows)} evaluations; no checkpoint to compare them with"
    if _evaluations(arrays).to_csv().encode() != read_bytes(folder / EVALUATIONS):
        raise HindsightError(f"{folder / EVALUATIONS} differs from the checkpoint; --resume makes it again.")
    return "what the checkpoint says"


def _evaluations(arrays: Mapping[str, np.ndarray]) -> Evaluations:
    named = {name.removeprefix(_RECORDED): array for name, array in arrays.items() if name.startswith(_RECORDED)}
    return Evaluations.from_arrays(named)


def _object(path: Path) -> str:
    content = read_json(path)
    if not isinstance(content, dict):
        raise HindsightError(f"{path} is not what hindsight writes: it holds no names.")
    return "whole, but without a digest" if path.name != SETTINGS else "whole"


def _picture(path: Path) -> str:
    content, ending = read_bytes(path), {".png": b"IEND\xaeB`\x82", ".gif": b";"}[path.suffix]
    if not content.startswith(_SIGNATURES[path.suffix]) or not content.endswith(ending):
        raise HindsightError(f"{path} is not a whole picture.")
    return "begins and ends as a picture does, without a digest"


def _policy(path: Path) -> str:
    """The policy that a study keeps of a cell must be of the one that its name says."""
    arrays, metadata = load_checkpoint(path)
    cell = metadata.get(CELL)
    if cell is not None and path.stem != Cell(*cell).file_name:
        raise HindsightError(f"{path} holds a policy of another cell: {cell}.")
    return f"{len(arrays)} arrays, all as written"


def _results(path: Path) -> str:
    with ResultsFile.open(path) as file:
        results = file.read()
    if results.damaged:
        named = json.dumps(list(results.damaged[:5]))
        raise HindsightError(
            f"{path} is damaged: {len(results.damaged)} runs or plans are not what was written: {named}."
        )
    return f"{len(results.runs)} runs and {len(results.plans)} plans, all as written"


def _export(path: Path) -> str:
    """An export may be older than the results, so only its form can be told."""
    try:
        widths = {len(row) for row in csv.reader(io.StringIO(read_bytes(path).decode()), strict=True)}
    except (UnicodeDecodeError, csv.Error) as error:
        raise HindsightError(f"{path} is no table: {error}.") from None
    if len(widths) != 1:
        raise HindsightError(f"{path} is no whole table: its lines have {sorted(widths)} cells.")
    return "a whole table, without a digest"
