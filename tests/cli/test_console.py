"""What is printed is shown, and steers no terminal."""

import pytest
from rich.table import Table

from hindsight_rl.cli.console import PlainConsole


def test_names_with_escape_codes_are_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    name = "\x1b[31m[red]x\x07"
    table = Table(name)
    table.add_row(name)
    console = PlainConsole()
    console.print(f"Study {name}", soft_wrap=True)
    console.print(table)
    said = capsys.readouterr().out
    assert said.count("\\x1b[31m[red]x\\x07") == 3
    assert "\x1b" not in said
