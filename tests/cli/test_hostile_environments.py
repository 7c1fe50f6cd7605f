"""Environments that raise what is meant for programs: one sentence, no traceback, and never an end without a word."""

from pathlib import Path

import pytest
from reference.chaos_stops import HOSTED
from small_jobs import sentence

from hindsight_rl.cli import main

pytestmark = pytest.mark.usefixtures("compiled_programs")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("ExitsPolitely", "The environment 'ExitsPolitely-v0' failed at step 1: SystemExit: 0."),
        ("Interrupts", "The environment raised KeyboardInterrupt: no message."),
        ("Loud", "The environment 'Loud-v0' failed at step 1: RuntimeError: very long very long "),
    ],
)
def test_what_an_environment_raises_is_a_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str, words: str
) -> None:
    environment = f"gym:reference.hostile:{kind}-v0"
    with pytest.raises(SystemExit) as stop:
        main(["train", environment, *HOSTED, "--output", str(tmp_path / "run")])
    assert stop.value.code == 2
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert sentence(said).startswith(words)
    assert len(said) < 5000
