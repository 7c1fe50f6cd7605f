"""States as named arrays, and back."""

import jax
import numpy as np
import pytest
from small_jobs import ENVIRONMENT, small_settings, train_to_the_end

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.registry import make
from hindsight_rl.training.program import make_program
from hindsight_rl.training.state import RunState, Snapshot, state_from_arrays, state_to_arrays

WEIGHTS = "agent/policy/network/weights/0"


@pytest.fixture(scope="module")
def trained(compiled_programs: object) -> Snapshot:
    return train_to_the_end(make(ENVIRONMENT), small_settings(method="hpg+b", runs=2))


@pytest.fixture(scope="module")
def template(compiled_programs: object) -> RunState:
    return make_program(make(ENVIRONMENT), small_settings(method="hpg+b")).states(runs=2)


def test_round_trip_gives_every_bit_back(trained: Snapshot, template: RunState) -> None:
    arrays = state_to_arrays(trained.states)
    back = state_from_arrays(template, arrays)
    assert jax.tree.structure(back) == jax.tree.structure(trained.states)  # type: ignore[operator]
    for name, array in state_to_arrays(back).items():
        assert array.dtype == arrays[name].dtype
        assert array.tobytes() == arrays[name].tobytes()


def test_names_are_those_of_the_fields(trained: Snapshot) -> None:
    arrays = state_to_arrays(trained.states)
    assert {WEIGHTS, "agent/baseline/network/biases/1", "failed_batch", "cause"} <= arrays.keys()
    assert arrays[WEIGHTS].shape == (2, 8, 16)


def test_missing_array_is_named(trained: Snapshot, template: RunState) -> None:
    arrays = state_to_arrays(trained.states)
    del arrays[WEIGHTS]
    with pytest.raises(HindsightError, match=f"^The checkpoint lacks the array '{WEIGHTS}'.$"):
        state_from_arrays(template, arrays)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        (np.zeros((2, 8, 15), np.float32), r"float32\[2, 8, 15\]"),
        (np.zeros((1, 8, 16), np.float32), r"float32\[1, 8, 16\]"),
        (np.zeros((2, 8, 16), np.float64), r"float64\[2, 8, 16\]"),
    ],
)
def test_wrong_shape_or_type_is_named(trained: Snapshot, template: RunState, changed: np.ndarray, found: str) -> None:
    arrays = {**state_to_arrays(trained.states), WEIGHTS: changed}
    needed = r"float32\[2, 8, 16\]"
    with pytest.raises(HindsightError, match=f"array '{WEIGHTS}' is {found}, but these settings need {needed}.$"):
        state_from_arrays(template, arrays)
