"""What the documents say is tried: study files and snippets are run, and every command is one that the program has."""

import importlib.util
import json
import re
import runpy
import shlex
import tomllib
from pathlib import Path
from typing import Any

import jax
import pytest

from hindsight_rl.cli import main
from hindsight_rl.cli.main import COMMANDS, GROUPS, _flags
from hindsight_rl.cli.train_command import train_class

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / f"{page}.md" for page in ("README", "CONTRIBUTING", "SECURITY")]
PAGES += [*sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "results").rglob("README.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
OWN = ("my_module", "your_module", "MyEnvironment", "my_package")
"""Names that stand for something of the reader's."""
TINY: dict[str, Any] = {
    "batch_size": 2,
    "batches": 2,
    "evaluate_every": 1,
    "evaluation_episodes": 2,
    "hidden_layers": (4,),
    "progress": False,
}

TINY_FLAGS = shlex.split("--batch-size 2 --batches 2 --evaluate-every 1 --evaluation-episodes 2 --hidden-layers 4")
MADE_BEFORE = {
    "docs/howto/export.md": [["export", "zoo:four-rooms", "--output", "rooms"]],
    "docs/policies.md": [
        ["train", "gym:FetchReach-v4", *TINY_FLAGS, "--output", "runs/gym-FetchReach-v4-hppo-batch16"],
        ["export", "zoo:four-rooms", "--formats", "onnx", "--output", "four-rooms"],
    ],
}
"""What a page's snippets find in the folder: the reader made it with the page's commands."""
SLOW = {"docs/howto/trackers.md"}
"""Pages whose packages take long to import; tests/cli/test_python_training.py has the same in small."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(language: str) -> list[Any]:
    found = []
    for page in PAGES:
        for number, (kind, text) in enumerate(BLOCK.findall(page.read_text()), 1):
            if kind == language:
                found.append(pytest.param(text, id=f"{name(page)}-{number}"))
    return found


def commands() -> list[Any]:
    found: dict[str, Path] = {}
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        lines = [line.strip() for line in text.splitlines() if re.match(r"    (\.venv/bin/)?hindsight ", line)]
        lines += re.findall(r"`(hindsight [^`]*)`", text.replace("\n", " "))
        lines += re.findall(r"^srun (hindsight .*)$", text, re.MULTILINE)
        for line in lines:
            found.setdefault(line.removeprefix(".venv/bin/"), page)
    return [pytest.param(line, id=f"{name(page)}: {line[:60]}") for line, page in found.items()]


@pytest.mark.parametrize("line", commands())
def test_a_documented_command_has_its_flags(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = shlex.split(line, comments=True)[1:]
    known: dict[str, Any] = COMMANDS
    if words[0] in GROUPS:
        if len(words) == 1:
            return
        known = GROUPS[words.pop(0)]
    assert words[0] in [*known, "--version"], line
    if any(own in line for own in OWN) or line.isupper() or words[0] == "--version":
        return
    placeholders = any(word.isupper() for word in words)
    command = train_class(words[1:]) if words[0] == "train" and not placeholders else known[words[0]]
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    if words[0] != "train" or not placeholders:
        assert set(flags) <= {"--help", *_flags(command)}


def test_what_else_is_documented_is_there() -> None:
    """Targets of make, programs, modules and extras; what is run by hand, and what other tests run."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    seen = 0
    for page in PAGES:
        text = re.sub(BLOCK, "", page.read_text()).replace("\\\n", " ")
        lines = re.findall(r"^    ((?:make|python|pip) .*)$", text, re.MULTILINE)
        for line in [*lines, *re.findall(r"`((?:make|python|pip) [^`]+)`", text)]:
            program, *words = shlex.split(line, comments=True)
            if program == "make":
                assert words[0] in targets, f"{name(page)}: {line}"
            elif program == "pip":
                assert set(re.findall(r"hindsight-rl\[(\w+)\]", line)) <= set(extras), f"{name(page)}: {line}"
            elif words[0] == "-m":
                assert importlib.util.find_spec(words[1]), f"{name(page)}: {line}"
            elif words[0] != "-c":
                assert (ROOT / words[0]).is_file(), f"{name(page)}: {line}"
            seen += 1
    assert seen > 20
    table = (ROOT / "docs/howto/install.md").read_text()
    rows = " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", rows)) == set(extras)


def test_every_page_is_in_the_menu_of_the_site() -> None:
    menu = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert menu >= {name(page) for page in PAGES}
    notebooks = {str(path.relative_to(ROOT).with_suffix(".md")) for path in (ROOT / "docs").rglob("*.ipynb")}
    assert notebooks <= menu
    assert all((ROOT / page).is_file() for page in menu - notebooks)


@pytest.mark.parametrize("text", blocks("toml"))
def test_a_documented_study_is_accepted(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hindsight_rl.experiments.study.files import load_study

    if "entry-points" in text:
        pytest.skip("part of a package's own pyproject.toml")
    monkeypatch.chdir(ROOT)
    (tmp_path / "mine.toml").write_text(text)
    assert load_study(str(tmp_path / "mine.toml")).plans


def snippets() -> list[Any]:
    """The snippets of a page, as one program: later ones go on with what earlier ones made."""
    found = []
    for page in PAGES:
        parts = [text for kind, text in BLOCK.findall(page.read_text()) if kind == "python"]
        if parts:
            marks = [pytest.mark.slow] if name(page) in SLOW else []
            found.append(pytest.param("\n".join(parts), MADE_BEFORE.get(name(page), []), id=name(page), marks=marks))
    return found


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(("text", "made_before"), snippets())
def test_the_documented_snippets_run(
    text: str, made_before: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With tiny settings: that it runs is what is tested here."""
    import hindsight_rl

    train = hindsight_rl.train

    def small(environment: Any, *arguments: Any, **settings: Any) -> Any:
        return train(environment, *arguments, **{**settings, **TINY})

    monkeypatch.setattr(hindsight_rl, "train", small, raising=False)
    monkeypatch.chdir(tmp_path)
    for words in made_before:
        main([*words])
    monkeypatch.syspath_prepend(str(ROOT))
    (tmp_path / "snippet.py").write_text(text)
    runpy.run_path(str(tmp_path / "snippet.py"))


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")), ids=lambda path: path.name)
def test_a_notebook_runs_and_shows_what_it_did(path: Path) -> None:
    """Its code, cell by cell, as it stands there, and what it drew is kept in it."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells):
        text = "".join(cell["source"])
        with jax.numpy_rank_promotion("allow"):  # as readers have it
            exec(compile(text, f"{path.name}, cell {number}", "exec"), names)
        assert not any(output["output_type"] == "error" for output in cell["outputs"])
        if "plt.subplots" in text:
            assert any("image/png" in output["data"] for output in cell["outputs"])
    plt.close("all")
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
