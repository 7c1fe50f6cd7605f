"""Every command that a page shows in a line of its own is run, in the order of the page, with tiny settings: slow.

So is every study file.
"""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from test_documents import OWN, PAGES, ROOT, blocks, name

from hindsight_rl.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]

SMALL = {"--batches": "2", "--evaluate-every": "1", "--evaluation-episodes": "2", "--hidden-layers": "4"}
GRADIENTS = {"--samples": "4", "--batch-sizes": "2", "--episodes-end": "goal", "--normalisers": "drop"}
STUDY = """
name = "{name}"
environments = ["empty-room", "four-rooms"]
methods = ["hpg", "gcpg"]
batch_sizes = [2, 16]
learning_rates = [1e-3]
hidden_layers = [4]

[definitive]
runs = 1
batches = 2
evaluate_every = 1
evaluation_episodes = 2
"""
"""In place of the presets, which take hours."""
FOUR_ROOMS = "hindsight train four-rooms --output runs/"
BEFORE = {
    "docs/compare.md": [f"{FOUR_ROOMS}a", f"{FOUR_ROOMS}b --method hpg", "hindsight study run mine.toml"],
    "docs/policies.md": ["hindsight train four-rooms"],
    "docs/commands.md": ["hindsight study run paper --search-runs 2 --output other"],
    "docs/studies.md": ["hindsight study run paper --output elsewhere/paper"],
}
"""What a page takes for granted."""
ELSEWHERE = {"docs/cluster.md"}
"""Pages whose commands want a cluster; tests/experiments/test_ray_studies.py starts one."""


def commands_of(page: Path) -> list[str]:
    """The commands that stand in lines of their own; those with names of the reader's or placeholders are left out."""
    text = page.read_text().replace("\\\n", " ")
    lines = [
        line.strip().removeprefix(".venv/bin/")
        for line in text.splitlines()
        if re.match(r"    (\.venv/bin/)?hindsight ", line)
    ]
    lines = [re.sub(r"\s+# .*", "", line) for line in lines]
    return [line for line in lines if not any(own in line for own in OWN) and not re.search(r"\b[A-Z]{3,}\b", line)]


def small(words: Sequence[str]) -> list[str]:
    """The command with tiny settings in place of its own."""
    words = [f"{word}.toml" if word in ("paper", "paper-her") else word for word in words]
    if words[0] == "gradients":
        return with_flags(words, GRADIENTS)
    if words[0] != "train" or "--print-config" in words:
        return words
    if "--resume" in words:
        return with_flags(words, {"--batches": "3"}) if "--batches" in words else words
    return with_flags(words, SMALL)


def with_flags(words: list[str], flags: dict[str, str]) -> list[str]:
    for flag, value in flags.items():
        if flag in words:
            words[words.index(flag) + 1] = value
        else:
            words += [flag, value]
    return words


def watch(words: list[str]) -> None:
    """Until its address is printed, then Ctrl-C."""
    with subprocess.Popen([sys.executable, "-m", "hindsight_rl", *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Watching")
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


@pytest.mark.parametrize(
    "page", [page for page in PAGES if commands_of(page) and name(page) not in ELSEWHERE], ids=name
)
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for study in ("paper", "paper-her", "mine"):
        (tmp_path / f"{study}.toml").write_text(STUDY.format(name=study))
    (tmp_path / "goals.txt").write_text("3 3  # a door\n8 8\n")
    for line in [*BEFORE.get(name(page), []), *commands_of(page)]:
        words = small(shlex.split(line, comments=True)[1:])
        print("hindsight", *words)
        if words[0] == "watch":
            watch(words)
        else:
            main(words)  # a refusal would be a SystemExit


STAGE = {"runs": 2, "batches": 2, "evaluate_every": 1, "evaluation_episodes": 2}


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {toml(part)}' for key, part in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


def small_study(text: str) -> str:
    """The study with tiny budgets and networks; what it compares, searches and leaves out stays."""
    study = tomllib.loads(text)
    for stage in ("search", "definitive"):
        study[stage] = {**study.get(stage, {}), **STAGE}
        for override in study.get("override", []):
            if stage in override:
                override[stage] |= {key: value for key, value in STAGE.items() if key in override[stage]}
    study["hidden_layers"] = [4]
    return "\n".join(f"{key} = {toml(value)}" for key, value in study.items())


@pytest.mark.parametrize("text", [block for block in blocks("toml") if "entry-points" not in block.values[0]])
def test_a_documented_study_runs(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "mine.toml").write_text(small_study(text))
    main(["study", "run", "mine.toml", "--json"])
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert len({cell["method"] for cell in cells}) == 2
    assert all(cell["runs"] == 2 and not cell["failed_runs"] for cell in cells)
