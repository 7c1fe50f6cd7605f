"""A study on a real Ray cluster of several nodes comes to the bytes of one without Ray; mistakes end in a sentence."""

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from small_jobs import PROGRAM, process_environment, run_program, sentence
from small_studies import definition, numbers_in, only_hpg, results_in, shared_programs, small_study, study_text

import hindsight_rl
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.experiments.cluster.messages import Message, Order, finished, finished_runs, order
from hindsight_rl.experiments.cluster.placement import Placement
from hindsight_rl.experiments.cluster.start import BUSY
from hindsight_rl.experiments.cluster.task import work_stepwise
from hindsight_rl.experiments.study.protocol import next_piece
from hindsight_rl.experiments.study.run import run_study

__all__ = ["definition", "shared_programs"]

CLUSTER = """
import os, sys
import ray
from ray.cluster_utils import Cluster
from hindsight_rl.experiments.cluster.head import Head
from hindsight_rl.experiments.cluster.start import starting
lacking = {"PYTHONPATH": os.pathsep.join([sys.argv[1], os.environ["PYTHONPATH"]])}
with starting(Head(), ray):
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80 * 2**20})
    for _ in range(2):
        cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20, env_vars=lacking)
    cluster.wait_for_nodes(300)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""
SMALL: dict[str, Any] = {"methods": ["hpg"]}
"""A search of four runs, then four definitive ones."""


LACKING = "raise ModuleNotFoundError('No module named gymnasium', name='gymnasium')"


@pytest.fixture(scope="module")
def cluster(compiled_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a head and two nodes on this machine, and the environment for those who connect.

    Only the head's node has Gymnasium.
    """
    pytest.importorskip("ray")
    lacking = tmp_path_factory.mktemp("lacking")
    (lacking / "gymnasium.py").write_text(LACKING)
    environment = (
        process_environment(compiled_programs)
        | {
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path]),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        | BUSY
    )
    command, on_loopback = [sys.executable, "-c", CLUSTER, str(lacking)], {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment | on_loopback,
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        yield next(line.strip() for line in lines if line.startswith("127.0.0.1:")), environment
        process.communicate()


def run_on(address: str, environment: dict[str, str], definition: Path, folder: Path, code: int = 0) -> str:
    command = [str(PROGRAM), "study", "run", str(definition), "--output", str(folder), "--on", address]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == code, done.stderr
    return done.stderr


def test_a_piece_goes_elsewhere_where_a_package_is_missing(cluster: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    few: dict[str, Any] = {"batches": 2, "evaluate_every": 2, "evaluation_episodes": 4, "runs": 1}
    line: dict[str, Any] = {
        "environments": ["gym:environments.registered_lines:MoodyLine-v0"],
        "learning_rates": [1e-2],
    }
    definition = tmp_path / "line.toml"
    definition.write_text(study_text(methods=["hpg", "gcpg"], search=few, definitive=few, **line))
    said = run_on(*cluster, definition, tmp_path / "there")
    # Two pieces begin on two machines, of which at most one has the package.
    assert "is tried on another machine: Gymnasium environments need gymnasium: pip install" in said
    assert len(results_in(tmp_path / "there").runs) == 2


def test_another_version_of_the_program_is_refused_with_both_named(
    cluster: tuple[str, dict[str, str]], definition: Path, tmp_path: Path
) -> None:
    address, environment = cluster
    package = Path(hindsight_rl.__file__).parent
    shutil.copytree(package, tmp_path / "other" / "hindsight_rl")
    with open(tmp_path / "other" / "hindsight_rl" / "__main__.py", "a") as file:
        file.write("# One line more.\n")
    other = environment | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "other"), environment["PYTHONPATH"]])}
    said = sentence(run_on(address, other, definition, tmp_path / "there", 2))
    assert "has other versions (code " in said
    assert said.endswith("here): install the same on all.")
    assert not results_in(tmp_path / "there").runs


