"""Every mistake in a command on studies ends in one sentence and exit code 2, and changes nothing."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from small_jobs import bytes_in, claimed_by_another_process, sentence
from small_studies import copied, definition, finished, shared_programs, study_text

from hindsight_rl.cli import main
from hindsight_rl.records.results import RESULTS

__all__ = ["copied", "definition", "finished", "shared_programs"]

pytestmark = pytest.mark.usefixtures("shared_programs")

Refusal = Callable[..., str]


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refusal:
    """The only line of a command that is refused before it does anything."""
    monkeypatch.chdir(tmp_path)

    def refuse(*arguments: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(SystemExit) as stop:
            main(["study", *arguments])
        assert stop.value.code == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert len(shown.err.splitlines()) == 1
        assert sorted(tmp_path.rglob("*")) == before
        return sentence(shown.err)

    return refuse


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rnu", "paper"], "There is no study command 'rnu'. Did you mean 'run'?"),
        ([], "Say which of these is to be done: run, plan, report, export, merge. See: hindsight study --help"),
        (["run", "papr"], "Did you mean 'paper'?"),
        (["run", "paper", "--methds", "hpg"], "There is no flag '--methds' of 'study run'. Did you mean '--methods'?"),
        (["run", "paper", "--methods", "hgp"], "There is no method 'hgp' in this study. Did you mean 'hpg'?"),
        (["run", "paper", "--environments", "four-room"], "Did you mean 'four-rooms'?"),
        (["plan", "paper", "--batch-sizes", "3"], "There is no batch size '3' in this study. Known: 2, 16."),
        (["plan", "paper", "--runs", "0"], "runs must be a whole number of at least 1, not 0."),
        (["run", "no.toml"], "There is no file no.toml."),
        (["run", "small.toml", "--search", "half"], "See: hindsight study run --help"),
        (["run", "broken.toml"], "'broken.toml' is not valid TOML: "),
        (["run", "empty"], "'empty' holds no study: it has no results.sqlite."),
        (["report", "empty"], "'empty' holds no study: it has no results.sqlite."),
        (["export", "nowhere"], "'nowhere' holds no study: it has no results.sqlite."),
        (
            ["export", "copied", "--output", "a.xlsx"],
            "'a.xlsx' must end in .csv or .parquet, which says what to write.",
        ),
        (["run", "copied", "--workers", "2"], "this one is compiled and needs none: leave them out."),
        (["run", "copied", "--output", "empty"], "'copied' is a study's folder, which is its own output."),
        (["run", "other.toml", "--output", "copied"], "hpg with seed 0, not 3: choose another output folder."),
        (["plan", "other.toml", "--output", "copied"], "hpg with seed 0, not 3: choose another output folder."),
    ],
)
@pytest.mark.usefixtures("copied", "definition")
def test_mistakes_are_named_and_change_nothing(
    refusal: Refusal, tmp_path: Path, arguments: list[str], words: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.toml").write_text("name = ")
    (tmp_path / "other.toml").write_text(study_text(seed=3))
    assert words in refusal(*arguments)


@pytest.mark.parametrize("command", ["run", "plan", "report", "export"])
@pytest.mark.parametrize("content", [b"", b"garbage" * 1000])
def test_damaged_results_are_refused(refusal: Refusal, copied: Path, command: str, content: bytes) -> None:
    (copied / RESULTS).write_bytes(content)
    before = bytes_in(copied)
    assert refusal(command, str(copied)).startswith(f"'{copied / RESULTS}' is damaged or not a study's results: ")
    assert bytes_in(copied) == before


def test_packages_that_are_missing_are_named(
    refusal: Refusal, definition: Path, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    assert refusal("export", str(copied), "--output", "a.parquet").endswith("pip install 'hindsight-rl[parquet]'.")
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(SystemExit) as stop:
        main(["study", "run", str(definition), "--output", "new", "--tensorboard"])
    assert stop.value.code == 2
    assert not Path("new").exists()


def test_a_second_writer_is_refused(capsys: pytest.CaptureFixture[str], copied: Path) -> None:
    before = bytes_in(copied)
    with claimed_by_another_process(copied), pytest.raises(SystemExit) as stop:
        main(["study", "run", str(copied), "--runs", "9"])
    assert stop.value.code == 2
    assert sentence(capsys.readouterr().err) == f"Another process is writing to '{copied}'."
    assert bytes_in(copied) == before


def test_a_file_is_no_folder(capsys: pytest.CaptureFixture[str], definition: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["study", "run", str(definition), "--output", str(definition)])
    assert stop.value.code == 2
    message = f"The output folder '{definition}' cannot be used: File exists."
    assert sentence(capsys.readouterr().err) == message
