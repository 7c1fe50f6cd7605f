"""Runs divided among several devices come to the bytes of one device; CPU devices stand for GPUs."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
TRAINED = """
import hashlib, sys
import jax, numpy as np
from small_jobs import small_settings
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.training.loop import training
from hindsight_rl.training.program import make_program
from hindsight_rl.training.state import snapshot_from_arrays, snapshot_to_arrays

settings = small_settings(runs=3, batches=40, evaluate_every=20)
program = make_program(BitFlipping(4), settings)
first, second, last = training(program, settings)
resumed = snapshot_from_arrays(program.states(3), snapshot_to_arrays(second))
*_, again = training(program, settings, snapshot=resumed)
even = small_settings(runs=4, batches=20, evaluate_every=20)
*_, other = training(make_program(BitFlipping(4), even), even)
print(jax.local_device_count(), len({shard.device for shard in jax.tree.leaves(other.parts[0])[0].addressable_shards}))
for snapshot in (last, again, other):
    arrays = snapshot_to_arrays(snapshot)
    print(hashlib.sha256(b"".join(np.asarray(arrays[name]).tobytes() for name in sorted(arrays))).hexdigest())
"""


def trained(devices: int, compiled_programs: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    environment |= {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_COMPILATION_CACHE_DIR": str(compiled_programs),
    }
    done = subprocess.run([sys.executable, "-c", TRAINED], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_several_devices_come_to_the_numbers_of_one(compiled_programs: Path) -> None:
    (alone, *numbers), (divided, *same) = (trained(devices, compiled_programs) for devices in (1, 2))
    assert (alone, divided) == ("1 1", "2 2")
    assert same == numbers
    assert numbers[0] == numbers[1]
    assert numbers[0] != numbers[2]
