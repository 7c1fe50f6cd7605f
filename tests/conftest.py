"""Strict settings for every test."""

import signal
import threading
from collections.abc import Iterator

import jax
import pytest
from hypothesis import settings
from reference.shape_checks import check_shapes
from reference.system import do_without_egl, need_drawing

do_without_egl()

# Before any of them is imported.
check_shapes([f"hindsight_rl.{package}" for package in ("agents", "estimators", "exact", "networks")])

# A shape that broadcasts by accident is a wrong gradient that looks right.
jax.config.update("jax_numpy_rank_promotion", "raise")

# The same examples each time: a failure elsewhere is a failure here. No deadline, since the first example compiles.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=40, database=None)
settings.load_profile("repeatable")

# Whoever runs the tests may have told them to ignore these (nohup, a shell's background); what they start would too.
if threading.current_thread() is threading.main_thread():
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)

LONGEST_FIRST = (
    "test_killed_studies.py",
    "test_hosted_commands.py",
    "test_golden_runs.py",
    "test_hppo.py",
    "test_older_folders.py",
    "test_dqn_on_pictures.py",
    "test_hosted_rollout.py",
    "test_interrupted_jobs.py",
    "test_gradient_laboratory.py",
    "test_play_in_one_process.py",
    "test_learning.py",
    "test_training_determinism.py",
)
"""Files that take a minute or so: begun last, one of them would keep a core busy while the other has nothing to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring the longest files to the front; the others stay in their order."""
    items.sort(key=lambda item: item.path.name not in LONGEST_FIRST)


@pytest.fixture(scope="module")
def quick_compilation() -> Iterator[None]:
    """Little optimisation, in child processes too: for tests whose time is nearly all compilation.

    Not for every test: some must run what users run.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        jax.config.update("jax_disable_most_optimizations", True)
        yield
        jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def drawing() -> None:
    """For tests in which MuJoCo draws."""
    need_drawing()


@pytest.fixture
def double_precision() -> Iterator[None]:
    """Compute in float64, so that what should be equal is equal to many digits."""
    with jax.enable_x64(True):
        yield
