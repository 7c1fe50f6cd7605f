"""Measurements that survive a stop: each is saved at once, and found again when the benchmark is started again."""

import json
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.files import make_folder, write_atomically

FOLDER = Path(__file__).parent / ".measured"


class Measurements:
    """A folder with a file for each measurement, which holds what was measured and how."""

    def __init__(self, name: str, say: Callable[[str], None] = print):
        self._folder, self._say = FOLDER / name, say
        make_folder(self._folder)

    def get(self, name: str, how: Mapping[str, Any], measure: Callable[[], Any]) -> Any:
        """What was measured under that name in the same way, or else what is measured now."""
        path = self._folder / f"{name}.json"
        way = json.loads(json.dumps({**how, "cores": os.cpu_count()}))
        if path.exists():
            kept = json.loads(path.read_text())
            if kept["how"] == way:
                return kept["measured"]
        self._say(f"  measuring {name}")
        busy = os.getloadavg()[0]
        content = {"how": way, "load_before": round(busy, 2), "measured": measure()}
        write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
        return json.loads(json.dumps(content["measured"]))

    def forget(self) -> None:
        """Measure everything again."""
        for path in self._folder.glob("*.json"):
            path.unlink()

    @property
    def busiest(self) -> float:
        """The largest load average before any measurement: much above 1 (our own) and something else was running."""
        loads = [json.loads(path.read_text())["load_before"] for path in self._folder.glob("*.json")]
        return max(loads, default=0.0)


def in_rounds(contestants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Measure the contestants in turn, again and again: what slows the machine down for a while slows all of them."""
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, measure in contestants.items():
            found[name].append(measure())
    return found


def middle_and_range(values: list[float], form: str = ".3g") -> str:
    """A median with the lowest and the highest beside it."""
    return f"{median(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def need(module: str) -> Any:
    """A module that only benchmarks need; what is missing is said in a sentence."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise HindsightError(
            f"This benchmark needs {module.partition('.')[0]}: .venv/bin/pip install -r benchmarks/requirements.txt."
        ) from None
