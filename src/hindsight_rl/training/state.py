"""What a training job has reached: the learned state of every run, and who has failed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from hindsight_rl.agents.interface import CAUSES, AgentState
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.evaluations import Evaluations

LATER: Mapping[str, float] = {
    f"inputs/{part}/{name}": value
    for part in ("observations", "goals")
    for name, value in {"low": np.inf, "high": -np.inf, "two": 0}.items()
}
"""Arrays that hppo's checkpoints did not have once, by the end of their paths: no component was a switch then."""


class RunState(NamedTuple):
    """One run, or many along a leading axis."""

    agent: AgentState
    failed_batch: Int[Array, ""]
    """The batch whose update was not finite, or -1. A failed run keeps its last finite state."""
    cause: Int[Array, ""]
    """A number into CAUSES."""


class Runs(NamedTuple):
    """What the runs of a job differ in."""

    seeds: np.ndarray
    rates: Mapping[str, Float[np.ndarray, " run"]]
    """The inputs of the compiled program, by name."""


@dataclass(frozen=True)
class Failure:
    """A run that stopped being finite."""

    run: int
    seed: int
    batch: int
    cause: str


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A training job right after an evaluation: all that is needed to go on."""

    parts: Sequence[RunState]
    """The runs in order, in parts that were trained together: arrays of JAX or NumPy, runs along the leading axis."""
    evaluations: Evaluations
    """Every evaluation so far."""

    @cached_property
    def states(self) -> RunState:
        """All runs along the leading axis, as NumPy arrays. Made when asked for: a replay buffer takes its time."""
        if len(self.parts) == 1:
            return jax.tree.map(np.asarray, self.parts[0])
        return jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), *self.parts)

    @property
    def batch(self) -> int:
        """Batches done in each run."""
        return int(self.evaluations.batches[-1])

    @property
    def failures(self) -> list[Failure]:
        """The runs that failed, with batch and cause."""
        batches = np.concatenate([np.asarray(part.failed_batch) for part in self.parts])
        causes = np.concatenate([np.asarray(part.cause) for part in self.parts])
        return [
            Failure(int(run), int(self.evaluations.seeds[run]), int(batches[run]), CAUSES[int(causes[run])])
            for run in np.flatnonzero(batches >= 0)
        ]


def state_to_arrays(states: RunState) -> dict[str, np.ndarray]:
    """The leaves of a state by their path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(states)
    return {_name(path): np.asarray(leaf) for path, leaf in leaves}


def state_from_arrays(template: RunState, arrays: Mapping[str, np.ndarray]) -> RunState:
    """The state whose leaves these are; the template gives structure, shapes and types."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    found = []
    for path, leaf in leaves:
        name = _name(path)
        if name not in arrays and name.endswith(tuple(LATER)):
            value = next(value for end, value in LATER.items() if name.endswith(end))
            found.append(np.full(leaf.shape, value, leaf.dtype))
            continue
        if name not in arrays:
            raise HindsightError(f"The checkpoint lacks the array '{name}'.")
        if arrays[name].shape != leaf.shape or arrays[name].dtype != leaf.dtype:
            raise HindsightError(
                f"The checkpoint's array '{name}' is {arrays[name].dtype}{list(arrays[name].shape)}, "
                f"but these settings need {leaf.dtype}{list(leaf.shape)}."
            )
        found.append(arrays[name])
    return jax.tree_util.tree_unflatten(structure, found)


class _Joined(Mapping[str, np.ndarray]):
    """Arrays by name, each put together of its pieces when it is asked for: all at once would be held twice."""

    def __init__(self, pieces: Mapping[str, Sequence[np.ndarray]]):
        self._pieces = pieces

    def __getitem__(self, name: str) -> np.ndarray:
        first, *others = self._pieces[name]
        return np.concatenate([first, *others]) if others else first

    def __iter__(self) -> Iterator[str]:
        return iter(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)


def snapshot_to_arrays(snapshot: Snapshot) -> Mapping[str, np.ndarray]:
    """All numbers of a snapshot, for a checkpoint."""
    parts = [state_to_arrays(part) for part in snapshot.parts]
    states = {f"states/{name}": [part[name] for part in parts] for name in parts[0]}
    recorded = {f"evaluations/{name}": [array] for name, array in snapshot.evaluations.to_arrays().items()}
    return _Joined({**states, **recorded})


def snapshot_from_arrays(template: RunState, arrays: Mapping[str, np.ndarray]) -> Snapshot:
    """The inverse of `snapshot_to_arrays`."""
    states, recorded = (
        {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        for prefix in ("states/", "evaluations/")
    )
    return Snapshot([state_from_arrays(template, states)], Evaluations.from_arrays(recorded))


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
