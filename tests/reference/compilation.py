"""Compiling fast, for programs that run once."""

from collections.abc import Callable
from typing import Any

import jax

QUICK_OPTIONS = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def quick_jit(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`jax.jit` with little optimisation: a third of the time to compile, which is nearly all of a test's time.

    Not for every test: some must run what users run.
    """
    return jax.jit(function, compiler_options=QUICK_OPTIONS, **options)
