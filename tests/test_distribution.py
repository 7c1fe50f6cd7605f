"""The wheel and the sdist: what is in them, and that the wheel works where nothing of this folder is."""

import email
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import hindsight_rl

ROOT = Path(__file__).parent.parent
BUILD = "import sys; from setuptools import build_meta; build_meta.build_sdist({0!r}); build_meta.build_wheel({0!r})"
SMALL = shlex.split("--method hpg --batch-size 2 --batches 4 --evaluate-every 2 --hidden-layers 4")
STUDY = """
environments = ["bit-flipping-4"]
methods = ["hpg"]
batch_sizes = [2]
learning_rates = [1e-3]
hidden_layers = [4]

[definitive]
runs = 2
batches = 4
evaluate_every = 2
"""
FILM = "import numpy; from hindsight_rl.analysis.video import film; film([numpy.zeros((16, 16, 3), 'uint8')] * 2, 2)"
TRACKED = (
    "import hindsight_rl; from hindsight_rl.running.tracking import {0}; {1}"
    "hindsight_rl.train('bit-flipping-4', method='hpg', batches=2, callbacks=[{2}])"
)
MLFLOW = "import os; os.environ |= {'MLFLOW_ALLOW_FILE_STORE': 'true', 'MLFLOW_TRACKING_URI': 'mlruns'}; "
EXTRAS: dict[str, list[str]] = {
    "atari": shlex.split("check ms-pacman"),
    "docs": ["-c", "import material, mkdocs, mkdocstrings"],
    "export": shlex.split("export zoo:bit-flipping-8 --output exported"),
    "gymnasium": shlex.split("check point_robot:PointRobot"),
    "mlflow": ["-c", TRACKED.format("mlflow_run", MLFLOW, "mlflow_run(run_name='bits')")],
    "parquet": shlex.split("study export studies/small --output study.parquet"),
    "ray": shlex.split("study run small.toml --on ray --output studies/on-ray"),
    "robotics": shlex.split("evaluate zoo:fetch-reach --episodes 2 --workers 1"),
    "tensorboard": ["train", "bit-flipping-4", "--tensorboard", *SMALL],
    "video": ["-c", FILM],
    "wandb": ["-c", TRACKED.format("weights_and_biases", "", "weights_and_biases(project='bits', mode='offline')")],
}
"""Each extra, and what cannot be done without it: arguments of `hindsight`, or Python."""
BASE = [
    "--version",
    "train bit-flipping-4 --output run",
    "evaluate run",
    "render zoo:four-rooms --output rooms.gif",
    "zoo",
    "methods hppo",
    "study run small.toml",
    "study report studies/small",
    "runs",
    "compare run studies/small",
    "gradients bit-flipping-4 --samples 4 --batch-sizes 2 --estimators weighted",
    "verify .",
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, built from a copy without what earlier builds left behind."""
    copy, output = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    subprocess.run([sys.executable, "-c", BUILD.format(str(output))], cwd=copy, check=True, capture_output=True)
    return output


def wheel_of(built: Path) -> Path:
    (wheel,) = built.glob("*.whl")
    return wheel


def run(*words: str | Path, folder: Path) -> str:
    finished = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_the_version_stands_in_one_place(built: Path) -> None:
    names = {path.name for path in built.iterdir()}
    version = hindsight_rl.__version__
    assert names == {f"hindsight_rl-{version}-py3-none-any.whl", f"hindsight_rl-{version}.tar.gz"}
    assert version not in (ROOT / "pyproject.toml").read_text()
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()


def test_wheel_and_sdist_hold_every_file_of_the_package(built: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=False)
    files = {line.removeprefix("src/") for line in listed.stdout.splitlines()}
    if not files:
        pytest.skip("this is no git checkout")
    assert files <= set(zipfile.ZipFile(wheel_of(built)).namelist())
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in files} | {"pyproject.toml", "README.md", "LICENSE"} <= packed


def test_metadata_name_every_extra(built: Path) -> None:
    with zipfile.ZipFile(wheel_of(built)) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    assert set(metadata.get_all("Provides-Extra", [])) == {*EXTRAS, "dev"}
    needed = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    plain = {one.name for one in needed if one.marker is None}
    assert {"jax", "equinox", "numpy", "optax", "tyro", "rich"} <= plain
    for extra in EXTRAS:
        assert [one for one in needed if one.marker and one.marker.evaluate({"extra": extra})], extra
        assert not plain & {one.name for one in needed if one.marker and one.marker.evaluate({"extra": extra})}


def test_the_wheel_works_beside_installed_dependencies(built: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=False, symlinks=True)
    python = tmp_path / "empty/bin/python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel_of(built), folder=tmp_path)
    (packages,) = (tmp_path / "empty/lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    assert run(tmp_path / "empty/bin/hindsight", "--version", folder=tmp_path) == (
        f"hindsight {hindsight_rl.__version__}\n"
    )
    where = "import hindsight_rl; print(hindsight_rl.__file__)"
    assert run(python, "-c", where, folder=tmp_path).startswith(str(packages))
    assert "study" in run(python, "-m", "hindsight_rl", "--help", folder=tmp_path)


@pytest.mark.slow
def test_the_wheel_installs_into_an_empty_environment_with_each_extra(built: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=True)
    python, wheel = tmp_path / "empty/bin/python", wheel_of(built)
    (tmp_path / "small.toml").write_text(STUDY)
    shutil.copy(ROOT / "examples/point_robot.py", tmp_path)
    install = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")

    def program(*words: str) -> list[str | Path]:
        return [python, *words] if words[0] == "-c" else [tmp_path / "empty/bin/hindsight", *words]

    run(*install, wheel, folder=tmp_path)
    for line in BASE:
        words = shlex.split(line)
        run(*program(*words, *(SMALL if words[0] == "train" else [])), folder=tmp_path)
    for extra, words in EXTRAS.items():
        refused = subprocess.run(program(*words), cwd=tmp_path, capture_output=True, text=True, check=False)
        assert refused.returncode != 0, extra
        if extra != "docs":  # which the program itself does not need
            said = refused.stderr.strip().splitlines()[-1]
            assert f"hindsight-rl[{extra}]" in said or "No module named 'gymnasium'" in said, refused.stderr
        run(*install, f"{wheel}[{extra}]", folder=tmp_path)
        run(*program(*words), folder=tmp_path)
    run(python, "-m", "pip", "check", folder=tmp_path)
