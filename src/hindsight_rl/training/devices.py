"""Several devices, such as GPUs: each trains its part of the runs, to the same numbers as one alone."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Advance = Callable[..., Any]
"""Takes states, seeds and rates of runs, three numbers that all runs share, and totals of runs."""
RUNS = "runs"
"""The axis along which arrays are divided among the devices."""


def device_count() -> int:
    """How many devices this process can use."""
    return jax.local_device_count()


@functools.lru_cache(maxsize=4)
def over_devices(advance: Advance, runs: int) -> Advance:
    """The same function for so many runs, which are divided among all devices of this process."""
    devices = jax.local_devices()
    mesh = Mesh(np.array(devices), (RUNS,))
    # Devices get equally many: the last run stands in where there are too few, and what comes of that is dropped.
    places = np.minimum(np.arange(-(-runs // len(devices)) * len(devices)), runs - 1)
    is_even = len(places) == runs

    def kinds(divided: Any, shared: Any) -> tuple[Any, ...]:
        return divided, divided, divided, shared, shared, shared, divided

    divided, shared = PartitionSpec(RUNS), PartitionSpec()
    # No device needs to know of another's runs: what each loops over is its own.
    own = jax.shard_map(advance, mesh=mesh, in_specs=kinds(divided, shared), out_specs=divided, check_vma=False)
    everywhere = NamedSharding(mesh, shared)
    held = NamedSharding(mesh, divided) if is_even else everywhere

    # Said explicitly, so that what comes out can go in again without another program being compiled for it.
    @functools.partial(jax.jit, in_shardings=kinds(held, everywhere), out_shardings=held)
    def whole(states: Any, seeds: Any, rates: Any, done: Any, more: Any, evaluates: Any, totals: Any) -> Any:
        def filled(tree: Any) -> Any:
            return tree if is_even else jax.tree.map(lambda leaf: leaf[places], tree)

        found = own(filled(states), filled(seeds), filled(rates), done, more, evaluates, filled(totals))
        return found if is_even else jax.tree.map(lambda leaf: leaf[:runs], found)

    return whole
