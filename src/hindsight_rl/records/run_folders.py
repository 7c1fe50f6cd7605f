"""Run folders as data, for those who only look: nothing that their settings name is imported, and nothing is locked."""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.run import translated
from hindsight_rl.records.evaluations import Evaluations, read_evaluations
from hindsight_rl.records.files import read_json

SETTINGS, EVALUATIONS, SUMMARY = "settings.json", "evaluations.csv", "summary.json"
CHECKPOINT = "checkpoint.npz"
FILMS = (".gif", ".mp4")
LOCKS = Path("/proc/locks")
SECONDS_OF_SILENCE = 60.0
"""Where the system does not list its locks, a folder that changed within this time counts as being written to."""


@dataclass(frozen=True, eq=False)
class RunFolder:
    """What `hindsight train` left in a folder so far."""

    path: Path
    environment: str
    """The registered name; `environment_options` and `environment_label` have the rest."""
    environment_options: Mapping[str, Any]
    environment_label: str
    """What a map is called, or nothing."""
    method: str
    settings: Mapping[str, Any]
    """Of the run and of the method, by name."""
    evaluations: Evaluations | None
    """None before the first is saved."""
    summary: Mapping[str, Any]
    """What was written at the end; empty before."""

    @property
    def batches(self) -> int:
        """Updates that were asked for."""
        return int(self.settings["batches"])

    @property
    def failures(self) -> list[str]:
        """A sentence for each run that failed, as far as training came to say so."""
        found = self.summary.get("failed_runs", [])
        listed = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
        return [f"Run {one.get('run')} failed in batch {one.get('batch')}: {one.get('cause')}." for one in listed]


def is_run_folder(folder: Path) -> bool:
    """Whether `hindsight train` began something there."""
    return (folder / SETTINGS).is_file()


def read_run_folder(folder: Path) -> RunFolder:
    """Read a folder, finished or not; one whose settings or evaluations are damaged is refused in a sentence."""
    if not is_run_folder(folder):
        raise HindsightError(f"'{folder}' holds no run: it has no {SETTINGS}.")
    environment, method, settings = _settings(read_json(folder / SETTINGS), folder / SETTINGS)
    evaluations = read_evaluations(folder / EVALUATIONS) if (folder / EVALUATIONS).exists() else None
    return RunFolder(folder, *environment, method, settings, evaluations, _said(folder))


def _settings(content: Any, source: Path) -> tuple[tuple[str, dict[str, Any], str], str, dict[str, Any]]:
    try:
        said = content["environment"]
        environment = (str(said["name"]), dict(said["options"]), str(said.get("label", "")))
        if "settings" in content:  # format 1: one flat table
            flat = translated(dict(content["settings"]))
            method = str(flat.pop("method"))
        else:
            method = str(content["method"]["name"])
            flat = {**content["run"], **content["method"]["options"]}
        int(flat["batches"]), int(flat["batch_size"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise HindsightError(f"'{source}' is not a settings file that `hindsight train` wrote.") from None
    return environment, method, flat


def _said(folder: Path) -> Mapping[str, Any]:
    """The summary, which is no more than a courtesy: without it, or with a damaged one, all else can be shown."""
    try:
        found = read_json(folder / SUMMARY)
    except HindsightError:
        return {}
    return found if isinstance(found, dict) else {}


def folders_below(root: Path, marks: tuple[str, ...]) -> Iterator[Path]:
    """Folders that hold a file of one of these names, by path; links and hidden folders are not followed.

    Nothing is looked for below such a folder.
    """
    left = [root]
    while left:  # and no recursion: folders can be nested deeper than Python's calls
        folder = left.pop()
        try:
            names = sorted(os.listdir(folder), reverse=True)
            if any((folder / mark).is_file() for mark in marks):
                yield folder
                continue
            below = (folder / name for name in names if not name.startswith("."))
            left += [path for path in below if path.is_dir() and not path.is_symlink()]
        except OSError:  # not ours to read, gone by now, or of a path that is too long
            continue


def films_in(folder: Path) -> list[Path]:
    """Films in a folder, the newest first."""
    found = [path for path in folder.iterdir() if path.suffix.lower() in FILMS and is_plain_file(path)]
    return sorted(found, key=changed, reverse=True)


def is_plain_file(path: Path) -> bool:
    """Whether it is a file itself, not a link to one that may lie anywhere."""
    return path.is_file() and not path.is_symlink()


def changed(path: Path) -> float:
    """When a file was last written, in seconds since 1970; 0 for one that is not there."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def locked_inodes() -> set[int] | None:
    """The inodes that processes of this machine have locked; None where the system does not say.

    Trying to lock a folder would tell too, but a run that begins at that moment would be turned away.
    """
    if not sys.platform.startswith("linux"):
        return None
    try:
        lines = LOCKS.read_text().splitlines()
        return {int(line.split()[-3].rpartition(":")[2]) for line in lines if " FLOCK " in line}
    except (OSError, ValueError, IndexError):
        return None


def is_written_to(folder: Path, newest: float, locked: set[int] | None) -> bool:
    """Whether a process works in the folder, whose newest file was written at a time; see `locked_inodes`."""
    if locked is None:
        return time.time() - newest < SECONDS_OF_SILENCE
    try:
        return folder.stat().st_ino in locked
    except OSError:
        return False