def test_a_piece_that_no_machine_can_hold_is_refused(cluster: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    definition = tmp_path / "large.toml"
    definition.write_text(study_text(**SMALL | {"hidden_layers": [10**6, 10**6]}))
    said = sentence(run_on(*cluster, definition, tmp_path / "there", 2))
    assert said.startswith("No machine of the cluster has what a piece of bit-flipping-4-batch8-hpg needs (cores: 1")


def test_several_nodes_come_to_the_bytes_of_this_machine_alone(
    cluster: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    definition = tmp_path / "small.toml"
    definition.write_text(study_text(**SMALL))
    run_study(small_study(**SMALL), tmp_path / "here")
    run_on(*cluster, definition, tmp_path / "there")
    assert numbers_in(tmp_path / "there") == numbers_in(tmp_path / "here")
    assert not (tmp_path / "there" / "unfinished").exists()
    # Whoever asks again gets no run twice.
    before = (tmp_path / "there" / "results.sqlite").read_bytes()
    run_on(*cluster, definition, tmp_path / "there")
    assert len(results_in(tmp_path / "there").runs) == 8
    assert numbers_in(tmp_path / "there") == numbers_in(tmp_path / "here")
    assert len(before) == len((tmp_path / "there" / "results.sqlite").read_bytes())


@pytest.mark.parametrize("changes", [{"RAY_AUTH_TOKEN": "0" * 64}, {"RAY_AUTH_MODE": "disabled"}])
def test_whoever_has_another_token_or_none_is_not_let_in(
    changes: dict[str, str], cluster: tuple[str, dict[str, str]], definition: Path, tmp_path: Path
) -> None:
    address, environment = cluster
    said = run_on(address, environment | changes, definition, tmp_path / "there", 2)
    assert sentence(said) == f"Ray at '{address}' lets nobody in: the token may be another one."
    # One sentence, and not a line for each time that Ray would ask.
    assert len(said.splitlines()) == 2


def test_a_cluster_that_asks_for_a_token_is_not_asked_without_one(
    cluster: tuple[str, dict[str, str]], definition: Path, tmp_path: Path
) -> None:
    address, environment = cluster
    without = {name: value for name, value in environment.items() if name != "RAY_AUTH_TOKEN"}
    said = sentence(run_on(address, without | {"HOME": str(tmp_path)}, definition, tmp_path / "there", 2))
    assert said.startswith("A Ray cluster asks for its token, and there is none: set RAY_AUTH_TOKEN or")


def test_an_address_that_does_not_answer_is_named(definition: Path, compiled_programs: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        for address, expected in (
            ("127.0.0.1:9", "No Ray cluster answers"),
            (f"127.0.0.1:{other.server_port}", "No Ray cluster answers"),
            ("nowhere", "--on must be ray, auto"),
        ):
            ended = run_program(
                ["study", "run", str(definition), "--output", str(tmp_path / "x"), "--on", address], compiled_programs
            )
            assert ended.returncode == 2
            assert expected in sentence(ended.stderr)
        other.shutdown()


def test_several_rays_on_a_machine_are_named(definition: Path, compiled_programs: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    named = ["127.0.0.1:7", "127.0.0.1:9"]
    processes = [
        subprocess.Popen(["/raylet/raylet", "-c", "read line", f"--gcs-address={each}"], executable="/bin/sh", stdin=-1)
        for each in named
    ]
    command = ["study", "run", str(definition), "--output", str(tmp_path / "x"), "--on", "auto"]
    ended = run_program(command, compiled_programs)
    for process in processes:
        process.communicate()
    assert ended.returncode == 2
    said = sentence(ended.stderr)
    assert said.startswith("Several Rays run on this machine (")
    assert all(each in said for each in named)
    assert said.endswith("): name one as --on HOST:PORT.")


def test_without_ray_the_extra_is_named(definition: Path, compiled_programs: Path, tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('no Ray here')")
    command = [sys.executable, "-c", "from hindsight_rl.cli import main; main()", "study", "run", str(definition)]
    command += ["--output", str(tmp_path / "x"), "--on", "ray"]
    environment = process_environment(compiled_programs) | {"PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode == 2
    assert "pip install 'hindsight-rl[ray]'" in sentence(ended.stderr)


def first_order(**changes: Any) -> Order:
    piece = next_piece(only_hpg(**changes).plans[0], {})
    assert piece is not None
    return order(piece, Placement(cores=max(1, len(os.sched_getaffinity(0))), seconds_between_checkpoints=0.0))


def test_an_order_comes_back_as_it_was() -> None:
    ordered = first_order()
    again = Order.read(ordered.text)
    assert again.piece.keys == ordered.piece.keys
    assert again.piece.settings == ordered.piece.settings
    assert again.text == ordered.text


def test_a_piece_goes_on_from_a_message_with_its_checkpoint(shared_programs: None) -> None:
    ordered = first_order()
    whole = [Message.read(content) for content in work_stepwise(ordered.text)]
    kept = [message for message in whole if message.kind == "kept"]
    rest = [Message.read(content) for content in work_stepwise(ordered.text, kept[1].to_bytes())]
    assert len(rest) < len(whole)
    for one, other in zip(*(finished_runs(messages[-1], ordered.piece) for messages in (whole, rest)), strict=True):
        assert all(np.array_equal(one.metrics[name], other.metrics[name], equal_nan=True) for name in one.metrics)


def test_a_piece_that_goes_on_on_another_kind_of_processor_says_so(shared_programs: None) -> None:
    ordered = first_order()
    kept = next(m for m in map(Message.read, work_stepwise(ordered.text)) if m.kind == "kept")
    for kind, expected in (("a slide rule", 1), (kept.content["processor"], 0)):
        begun = Message(kept.kind, kept.number, {**kept.content, "processor": kind}, kept.arrays)
        *_, last = (Message.read(content) for content in work_stepwise(ordered.text, begun.to_bytes()))
        assert len(last.content["notices"]) == expected
        assert all("was begun on a slide rule: the last bits" in notice for notice in last.content["notices"])


def test_other_versions_are_refused_with_both_named() -> None:
    ordered = first_order()
    older = Order(ordered.piece, ordered.number, {**ordered.made_with, "jax": "0.1"}, Placement())
    (message,) = (Message.read(content) for content in work_stepwise(older.text))
    assert message.kind == "refused"
    assert message.content["cause"] == f"jax {ordered.made_with['jax']} there, 0.1 here"


def test_messages_with_other_runs_or_other_bytes_are_refused() -> None:
    ordered = first_order()
    message = finished(ordered.number, [], None, {})
    with pytest.raises(HindsightError, match="other runs"):
        finished_runs(message, ordered.piece)
    with pytest.raises(HindsightError, match="damaged"):
        Message.read(message.to_bytes()[:-40])
