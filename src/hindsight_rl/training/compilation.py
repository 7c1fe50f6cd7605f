"""Compiled programs are kept on disk, so that a second start does not compile again."""

import os
from pathlib import Path

import jax


def keep_compiled_programs() -> None:
    """Use JAX's persistent compilation cache, below the user's cache folder unless JAX was told another place."""
    if jax.config.values["jax_compilation_cache_dir"] is None:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(home / "hindsight" / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
