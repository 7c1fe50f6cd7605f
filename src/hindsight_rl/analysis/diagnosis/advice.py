"""Which settings to try, spelled as on the command line; only those that the method has."""

from collections.abc import Callable, Mapping
from typing import Any

from hindsight_rl.analysis.diagnosis.runs import Setting

WITH_HINDSIGHT = {"ppo": "hppo", "gcpg": "hpg", "gcpg+b": "hpg+b", "dqn": "dqn+her"}
"""For each method that learns about the pursued goal alone, the same with hindsight."""

Change = Callable[[Any, Any], Any]
"""From the present value of an option and its default to one worth trying, or None."""


def times(factor: float, least: float = 0.0) -> Change:
    """So many times the present value, or the default where that lies further on; nothing where there is no value."""

    def changed(now: Any, default: Any) -> Any:
        if now is None:
            return None
        new = max(factor * now, least)
        if default is not None and (default > new if factor > 1 else default < new):
            return default
        return round(new) if isinstance(now, int) else float(f"{new:.2g}")

    return changed


def at_least(value: float) -> Change:
    """A value, unless the present one is as large."""
    return lambda now, default: value if now is None or now < value else None


def at_most(value: float) -> Change:
    """A value, unless the present one is as small."""
    return lambda now, default: value if now is None or now > value else None


def tried(setting: Setting, changes: Mapping[str, Change], *others: str) -> str:
    """`Try --entropy 0.2 (now 0.1), or ...`: of the options that the method has and that would change, and others."""
    found = []
    for name, change in changes.items():
        now = setting.options.get(name)
        new = change(now, setting.defaults.get(name)) if name in setting.options else None
        if new is not None and new != now:
            was = "" if now is None else f" (now {now:g})"
            found.append(f"--{name.replace('_', '-')} {new:g}{was}")
    return f"Try {', or '.join([*found, *others])}." if found or others else ""
