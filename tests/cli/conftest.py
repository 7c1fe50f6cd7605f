"""A run folder to look at; training jobs here share their compiled programs."""

import shutil
from pathlib import Path

import pytest
from small_jobs import ENVIRONMENT, compiled_programs, small_flags

from hindsight_rl.cli import main

__all__ = ["compiled_programs"]


@pytest.fixture(scope="session")
def trained(compiled_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two finished runs."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    main(["train", ENVIRONMENT, *small_flags(runs=2), "--output", str(folder)])
    return folder


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """A copy of the trained folder that a test may change."""
    return Path(shutil.copytree(trained, tmp_path / "copied"))
