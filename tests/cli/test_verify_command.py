"""`hindsight verify` names what is damaged, and nothing else; and a few random faults with a fixed seed."""

import json
import random
from pathlib import Path

import pytest
from reference.chaos import damage
from reference.chaos_input import mutated
from small_jobs import alter, truncate
from small_results import example_file

from hindsight_rl.cli import main


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
        assert verified(copied, capsys)[0] == int(changed != content)
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
