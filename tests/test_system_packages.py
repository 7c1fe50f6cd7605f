"""The script that installs system packages: silent when there is nothing to do, plain when it may not."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "install_system_packages.sh"
SHELL = shutil.which("sh") or "/bin/sh"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs that only note that they were called; the script sees no others."""
    return tmp_path


def pretend(programs: Path, name: str, answer: str = "") -> None:
    stub = programs / name
    stub.write_text(f'#!{SHELL}\necho "{name} $*" >>"{programs}/calls"\n{answer}\n')
    stub.chmod(0o755)


def run(programs: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(programs)}
    return subprocess.run([SHELL, str(SCRIPT)], env=environment, capture_output=True, text=True, check=False)


def calls(programs: Path) -> list[str]:
    path = programs / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_silent_when_all_is_there(programs: Path) -> None:
    for name in ("chromium", "apt-get", "sudo", "id"):
        pretend(programs, name)
    result = run(programs)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert calls(programs) == []


def test_root_installs_what_is_missing(programs: Path) -> None:
    pretend(programs, "apt-get")
    pretend(programs, "id", "echo 0")
    pretend(programs, "env", 'shift; exec "$@"')
    assert run(programs).returncode == 0
    installed = [call for call in calls(programs) if call.startswith("apt-get install")]
    assert installed == ["apt-get install --yes --no-install-recommends -qq chromium"]


def test_others_are_told_what_to_run(programs: Path) -> None:
    pretend(programs, "apt-get")
    pretend(programs, "id", "echo 1000")
    result = run(programs)
    assert result.returncode == 1
    assert "needs administrator rights" in result.stderr
    assert "apt-get install --yes --no-install-recommends chromium" in result.stderr
    assert not [call for call in calls(programs) if call.startswith("apt-get")]


def test_sudo_is_used_where_it_is(programs: Path) -> None:
    pretend(programs, "apt-get")
    pretend(programs, "id", "echo 1000")
    pretend(programs, "sudo")
    assert run(programs).returncode == 0
    assert [call.split()[:2] for call in calls(programs) if call.startswith("sudo")] == [
        ["sudo", "apt-get"],
        ["sudo", "env"],
    ]


def test_failed_installation_says_so(programs: Path) -> None:
    pretend(programs, "apt-get", "exit 100")
    pretend(programs, "id", "echo 0")
    result = run(programs)
    assert result.returncode == 1
    assert "Could not install chromium." in result.stderr


def test_systems_without_apt(programs: Path) -> None:
    result = run(programs)
    assert result.returncode == 1
    assert "no apt-get" in result.stderr
