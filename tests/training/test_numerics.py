"""Settings of JAX that change numbers are recorded, and a run does not go on under others."""

import json
from pathlib import Path

import jax
import pytest
from small_jobs import small_job, small_settings
from small_results import refusal

from hindsight_rl.environments.registry import specify
from hindsight_rl.experiments.job import run_job
from hindsight_rl.training.keys import key_of
from hindsight_rl.training.program import make_program

pytestmark = pytest.mark.usefixtures("compiled_programs")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, compiled_programs: Path) -> Path:
    folder = tmp_path_factory.mktemp("numerics") / "run"
    run_job(small_job(batches=10), folder)
    return folder


@pytest.mark.parametrize(
    ("name", "value", "asked"),
    [
        ("jax_default_prng_impl", "rbg", "set JAX_DEFAULT_PRNG_IMPL=threefry2x32 to go on."),
        ("jax_threefry_partitionable", False, "set JAX_THREEFRY_PARTITIONABLE=True to go on."),
    ],
)
def test_a_run_does_not_go_on_under_other_settings_of_jax(
    folder: Path, name: str, value: str | bool, asked: str
) -> None:
    before = jax.config.values[name]
    jax.config.update(name, value)
    try:
        said = refusal(lambda: run_job(small_job(batches=20), folder, resume=True))
    finally:
        jax.config.update(name, before)
    assert said.startswith(f"'{folder}' was made with {name} = {before}, and JAX now has {value}")
    assert said.endswith(asked)


def test_keys_are_of_one_kind_whatever_jax_is_told() -> None:
    expected = jax.random.key_data(key_of(7))
    with jax.default_prng_impl("rbg"):
        assert (jax.random.key_data(key_of(7)) == expected).all()


def test_64_bits_are_refused() -> None:
    with jax.enable_x64(True):
        said = refusal(lambda: make_program(specify("bit-flipping-4").task, small_settings()))
    assert said == "Training computes with 32 bits: unset JAX_ENABLE_X64 (jax_enable_x64)."


def test_versions_keep_their_history_when_a_run_is_resumed(folder: Path) -> None:
    path = folder / "versions.json"
    now = json.loads(path.read_text())
    path.write_text(json.dumps({**now, "jax": "0.0.1"}))
    for _ in range(2):
        run_job(small_job(batches=10), folder, resume=True)
        assert json.loads(path.read_text()) == {**now, "earlier": [{**now, "jax": "0.0.1"}]}
    path.write_text("{")
    run_job(small_job(batches=10), folder, resume=True)
    assert json.loads(path.read_text()) == now
