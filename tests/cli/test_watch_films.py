"""Films of newest policies on the live page: made beside the server, and nothing of a stranger's is run for them."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_jobs import bytes_in

from hindsight_rl.analysis.live.views import Watcher
from hindsight_rl.cli.watch_films import FilmMaker

PATIENCE = 120.0


@pytest.fixture
def maker() -> Iterator[FilmMaker]:
    made = FilmMaker()
    yield made
    made.close()


def wait_for_film(watcher: Watcher, name: str, other_than: Path | None = None) -> Path:
    """Ask as the page does, until it has the film."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        detail = watcher.detail(name)
        assert detail is not None
        if "newest policy.gif" in [film["file"] for film in detail["films"]]:
            film = watcher.film(name, "newest policy.gif")
            assert film is not None
            if film != other_than:
                return film
        time.sleep(0.1)
    raise AssertionError("no film came")


def test_a_run_is_filmed_beside_its_folder_and_again_after_a_checkpoint(maker: FilmMaker, copied: Path) -> None:
    before = bytes_in(copied)
    watcher = Watcher(copied.parent, maker.film_of)
    first = wait_for_film(watcher, "copied")
    film = first.read_bytes()
    assert film.startswith(b"GIF8")
    assert not first.is_relative_to(copied.parent)
    assert bytes_in(copied) == before
    os.utime(copied / "checkpoint.npz", (1, 1))
    second = wait_for_film(watcher, "copied", other_than=first)
    assert second.read_bytes() == film
    assert not first.exists()
    maker.close()
    assert not second.exists()


@pytest.mark.parametrize("where", ["environment", "method"])
def test_a_strangers_code_is_not_run(maker: FilmMaker, copied: Path, where: str) -> None:
    touched = copied.parent / "touched"
    (copied.parent / "hostile.py").write_text(f"open({str(touched)!r}, 'w')")
    settings = json.loads((copied / "settings.json").read_text())
    settings[where]["name"] = "hostile:thing"
    (copied / "settings.json").write_text(json.dumps(settings))
    watcher = Watcher(copied.parent, maker.film_of)
    watcher.detail("copied")
    if maker._work is not None:
        assert maker._work.process.wait(PATIENCE) == 2
    detail = watcher.detail("copied")
    assert detail is not None
    assert detail["films"] == []
    assert not touched.exists()
