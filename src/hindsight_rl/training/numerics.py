"""What JAX was told that changes the numbers: a run that goes on under other settings would silently be another run."""

from collections.abc import Mapping
from typing import Any

import jax

from hindsight_rl.core.errors import HindsightError

NUMERICS = "numerics"
"""Under this name checkpoints keep them."""
_NAMES = ("jax_default_prng_impl", "jax_threefry_partitionable", "jax_enable_x64", "jax_default_matmul_precision")


def numerics() -> dict[str, str]:
    """The settings of JAX on which the numbers depend, by name."""
    return {name: str(jax.config.values[name]) for name in _NAMES if name in jax.config.values}


def require_single_precision() -> None:
    """Refuse 64 bits, in which programs that mix both do not compile."""
    if jax.config.values["jax_enable_x64"]:
        raise HindsightError("Training computes with 32 bits: unset JAX_ENABLE_X64 (jax_enable_x64).")


def require_numerics(held: Any, where: str) -> None:
    """Refuse to go on with what was made under other settings; what an earlier version made does not say."""
    for name, here in numerics().items() if isinstance(held, Mapping) else ():
        if str(held.get(name, here)) != here:
            raise HindsightError(
                f"{where} was made with {name} = {held[name]}, and JAX now has {here}, which gives other numbers: "
                f"set {name.upper()}={held[name]} to go on."
            )
