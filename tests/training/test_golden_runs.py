"""Nothing learned changes: golden runs, recorded before the agent layer was opened, come out as they were."""

import json

import numpy as np
import pytest
from golden_runs import CASES, GOLDEN, machine, run
from numpy.testing import assert_allclose, assert_array_equal

RECORDED = json.loads(GOLDEN.read_text())
SAME_KIND = machine() == RECORDED["machine"]


@pytest.mark.parametrize("case", CASES)
def test_the_same_seed_learns_the_same_as_before(case: str) -> None:
    """Bit for bit on the kind of machine that recorded them, to 1e-6 elsewhere."""
    found, golden = run(case), RECORDED["runs"][case]
    for name, values in golden.items():
        if SAME_KIND:
            assert_array_equal(np.array(found[name]), np.array(values))
        else:
            assert_allclose(np.array(found[name]), np.array(values), rtol=1e-6, atol=1e-6)
