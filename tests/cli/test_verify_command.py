"""`hindsight verify` names what is damaged, and nothing else; and a few random faults with a fixed seed."""

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from reference.chaos import damage
from reference.chaos_input import mutated
from small_jobs import alter, truncate
from small_results import example_file

from hindsight_rl.cli import main
from hindsight_rl.records.checkpoints import load_checkpoint, save_checkpoint


def verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    code = 0
    try:
        main(["verify", str(folder)])
    except SystemExit as stop:
        code = int(stop.code or 0)
    lines = capsys.readouterr().out.splitlines()
    return code, [line for line in lines if line.startswith("DAMAGED")]


def test_a_sound_run_and_what_is_damaged_in_it(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verified(copied, capsys) == (0, [])
    settings = copied / "settings.json"
    settings.write_text(settings.read_text().replace('"batches": 40', '"batches": 50'))
    truncate(copied / "learning-curve.png")
    truncate(copied / "evaluations.csv")
    code, damaged = verified(copied, capsys)
    assert code == 1
    assert [line.split(":")[0].rpartition("/")[2] for line in damaged] == [
        "settings.json",
        "evaluations.csv",
        "learning-curve.png",
    ]
    alter(copied / "checkpoint.npz")
    assert "checkpoint.npz" in verified(copied, capsys)[1][0]


def test_a_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = example_file(tmp_path / "results.sqlite")
    assert verified(tmp_path, capsys) == (0, [])
    truncate(path)
    code, damaged = verified(tmp_path, capsys)
    assert (code, len(damaged)) == (1, 1)
    assert "results.sqlite" in damaged[0]


def test_a_folder_without_either(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verified(tmp_path, capsys) == (2, [])


def test_random_damage_to_a_checkpoint_is_noticed_or_changes_nothing(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slice of `make test-chaos` with a fixed seed."""
    draw, path = random.Random(20), copied / "settings.json"
    content = json.loads(path.read_text())
    for _ in range(30):
        changed = mutated(content, draw)
        path.write_text(json.dumps(changed))
        found = verified(copied, capsys)[0]
        # 0 in the place of false is equal to it in Python, and may be refused for its type.
        if changed != content or json.dumps(changed) == json.dumps(content):
            assert found == int(changed != content)
    path.write_text(json.dumps(content))
    checkpoint = copied / "checkpoint.npz"
    before, noticed = checkpoint.read_bytes(), 0
    for _ in range(30):
        checkpoint.write_bytes(damage(before, draw))
        noticed += verified(copied, capsys)[0]
    assert noticed >= 20


def test_a_link_that_leads_nowhere_is_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example_file(tmp_path / "results.sqlite")
    assert verified(tmp_path, capsys)[0] == 0
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "cell.npz").symlink_to(tmp_path / "nowhere")
    code, lines = verified(tmp_path, capsys)
    assert code == 1
    assert any("cell.npz" in line for line in lines)


def test_checkpoints_that_were_renamed_and_policies_of_other_runs(
    copied: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of them is whole, and matches its digests."""
    (copied / "checkpoints").mkdir()
    shutil.copy(copied / "checkpoint.npz", copied / "checkpoints" / "batch-40.npz")
    assert verified(copied, capsys) == (0, [])
    shutil.copy(copied / "checkpoint.npz", copied / "checkpoints" / "batch-30.npz")
    shutil.copy(copied / "best" / "seed-0.npz", copied / "best" / "seed-1.npz")
    code, (kept, best) = verified(copied, capsys)
    assert code == 1
    assert kept.endswith("batch-30.npz is not of the batch that its name says.")
    assert best.endswith("seed-1.npz is no policy of the seed that its name says.")


def test_a_kept_checkpoint_of_another_run(copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays, metadata = load_checkpoint(copied / "checkpoint.npz")
    metadata["job"]["run"]["seed"] = 77
    metadata["job"]["run"]["batches"] = 80  # as before a run was made longer or shorter
    (copied / "checkpoints").mkdir()
    save_checkpoint(copied / "checkpoints" / "batch-40.npz", arrays, metadata)
    assert "belongs to another run: run.seed is 77, not 0." in verified(copied, capsys)[1][0]


def test_a_file_with_right_digests_that_says_something_else(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied / "checkpoints").mkdir()
    save_checkpoint(copied / "checkpoints" / "batch-40.npz", {}, {"job": 3})
    save_checkpoint(copied / "best" / "seed-1.npz", {}, {"policy": [1]})
    assert [line.split(": ")[0].rpartition("/")[2] for line in verified(copied, capsys)[1]] == [
        "batch-40.npz",
        "seed-1.npz",
    ]


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder with more folders in one another than Python's calls can be; nor can pytest remove them."""
    home, depth = os.open(".", os.O_RDONLY), 1200
    os.chdir(tmp_path)
    for _ in range(depth):
        os.mkdir("a")
        os.chdir("a")
    yield tmp_path
    for _ in range(depth):
        os.chdir("..")
        os.rmdir("a")
    os.fchdir(home)
    os.close(home)


def test_folders_nested_deeper_than_calls_can_be(deep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (deep / "study").mkdir()
    example_file(deep / "study" / "results.sqlite")
    assert verified(deep, capsys) == (0, [])
    main(["runs", str(deep)])
    assert "study" in capsys.readouterr().out


def test_a_plan_with_a_right_digest_that_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example_file(tmp_path / "results.sqlite")
    main(["runs", str(tmp_path)])
    assert capsys.readouterr().out.endswith(f"'{tmp_path}' is not what hindsight writes (KeyError: 'choices').\n")


def test_a_line_a_file_whatever_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a\nok      b"
    folder.mkdir()
    example_file(folder / "results.sqlite")
    main(["verify", str(tmp_path)])
    assert len(capsys.readouterr().out.splitlines()) == 1
