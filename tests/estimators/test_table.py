"""The table of estimators: found by name, from a user's own file, and refused with a sentence."""

from pathlib import Path

import pytest

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.estimators.table import ESTIMATORS, Estimator, find_estimator


def test_an_unknown_name_suggests_the_nearest() -> None:
    assert find_estimator("weighted") is ESTIMATORS["weighted"]
    with pytest.raises(HindsightError, match=r"no estimator 'weigted'\. Did you mean 'weighted'"):
        find_estimator("weigted")


def test_a_users_own_estimator_is_named_by_module_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = "Estimator('half', 'pursued', lambda given: given.rewards / 2)"
    (tmp_path / "own_estimators.py").write_text(
        f"from hindsight_rl.estimators.table import Estimator\nhalf = {row}\nnothing = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_estimator("own_estimators:half").summary == "half"
    with pytest.raises(HindsightError, match=r"'own_estimators:nothing' must be a .*\.Estimator, but it is a int\.$"):
        find_estimator("own_estimators:nothing")


def test_rows_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(HindsightError, match="those of a pursued goal are 1"):
        Estimator("odd", "pursued", lambda given: given.rewards, ratios=True)
    with pytest.raises(HindsightError, match="cannot normalise ratios that it does not need"):
        Estimator("odd", "active", lambda given: given.rewards, weighted=True)
