"""What a stranger's file names is not imported, wherever in it the name stands, unless the user says so."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from small_jobs import sentence

from hindsight_rl.cli import main
from hindsight_rl.records.checkpoints import load_checkpoint, save_checkpoint
from hindsight_rl.records.digests import content_digest

pytestmark = pytest.mark.usefixtures("compiled_programs")

EVIL = "from pathlib import Path\nPath('ran').touch()\nX = 1\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a module lies that leaves a trace when it is imported."""
    (tmp_path / "evil_module.py").write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "evil_module", raising=False)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    return sentence(capsys.readouterr().err)


def rewrite(path: Path, change: Any) -> None:
    """Another metadata with right digests."""
    arrays, metadata = load_checkpoint(path)
    change(metadata)
    save_checkpoint(path, arrays, metadata)


@pytest.mark.parametrize(
    ("command", "part", "name"),
    [
        ("evaluate", "environment", "evil_module:X"),
        ("evaluate", "environment", "gym"),
        ("evaluate", "method", "evil_module:X"),
        ("render", "environment", "evil_module:X"),
        ("export", "method", "evil_module:X"),
    ],
)
def test_a_policy_file(
    home: Path, copied: Path, capsys: pytest.CaptureFixture[str], command: str, part: str, name: str
) -> None:
    main(["export", str(copied), "--formats", "npz", "--output", "policy"])

    def change(metadata: dict[str, Any]) -> None:
        options = {"id": "evil_module:X-v0"} if name == "gym" else {}
        metadata["policy"][part] = {"name": name, "options": options}

    rewrite(home / "policy" / "policy.npz", change)
    for source in ("policy", "policy/policy.npz"):
        said = refused(capsys, command, source)
        assert said.startswith(f"'{source}' names code that would be imported and run (evil_module:X")
    assert not (home / "ran").exists()


def test_a_checkpoint_that_names_more_than_its_settings(
    home: Path, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = json.loads((copied / "settings.json").read_text())

    def change(metadata: dict[str, Any]) -> None:
        metadata["job"]["environment"] = {"name": "evil_module:X", "options": {}}
        metadata["settings_digest"] = content_digest(settings)

    rewrite(copied / "checkpoint.npz", change)
    assert "names code that would be imported and run (evil_module:X)" in refused(capsys, "evaluate", str(copied))
    assert not (home / "ran").exists()
    refused(capsys, "evaluate", str(copied), "--trust")
    assert (home / "ran").exists()
