"""Studies small enough for a test: they share the compiled programs of the small jobs."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from small_jobs import ENVIRONMENT, SMALL
from small_results import read

from hindsight_rl.environments.interface import Environment
from hindsight_rl.experiments.study import worker as study_worker
from hindsight_rl.experiments.study.files import parse_study
from hindsight_rl.experiments.study.plan import Plan, Study
from hindsight_rl.experiments.study.policies import POLICIES
from hindsight_rl.experiments.study.protocol import Piece, next_piece
from hindsight_rl.experiments.study.run import run_study
from hindsight_rl.experiments.study.worker import Observer
from hindsight_rl.records.results import RESULTS
from hindsight_rl.records.runs import DEFINITIVE, Evidence, FinishedRun, RunKey, StudyResults
from hindsight_rl.records.tidy import to_csv
from hindsight_rl.training.program import Program, make_program
from hindsight_rl.training.settings import Settings

STAGE: dict[str, Any] = {"runs": 2, "batches": 40, "evaluate_every": 10, "evaluation_episodes": 32}
SMALL_STUDY: dict[str, Any] = {
    "name": "small",
    "environments": [ENVIRONMENT],
    "methods": ["hpg", "gcpg+b"],
    "batch_sizes": [SMALL["batch_size"]],
    "learning_rates": [1e-3, 1e-2],
    "baseline_learning_rates": [1e-3, 1e-2, 1e-1],
    "hidden_layers": list(SMALL["hidden_layers"]),
    "search": STAGE,
    "definitive": {**STAGE, "runs": 4},
}
"""One method has a grid of 2 settings, the other successive halving over 6: 4 + 4 and (12 + 4) + 4 runs."""


def study_text(more: str = "", **changes: Any) -> str:
    """The small study as TOML, with changes (None leaves a key out) and further lines behind it."""
    content = {key: value for key, value in {**SMALL_STUDY, **changes}.items() if value is not None}
    lines = [f"{key} = {json.dumps(value)}" for key, value in content.items() if not isinstance(value, dict)]
    for key, table in content.items():
        if isinstance(table, dict):
            lines += [f"[{key}]", *(f"{name} = {json.dumps(value)}" for name, value in table.items())]
    return "\n".join([*lines, more]) + "\n"


def small_study(more: str = "", **changes: Any) -> Study:
    return parse_study(study_text(more, **changes), "the small study", "unnamed")


def small_plan(more: str = "", **changes: Any) -> Plan:
    """The plan of a study with one cell."""
    (plan,) = small_study(more, **{"methods": ["hpg"], **changes}).plans
    return plan


def simulate(
    plan: Plan,
    perform: Callable[[RunKey], float],
    known: Mapping[RunKey, float] | None = None,
    learn: Callable[[RunKey], Evidence] | None = None,
) -> list[Piece]:
    """Follow a plan to its end, with made-up performances."""
    known = dict(known or {})
    learned: dict[RunKey, Evidence] = {}
    pieces = []
    while piece := next_piece(plan, known, learned):
        assert piece.keys
        assert not known.keys() & set(piece.keys)
        known |= {key: perform(key) for key in piece.keys}
        learned |= {key: learn(key) for key in piece.keys} if learn else {}
        pieces.append(piece)
        assert len(pieces) < 10_000
    return pieces


def results_in(folder: Path) -> StudyResults:
    return read(folder / RESULTS)


def by_key(results: StudyResults) -> dict[tuple[Any, ...], FinishedRun]:
    return {(*run.cell, *run.key): run for run in results.runs}


def numbers_in(folder: Path) -> dict[str, bytes]:
    """All that a study's folder holds and that must not depend on how it was run."""
    results = results_in(folder)
    recorded = {
        f"{key} {name}": array.tobytes() for key, run in by_key(results).items() for name, array in run.records.items()
    }
    policies = {path.name: path.read_bytes() for path in (folder / POLICIES).glob("*")}
    return {"evaluations": to_csv(results), **recorded, **policies}


@pytest.fixture
def shared_programs(monkeypatch: pytest.MonkeyPatch, compiled_programs: Path) -> None:
    """Trace each program once for all tests: to trace one takes far longer than to run a small study."""

    def shared(environment: Environment, settings: Settings) -> Program:
        compiled_for = (type(environment), environment.horizon, environment.goal_count, settings.compiled)
        if compiled_for not in _PROGRAMS:
            _PROGRAMS[compiled_for] = make_program(environment, settings)
        return _PROGRAMS[compiled_for]

    monkeypatch.setattr(study_worker, "make_program", shared)


_PROGRAMS: dict[tuple[Any, ...], Program] = {}


@pytest.fixture(scope="session")
def finished(compiled_programs: object, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the small study, run at once."""
    folder = tmp_path_factory.mktemp("studies") / "made" / "on the way"
    run_study(small_study(), folder)
    return folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(finished, tmp_path / "copied"))


@pytest.fixture
def definition(tmp_path: Path) -> Path:
    """The small study as a file."""
    path = tmp_path / "small.toml"
    path.write_text(study_text())
    return path


def only_hpg(**changes: Any) -> Study:
    """A study of one piece of definitive runs."""
    return small_study(**{"methods": ["hpg"], "learning_rates": [1e-2], **changes})


def ticks_of(study: Study, folder: Path, **options: Any) -> list[int]:
    """The batches that are reported while a study goes on."""
    ticks: list[int] = []
    run_study(study, folder, Observer(tick=lambda piece, batch: ticks.append(batch)), **options)
    return ticks


def interrupt(study: Study, folder: Path, observer: Observer) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_study(study, folder, observer, seconds_between_checkpoints=0.0)


def interrupting(batch: int, stage: str = DEFINITIVE) -> Observer:
    """Press Ctrl-C in a stage once a batch has been reached."""

    def tick(piece: Piece, reached: int) -> None:
        if piece.round.name == stage and reached >= batch:
            raise KeyboardInterrupt

    return Observer(tick=tick)
