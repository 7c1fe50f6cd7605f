"""Every foreseeable mistake ends in one sentence and a non-zero exit, and changes nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest
from small_jobs import (
    ENVIRONMENT,
    alter,
    bytes_in,
    claimed_by_another_process,
    run_program,
    sentence,
    small_flags,
    truncate,
)

from hindsight_rl.cli import main
from hindsight_rl.cli.commands import Methods

pytestmark = pytest.mark.usefixtures("compiled_programs")

Refusal = Callable[..., str]
DIGITS = "9" * 5000
"""Python reads at most 4,300, and complains of more in its own way."""


@pytest.fixture
def last_sentence(capsys: pytest.CaptureFixture[str]) -> Refusal:
    """The sentence with which a command ends; progress may stand before it."""

    def refuse(*arguments: str) -> str:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code not in (0, None)
        shown = capsys.readouterr()
        assert shown.out == ""
        return sentence(shown.err)

    return refuse


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refusal:
    """The only line of a command that is refused before it does anything."""
    monkeypatch.chdir(tmp_path)

    def refuse(*arguments: str) -> str:
        before = sorted(tmp_path.iterdir())
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code not in (0, None)
        shown = capsys.readouterr()
        assert shown.out == ""
        assert len(shown.err.splitlines()) == 1
        assert sorted(tmp_path.iterdir()) == before
        return sentence(shown.err)

    return refuse


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "bit-fliping-8"], "There is no environment 'bit-fliping-8'. Did you mean 'bit-flipping'?"),
        (["train", "for-rooms"], "Did you mean 'four-rooms'?"),
        (["train", ENVIRONMENT, "--method", "hgp"], "There is no method 'hgp'. Did you mean 'hpg'?"),
        (["train", ENVIRONMENT, "--method", "gcpg-b"], "Did you mean 'gcpg+b'?"),
        (
            ["train", ENVIRONMENT, "--method", "dqn+her", "--relabelling", "last"],
            "Expected one of episode, final, future. See: ",
        ),
        (
            ["train", ENVIRONMENT, "--learning-rat", "1"],
            "'--learning-rat' of hppo on bit-flipping-4. Did you mean '--learning-rate'?",
        ),
        (
            ["train", ENVIRONMENT, "--batchsize=4"],
            "'--batchsize' of hppo on bit-flipping-4. Did you mean '--batch-size'?",
        ),
        (["render", "run", "--polici", "1"], "There is no flag '--polici' of 'render'. Did you mean '--policy'?"),
        (["trian", ENVIRONMENT], "There is no command 'trian'. Did you mean 'train'?"),
        (["environment"], "Did you mean 'environments'?"),
        (["train", "FetchReach-v4"], "Gymnasium's have gym: before them: gym:FetchReach-v4."),
    ],
)
def test_unknown_name_gets_the_nearest_match(refusal: Refusal, arguments: list[str], words: str) -> None:
    assert words in refusal(*arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", ENVIRONMENT, "--batches", "many"], "--batches must be a whole number, not 'many'."),
        (["train", ENVIRONMENT, "--batches", "17.5"], "--batches must be a whole number, not '17.5'."),
        (["train", ENVIRONMENT, "--keep-every", "x"], "--keep-every must be a whole number, not 'x'."),
        (["train", ENVIRONMENT, "--learning-rate", "low"], "--learning-rate must be a number, not 'low'."),
        (["train", ENVIRONMENT, "--until-success", "high"], "--until-success must be a number, not 'high'."),
        (["train", ENVIRONMENT, "--hidden-layers", "wide"], "--hidden-layers cannot be 'wide'."),
        (["train", ENVIRONMENT, "--minutes"], "--minutes needs a value."),
        (["train", ENVIRONMENT, "--hidden-layers"], "--hidden-layers needs a value."),
        (["train", ENVIRONMENT, "--method", "hpg", "--hidden-layers", "--batches", "2"], "--hidden-layers needs a "),
        (["runs", "--filter"], "--filter needs a value. See: hindsight runs --help"),
        (["study", "plan", "paper", "--methods", "--json"], "--methods needs a value. See: hindsight study plan "),
        (["zoo", "all"], "Not understood: all."),
        (["export"], "'hindsight export' needs RUN: A folder that `hindsight train` made, a policy file, or a policy "),
        (
            ["study", "run"],
            "'hindsight study run' needs STUDY: A preset (paper), a TOML file, or the folder of a study",
        ),
        ([], "Say which of these is to be done: train, evaluate, "),
    ],
)
def test_what_cannot_be_parsed_is_said_in_the_users_words(refusal: Refusal, arguments: list[str], said: str) -> None:
    sentence_said = refusal(*arguments)
    assert sentence_said.startswith(said)
    assert " See: hindsight " in sentence_said
    assert sentence_said.endswith(" --help")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["evaluate", "run", "--checkpoint", DIGITS], "checkpoint must be last, best or the number of a batch, not '9"),
        (["train", f"bit-flipping-{DIGITS}"], "There is no environment 'bit-flipping-999"),
        (["gradients", "bit-flipping-3", "--max-active-goals", DIGITS], "or whole numbers of at least 1, not '999"),
        (["gradients", "bit-flipping-3", "--max-active-goals", "²"], "or whole numbers of at least 1, not '²'."),
    ],
)
def test_numbers_with_more_digits_than_python_reads(refusal: Refusal, arguments: list[str], words: str) -> None:
    assert words in refusal(*arguments)


@pytest.mark.parametrize("line", [f"batches = {DIGITS}", f"batches = {'[' * 5000}"])
def test_toml_that_python_gives_up_on(refusal: Refusal, tmp_path: Path, line: str) -> None:
    (tmp_path / "settings.toml").write_text(line)
    arguments = ["--config", str(tmp_path / "settings.toml"), "--print-config"]
    assert "settings.toml' is not valid TOML: " in refusal("train", ENVIRONMENT, *arguments)


@pytest.mark.parametrize("value", ["[]", "nan", "-1", "2020-01-01", '["four-rooms"]'])
@pytest.mark.parametrize("name", ["environment", "method"])
def test_what_is_no_name_in_a_file_of_settings(refusal: Refusal, tmp_path: Path, name: str, value: str) -> None:
    (tmp_path / "settings.toml").write_text(f"{name} = {value}")
    for arguments in (["--print-config"], [ENVIRONMENT, "--method", "hpg"]):
        said = refusal("train", "--config", "settings.toml", *arguments)
        assert said.startswith(f"'settings.toml': {name} must be a name, not ")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--learning-rate", "nan"], "learning_rate must be a finite number above zero, not nan."),
        (["--learning-rate", "0"], "learning_rate must be a finite number above zero, not 0.0."),
        (["--learning-rate", "-1"], "learning_rate must be a finite number above zero, not -1.0."),
        (
            ["--method", "hpg+b", "--baseline-learning-rate", "inf"],
            "baseline_learning_rate must be a finite number above zero, not inf.",
        ),
        (["--batch-size", "0"], "batch_size must be a whole number of at least 1, not 0."),
        (["--runs", "-2"], "runs must be a whole number of at least 1, not -2."),
        (["--batches", "0"], "batches must be a whole number of at least 1, not 0."),
        (["--evaluate-every", "0"], "evaluate_every must be a whole number of at least 1, not 0."),
        (["--until-success", "95"], "until_success must be a number above 0 and at most 1, not 95.0."),
        (["--minutes", "0"], "minutes must be a finite number above zero, not 0.0."),
        (["--hidden-layers", "16", "0"], "each width in hidden_layers must be a whole number of at least 1, not 0."),
        (["--seed", "-1"], "seed must lie between 0 and 4294967295, not -1."),
        (["--resume"], "--resume needs --output"),
        (["--keep-every", "3", "--evaluate-every", "2"], "keep_every must be a multiple of evaluate_every (2), not 3."),
    ],
)
def test_impossible_setting_is_named(refusal: Refusal, flags: list[str], words: str) -> None:
    assert words in refusal("train", ENVIRONMENT, *flags)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("###\n###\n", "The map has no free cell."),
        ("S#.\n##.\n", "The goal in row 0, column 2 cannot be reached from the start in row 0, column 0."),
        ("S..\n....\n", "line 1 has 3 cells, line 2 has 4"),
        ("...\n...\n", "The map has no start cell"),
        ("S..\n.x.\n", "The map holds 'x'"),
        ("", "The map is empty."),
        ("horizon: 3\nS...\n", "is 3 steps away from the start in row 0, column 0, but a horizon of 3 allows 2."),
    ],
)
def test_map_that_cannot_be_used_is_explained(refusal: Refusal, tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "map.txt").write_text(content)
    assert words in refusal("train", "grid:map.txt")
    assert words in refusal("train", "grid", "--map", "map.txt", "--output", "run")


def test_map_that_is_not_there(refusal: Refusal) -> None:
    assert refusal("train", "grid:no.txt") == "The map file 'no.txt' cannot be read: No such file or directory."
    assert "needs a map file" in refusal("train", "grid")


def test_environment_of_impossible_size_makes_no_folder(refusal: Refusal) -> None:
    assert "1 to 120 bits, not 199" in refusal("train", "bit-flipping-199")


def test_folder_of_a_different_run_is_refused(refusal: Refusal, copied: Path) -> None:
    before = bytes_in(copied)
    for flags in (["--seed", "5"], ["--seed", "5", "--resume"]):
        message = refusal("train", ENVIRONMENT, *small_flags(runs=2), "--output", str(copied), *flags)
        assert message == f"'{copied}' already holds a different run (seed 0, not 5): choose another output folder."
    message = refusal("train", "bit-flipping-3", *small_flags(runs=2), "--output", str(copied), "--resume")
    assert "environment bit-flipping-4, not bit-flipping-3" in message
    assert bytes_in(copied) == before


def test_folder_of_the_same_run_needs_resume(refusal: Refusal, copied: Path) -> None:
    before = bytes_in(copied)
    message = refusal("train", ENVIRONMENT, *small_flags(runs=2), "--output", str(copied))
    assert message == f"'{copied}' already holds this run: add --resume to go on, or choose another folder."
    assert bytes_in(copied) == before


@pytest.mark.parametrize("damage", [truncate, alter])
@pytest.mark.parametrize("command", ["evaluate", "render"])
def test_damaged_checkpoint_is_refused(
    refusal: Refusal, copied: Path, command: str, damage: Callable[[Path], None]
) -> None:
    damage(copied / "checkpoint.npz")
    before = bytes_in(copied)
    assert refusal(command, str(copied)).startswith(f"{copied / 'checkpoint.npz'} is damaged or not a checkpoint: ")
    assert bytes_in(copied) == before


@pytest.mark.parametrize("damage", [truncate, alter])
def test_damaged_checkpoint_is_not_resumed(
    last_sentence: Refusal, copied: Path, damage: Callable[[Path], None]
) -> None:
    damage(copied / "checkpoint.npz")
    before = bytes_in(copied)
    message = last_sentence("train", ENVIRONMENT, *small_flags(runs=2), "--output", str(copied), "--resume")
    assert message.startswith(f"{copied / 'checkpoint.npz'} is damaged or not a checkpoint: ")
    assert bytes_in(copied) == before


@pytest.mark.parametrize(
    ("flags", "lower"),
    [
        (["--batch-size", "10000000000"], "lower the batch size or the horizon."),
        (["--hidden-layers", "1000000", "1000000"], "the runs, the hidden layers, the horizon, the kept episodes, "),
        (["--runs", "1000000000"], "the hidden layers, the horizon, the kept episodes, the pairs or the minibatch."),
        (["--method", "dqn", "--runs", "1000000000"], "layers, the horizon or the capacity of the replay buffer."),
        (["--evaluation-episodes", "1000000000000"], "lower the evaluation episodes."),
    ],
)
def test_what_cannot_fit_into_memory_is_refused_before_anything_is_made(
    refusal: Refusal, flags: list[str], lower: str
) -> None:
    said = refusal("train", ENVIRONMENT, *flags)
    assert said.startswith("This needs at least ")
    assert lower in said


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("hpg", "This needs at least 512.0 GB of memory, and "),
        ("hppo", "Compiled programs cannot count 4000000000 actions: lower the horizon."),
        ("dqn+her", "The replay buffer must hold at least one episode, which here has up to 1999999998 transitions, "),
    ],
)
def test_episodes_that_never_end_are_refused(refusal: Refusal, tmp_path: Path, method: str, said: str) -> None:
    (tmp_path / "map.txt").write_text("horizon: 1000000000\nS...\n....\n")
    found = refusal("train", "grid:map.txt", "--method", method)
    assert found.startswith(said)
    assert "horizon" in found or "capacity" in found


@pytest.mark.parametrize("command", ["evaluate", "render"])
def test_more_episodes_than_fit_into_memory_are_refused(refusal: Refusal, copied: Path, command: str) -> None:
    said = refusal(command, str(copied), "--episodes", str(10**15))
    assert said.startswith("This needs at least 17,000,000.0 GB of memory, and ")
    assert said.endswith(" can be had: lower the episodes.")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError("too large"), "The memory does not suffice (MemoryError: too large): lower the batch size, "),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory"), "The memory does not suffice (RuntimeError: RESOURCE"),
        (RuntimeError("INTERNAL: Out of memory allocating 9 bytes"), "The memory does not suffice (RuntimeError: INT"),
        (OverflowError("Python integer 3000000000 out of bounds for int32"), "This is more than 32 bits can count ("),
        (PermissionError(13, "Permission denied", "a/b"), "The system refused: Permission denied ('a/b')."),
        (RuntimeError("Unable to initialize backend 'x'\nmore"), "JAX cannot start (RuntimeError: Unable to init"),
    ],
)
def test_a_fault_of_the_machine_is_a_sentence(
    refusal: Refusal, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fail(command: Methods) -> None:
        raise error

    monkeypatch.setattr(Methods, "run", fail)
    assert refusal("methods").startswith(said)


@pytest.mark.parametrize("command", ["evaluate", "render"])
def test_missing_checkpoint_is_named(refusal: Refusal, copied: Path, command: str) -> None:
    (copied / "checkpoint.npz").unlink()
    assert refusal(command, str(copied)) == f"There is no file {copied / 'checkpoint.npz'}."
    (copied / "settings.json").unlink()
    holds = "it has no settings.json, policy.npz or policies/*.npz."
    assert refusal(command, str(copied)) == f"'{copied}' holds no policies: {holds}"
    assert refusal(command, "nowhere") == "There is no file or folder 'nowhere'."


@pytest.mark.parametrize("number", ["2", "-1"])
def test_policy_number_out_of_range(refusal: Refusal, copied: Path, number: str) -> None:
    assert refusal("render", str(copied), "--policy", number) == f"'{copied}' holds the runs 0 to 1, not {number}."


@pytest.mark.parametrize(("flag", "ending"), [("--output", ".gif"), ("--video", ".mp4")])
def test_a_picture_has_the_name_of_what_it_is(refusal: Refusal, copied: Path, flag: str, ending: str) -> None:
    said = refusal("render", str(copied), flag, "picture.png")
    assert said == f"'picture.png' must end in {ending}, which is what is written."


def test_more_episodes_than_anybody_looks_at(refusal: Refusal, copied: Path) -> None:
    said = refusal("render", str(copied), "--episodes", "10001")
    assert said == "Nobody looks at 10,001 episodes: at most 10,000 are shown."


@pytest.mark.parametrize("command", ["evaluate", "render"])
def test_no_episodes_are_too_few(refusal: Refusal, copied: Path, command: str) -> None:
    assert refusal(command, str(copied), "--episodes", "0") == "episodes must be at least 1, not 0."


def test_second_writer_is_refused(last_sentence: Refusal, copied: Path) -> None:
    with claimed_by_another_process(copied):
        message = last_sentence("train", ENVIRONMENT, *small_flags(runs=2), "--output", str(copied), "--resume")
    assert message == f"Another process is writing to '{copied}'."


def test_output_that_is_a_file_is_refused(last_sentence: Refusal, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    message = last_sentence("train", ENVIRONMENT, *small_flags(), "--output", str(tmp_path / "file"))
    assert message == f"The output folder '{tmp_path / 'file'}' cannot be used: File exists."
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("arguments", [["trian"], ["train", "bit-fliping-4"], ["train", ENVIRONMENT, "--runs", "0"]])
def test_installed_program_ends_the_same_way(compiled_programs: Path, tmp_path: Path, arguments: list[str]) -> None:
    done = run_program(arguments, compiled_programs, tmp_path)
    assert done.returncode != 0
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert sentence(done.stderr)
    assert list(tmp_path.iterdir()) == []
