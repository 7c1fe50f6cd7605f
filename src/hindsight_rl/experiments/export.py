"""Policies for other programs: ONNX, StableHLO, and our own policy file, with shapes and normalisation inside."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import jax

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.described import Spaces
from hindsight_rl.experiments.policies import EXPORTED, Known
from hindsight_rl.experiments.policy_files import save_policy
from hindsight_rl.networks.onnx import symbolic_inputs, to_onnx
from hindsight_rl.records.files import make_folder, require_ours, write_atomically, write_json

Format = Literal["npz", "onnx", "stablehlo"]
FORMATS: tuple[Format, ...] = ("npz", "onnx", "stablehlo")
DESCRIPTION = "policy.json"
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
"""What the StableHLO program is lowered for."""


def export(known: Known, folder: Path, formats: Sequence[Format] = FORMATS) -> list[Path]:
    """Write a policy into a folder, as often as it has formats, with a description of its inputs and output."""
    require_ours(folder, DESCRIPTION)
    contents: dict[str, bytes] = {}  # all of them are made before any is written
    if "onnx" in formats:
        contents["policy.onnx"] = onnx_bytes(known)
    if "stablehlo" in formats:
        contents["policy.stablehlo"] = stablehlo_bytes(known)
    make_folder(folder)
    write_json(folder / DESCRIPTION, describe(known, contents))
    for name, content in contents.items():
        write_atomically(folder / name, content)
    if "npz" in formats:
        save_policy(folder / EXPORTED, *known)
    return [folder / name for name in (*contents, *([EXPORTED] if "npz" in formats else []), DESCRIPTION)]


def onnx_bytes(known: Known) -> bytes:
    """The policy as an ONNX model; its metadata say what it was trained with."""
    about = {name: json.dumps(value) for name, value in known.card.to_json().items()}
    return to_onnx(_function(known), inputs_of(known.policy.spaces), "action", about)


def stablehlo_bytes(known: Known) -> bytes:
    """The policy as a portable program that `jax.export.deserialize` reads."""
    exporting = jax.export.export(jax.jit(_function(known)), platforms=PLATFORMS)
    exported = exporting(*symbolic_inputs(inputs_of(known.policy.spaces)))
    try:
        return bytes(exported.serialize())
    except ModuleNotFoundError as error:
        raise HindsightError(f"StableHLO files need {error.name}: pip install 'hindsight-rl[export]'.") from None


def inputs_of(spaces: Spaces) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape without the batch, and type, of each input by name."""
    return {
        "observation": (spaces.observation_shape, spaces.observation_type),
        "goal": (spaces.goal_shape, "float32"),
        "time": ((), "int32"),
    }


def describe(known: Known, contents: dict[str, bytes]) -> dict[str, Any]:
    """What stands beside the files: names, shapes and types, and how the policy was trained."""
    spaces = known.policy.spaces
    inputs = {name: {"shape": ["batch", *shape], "type": kind} for name, (shape, kind) in inputs_of(spaces).items()}
    action: dict[str, Any] = {"shape": ["batch"], "type": "int32", "values": spaces.action_count}
    if spaces.continuous:
        action = {
            "shape": ["batch", spaces.action_count],
            "type": "float32",
            "bounds": spaces.to_json()["action_bounds"],
        }
    return {
        "inputs": inputs,
        "outputs": {"action": action},
        "note": "Greedy actions. Inputs are as the environment gives them: normalisation is inside. The time counts "
        "the actions taken so far; only Q-networks heed it.",
        "policy": known.card.to_json(),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
    }


def _function(known: Known) -> Callable[..., jax.Array]:
    def policy(observation: jax.Array, goal: jax.Array, time: jax.Array) -> jax.Array:
        return known.policy.batched(observation, goal, time)

    return policy
