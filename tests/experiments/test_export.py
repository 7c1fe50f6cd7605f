"""Exported policies act as the policies themselves, in runtimes that know nothing of us."""

import json
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.described import DescribedTask, Spaces
from hindsight_rl.experiments.export import FORMATS, export, inputs_of, onnx_bytes
from hindsight_rl.experiments.policies import Known, load_known
from hindsight_rl.experiments.policy_files import Card
from hindsight_rl.networks.normaliser import Normaliser, Scaler
from hindsight_rl.networks.onnx import to_onnx
from hindsight_rl.training.settings import make_settings
from hindsight_rl.training.trained_policy import TrainedPolicy

pytestmark = pytest.mark.usefixtures("quick_compilation")

DISCRETE = Spaces((3,), "float32", (2,), 5, False, None, 11)
CONTINUOUS = Spaces((3,), "float32", (2,), 2, True, ((-1.0, -2.0), (1.0, 3.0)), 11)
UNBOUNDED = Spaces((2, 2), "float32", (2,), 2, True, ((-1.0, -math.inf), (1.0, math.inf)), 11)
PICTURES = Spaces((84, 84, 3), "uint8", (2,), 4, False, None, 11)
CASES: dict[str, tuple[Spaces, dict[str, Any]]] = {
    "hpg": (DISCRETE, {"method": "hpg", "normalise": True}),
    "hpg, continuous": (UNBOUNDED, {"method": "hpg", "normalise": True}),
    "hppo": (DISCRETE, {"method": "hppo", "waves": 2}),
    "hppo, continuous": (CONTINUOUS, {"method": "hppo"}),
    "dqn": (DISCRETE, {"method": "dqn"}),
}


def known_of(spaces: Spaces, values: dict[str, Any]) -> Known:
    """A policy with parameters all over the place, and normalisers that have seen something."""
    settings = make_settings({**values, "hidden_layers": (16, 8)})
    agent = settings.row.make(DescribedTask(spaces), settings.options)
    fresh = agent.policy(agent.init(jax.random.key(0)))
    random = np.random.default_rng(1)

    def seen(leaf: Any) -> Any:
        if isinstance(leaf, Normaliser | Scaler):
            rows = random.normal(2.0, 3.0, (50, leaf.mean.size)).astype(np.float32)
            rows[:, -1] = np.where(rows[:, -1] > 2, 3, -1)  # a number with two values
            return leaf.seen(jnp.asarray(rows), jnp.ones(50, bool))
        return np.asarray(leaf) + random.normal(0, 0.3, np.shape(leaf)).astype(np.float32)

    model = jax.tree.map(seen, fresh, is_leaf=lambda leaf: isinstance(leaf, Normaliser | Scaler))
    return Known(TrainedPolicy(model, spaces), Card(settings, None, 0, 10))


def rows_for(spaces: Spaces, count: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(2)
    shape = (count, *spaces.observation_shape)
    pictures = spaces.observation_type == "uint8"
    shown = random.integers(0, 256, shape) if pictures else random.normal(0, 3, shape)
    goals = random.normal(0, 3, (count, *spaces.goal_shape))
    rows = {"observation": shown, "goal": goals, "time": random.integers(0, 10, count)}
    return {name: rows[name].astype(kind) for name, (_, kind) in inputs_of(spaces).items()}


@pytest.mark.parametrize("case", CASES)
def test_onnx_gives_the_same_actions(case: str) -> None:
    known = known_of(*CASES[case])
    spaces, rows = known.policy.spaces, rows_for(known.policy.spaces, 33)
    expected = known.policy.act(*rows.values())
    assert expected.shape == ((33, spaces.action_count) if spaces.continuous else (33,))
    assert len(np.unique(np.round(expected, 3), axis=0)) > 1
    session = onnxruntime.InferenceSession(onnx_bytes(known), providers=["CPUExecutionProvider"])
    for count in (1, 33):
        (found,) = session.run(["action"], {name: row[:count] for name, row in rows.items()})
        assert found.dtype == expected.dtype
        if spaces.continuous:
            np.testing.assert_allclose(found, expected[:count], rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(found, expected[:count])


def test_every_format_gives_the_same_actions(tmp_path: Path) -> None:
    known = known_of(*CASES["hppo, continuous"])
    written = export(known, tmp_path / "out")
    assert {path.name for path in written} == {path.name for path in (tmp_path / "out").iterdir()}
    assert len(written) == len(FORMATS) + 1
    rows = rows_for(known.policy.spaces, 5)
    expected = known.policy.act(*rows.values())
    program = jax.export.deserialize(bytearray((tmp_path / "out/policy.stablehlo").read_bytes()))
    (loaded,) = load_known(tmp_path / "out")
    np.testing.assert_allclose(program.call(*rows.values()), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(loaded.policy.act(*rows.values()), expected)
    assert loaded.card == known.card


def test_pictures_go_into_stablehlo_alone(tmp_path: Path) -> None:
    known = known_of(PICTURES, {"method": "hppo"})
    with pytest.raises(HindsightError, match="StableHLO has it: --formats stablehlo"):
        export(known, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_names_shapes_and_origins_stand_in_the_files(tmp_path: Path) -> None:
    (known,) = load_known("zoo:four-rooms")
    export(known, tmp_path / "out", ("onnx",))
    session = onnxruntime.InferenceSession(tmp_path / "out/policy.onnx", providers=["CPUExecutionProvider"])
    shapes = {each.name: each.shape for each in (*session.get_inputs(), *session.get_outputs())}
    assert shapes == {"observation": ["batch", 2], "goal": ["batch", 2], "time": ["batch"], "action": ["batch"]}
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["environment"])["name"] == "four-rooms"
    assert json.loads(about["method"])["name"] == "hppo"
    described = json.loads((tmp_path / "out/policy.json").read_text())
    assert described["inputs"]["goal"] == {"shape": ["batch", 2], "type": "float32"}
    assert described["outputs"]["action"]["values"] == 4
    cells = np.stack(np.meshgrid(np.arange(11), np.arange(11)), -1).reshape(-1, 2).astype(np.float32)
    rows = {"observation": cells, "goal": cells[::-1].copy(), "time": np.zeros(121, np.int32)}
    np.testing.assert_array_equal(session.run(None, rows)[0], known.policy.act(cells, cells[::-1]))


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("")
    with pytest.raises(HindsightError, match="is not empty, and what it holds is not ours"):
        export(load_known("zoo:four-rooms")[0], tmp_path, FORMATS)


def test_operations_that_onnx_lacks_are_named() -> None:
    with pytest.raises(HindsightError, match="does not know the operation 'sort' of this policy"):
        to_onnx(lambda rows: jax.numpy.sort(rows, axis=1), {"rows": ((3,), "float32")}, "sorted", {})
