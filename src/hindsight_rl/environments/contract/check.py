"""All checks of an environment, compiled or hosted."""

from collections.abc import Iterator

from hindsight_rl.environments.contract.compiled import COMPILED, Walks
from hindsight_rl.environments.contract.findings import Broken, Check, Finding, run_checks
from hindsight_rl.environments.contract.hosted import HOSTED, Plays
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.interface import Environment, Task
from hindsight_rl.environments.registry import Specification


def check_environment(subject: Task | Specification, seed: int = 0) -> Iterator[Finding]:
    """Try whether an environment keeps to the contract: a finding for each check, as soon as it is made.

    Random walks and goals are drawn from the seed. Where a failed check leaves nothing to look at, it is the last one.
    """
    if isinstance(subject, Specification):
        for finding in run_checks([Check("can be made", _make)], subject):
            yield finding
            if not finding.passed:
                return
        subject = subject.task
    if isinstance(subject, HostedTask):
        with Plays(subject, seed) as plays:
            yield from run_checks(HOSTED, plays)
    elif isinstance(subject, Environment):
        yield from run_checks(COMPILED, Walks(subject, seed))
    else:
        yield from run_checks([Check("can be played", _neither)], subject)


def _make(specification: Specification) -> str:
    return f"{specification.id} is made as {type(specification.task).__name__}."


def _neither(task: object) -> str:
    raise Broken(f"{type(task).__name__} is neither an Environment, which compiles, nor a HostedTask.")
