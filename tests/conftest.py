"""Strict settings for every test."""

from collections.abc import Iterator

import jax
import pytest
from hypothesis import settings

# A shape that broadcasts by accident is a wrong gradient that looks right.
jax.config.update("jax_numpy_rank_promotion", "raise")

# The same examples each time: a failure elsewhere is a failure here. No deadline, since the first example compiles.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=40, database=None)
settings.load_profile("repeatable")


@pytest.fixture
def double_precision() -> Iterator[None]:
    """Compute in float64, so that what should be equal is equal to many digits."""
    with jax.enable_x64(True):
        yield
