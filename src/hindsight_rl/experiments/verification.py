"""Looking through run and study folders for damage, a line for each file; nothing that they name is imported or run.

A link that leads nowhere is there, and is damage.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator
from functools import partial
from os.path import lexists
from pathlib import Path
from typing import NamedTuple

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.experiments.best_policies import BEST
from hindsight_rl.experiments.definition import SETTINGS
from hindsight_rl.experiments.job import CHECKPOINT, CHECKPOINTS, EVALUATIONS, VERSIONS, require_settings_as_written
from hindsight_rl.experiments.study.policies import POLICIES
from hindsight_rl.experiments.study.worker import UNFINISHED
from hindsight_rl.records.checkpoints import load_checkpoint
from hindsight_rl.records.evaluations import Evaluations, read_evaluations
from hindsight_rl.records.files import read_bytes, read_json
from hindsight_rl.records.results import RESULTS, ResultsFile

SUMMARY = "summary.json"
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
    marks = {path.parent for name in (SETTINGS, RESULTS) for path in folder.rglob(name)}
    held = {path.parent for path in folder.rglob(CHECKPOINT)}
    if not marks | held:
        raise HindsightError(f"'{folder}' holds neither a run nor a study: it has no {SETTINGS} and no {RESULTS}.")
    for found in sorted(marks | held):
        yield from _of_study(found) if (found / RESULTS).exists() else _of_run(found)


def _of_run(folder: Path) -> Iterator[Verdict]:
    yield _checked(folder / SETTINGS, lambda: _settings(folder))
    yield _checked(folder / CHECKPOINT, lambda: _checkpoint(folder / CHECKPOINT))
    for path in (*sorted((folder / CHECKPOINTS).glob("batch-*.npz")), *sorted((folder / BEST).glob("*.npz"))):
        yield _checked(path, partial(_checkpoint, path))
    yield _checked(folder / EVALUATIONS, lambda: _table(folder))
    for name in (VERSIONS, SUMMARY):
        if lexists(folder / name):
            yield _checked(folder / name, partial(_object, folder / name))
    yield from _pictures(folder)


def _of_study(folder: Path) -> Iterator[Verdict]:
    yield _checked(folder / RESULTS, lambda: _results(folder / RESULTS))
    for path in (folder / UNFINISHED, *sorted((folder / POLICIES).glob("*.npz"))):
        if lexists(path):
            yield _checked(path, partial(_checkpoint, path))
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


def _settings(folder: Path) -> str:
    content = _object(folder / SETTINGS)
    if not (folder / CHECKPOINT).exists():
        return f"{content}; no checkpoint to compare it with yet"
    try:
        _, metadata = load_checkpoint(folder / CHECKPOINT)
    except HindsightError:
        return f"{content}; its digest is in the checkpoint, which cannot be read"
    return "as written" if require_settings_as_written(folder, metadata) else f"{content}; written without a digest"


def _checkpoint(path: Path) -> str:
    arrays, _ = load_checkpoint(path)
    return f"{len(arrays)} arrays, all as written"


def _table(folder: Path) -> str:
    """The table must say what the checkpoint says."""
    try:
        arrays, _ = load_checkpoint(folder / CHECKPOINT)
    except HindsightError:
        rows = read_evaluations(folder / EVALUATIONS).batches
        return f"{len(rows)} evaluations; no checkpoint to compare them with"
    prefix = "evaluations/"
    held = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    if Evaluations.from_arrays(held).to_csv().encode() != read_bytes(folder / EVALUATIONS):
        raise HindsightError(f"{folder / EVALUATIONS} differs from the checkpoint; --resume makes it again.")
    return "what the checkpoint says"


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
