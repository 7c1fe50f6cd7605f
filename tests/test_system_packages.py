"""The script that installs system packages: silent when there is nothing to do, plain when it may not."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "install_system_packages.sh"
SHELL = shutil.which("sh") or "/bin/sh"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs that only note that they were called; the script sees no others, and no library but EGL."""
    library = tmp_path / "lib" / "machine" / "libEGL.so.1"
    library.parent.mkdir(parents=True)
    library.touch()
    return tmp_path


def pretend(programs: Path, name: str, answer: str = "") -> None:
    stub = programs / name
    stub.write_text(f'#!{SHELL}\necho "{name} $*" >>"{programs}/calls"\n{answer}\n')
    stub.chmod(0o755)


def run(programs: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(programs), "LIBRARIES": str(programs / "lib")}
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


def test_what_draws_is_missing_where_there_is_no_egl(programs: Path) -> None:
    pretend(programs, "chromium")
    pretend(programs, "apt-get")
    pretend(programs, "id", "echo 1000")
    (programs / "lib" / "machine" / "libEGL.so.1").unlink()
    result = run(programs)
    assert result.returncode == 0
    assert result.stderr.startswith("Missing: libegl1 libgl1-mesa-dri. ")


@pytest.mark.parametrize("sudo", [False, True], ids=["no sudo", "sudo with a password"])
def test_others_are_told_what_to_run(programs: Path, sudo: bool) -> None:
    pretend(programs, "apt-get")
    pretend(programs, "id", "echo 1000")
    if sudo:
        pretend(programs, "sudo", "echo 'sudo: a password is required' >&2; exit 1")
    result = run(programs)
    assert result.returncode == 0, "tests that need no such package must go on"
    assert result.stderr.startswith("Missing: chromium. Tests that need it are skipped.\n")
    assert "needs administrator rights" in result.stderr
    assert "apt-get install --yes --no-install-recommends chromium" in result.stderr
    assert "password" not in result.stderr
    assert not [call for call in calls(programs) if call.startswith("apt-get")]
    assert [call for call in calls(programs) if call.startswith("sudo")] == (["sudo -n true"] if sudo else [])


def test_sudo_is_used_where_it_asks_no_password(programs: Path) -> None:
    pretend(programs, "apt-get")
    pretend(programs, "id", "echo 1000")
    pretend(programs, "sudo")
    assert run(programs).returncode == 0
    assert [call.split()[:3] for call in calls(programs) if call.startswith("sudo")] == [
        ["sudo", "-n", "true"],
        ["sudo", "-n", "apt-get"],
        ["sudo", "-n", "env"],
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
