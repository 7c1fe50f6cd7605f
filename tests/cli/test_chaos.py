"""A few of the trials of `make test-chaos`, always the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from reference.chaos import Chaos, make_trial
from reference.chaos_kinds import KINDS

SEED = 5
TRIALS = 2

pytestmark = pytest.mark.usefixtures("compiled_programs")


@pytest.fixture(scope="module")
def chaos(tmp_path_factory: pytest.TempPathFactory, compiled_programs: Path) -> Iterator[Chaos]:
    with pytest.MonkeyPatch.context() as patch:
        yield Chaos(tmp_path_factory.mktemp("chaos"), SEED, patch)


@pytest.mark.parametrize("kind", KINDS["here"])
def test_what_is_made_up_at_random_is_noticed_and_loses_nothing(chaos: Chaos, kind: str) -> None:
    """Each trial raises where something is lost, silent, a traceback, or beyond its memory."""
    chaos.random.seed(f"{SEED} {kind}")
    noticed = [make_trial(chaos, KINDS["here"][kind])[0] for _ in range(TRIALS)]
    assert len(chaos.killed[chaos.run]) > 20, "events at which to kill"
    assert any(noticed) or kind in ("damaged run", "mended run", "mutated JSON", "mutated map")
