"""`hindsight train` as a command: its flags are the settings of the run, the environment and the method."""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from tyro.conf import Positional, arg

from hindsight_rl.cli.commands import Check, On, RayWorkers
from hindsight_rl.cli.policy_commands import Switch
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.options import Option, described
from hindsight_rl.core.run import EARLIER_ENDS, RunSettings
from hindsight_rl.environments.registry import all_environments
from hindsight_rl.experiments.configuration import Names, names, read_configuration, refused, resolve, settable
from hindsight_rl.experiments.definition import SETTINGS, Job, load_job
from hindsight_rl.methods.registry import all_methods, find_method
from hindsight_rl.training.settings import DEFAULT_METHOD


@dataclass(frozen=True)
class TrainOwn:
    """Train an agent into a run folder, which the other commands look at."""

    config: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(optional)")] = None
    """Read settings from a TOML file, as --print-config writes it; flags win over it."""
    print_config: Switch = False
    """Print all settings as TOML and train nothing."""
    output: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="(default: a new one below runs/)")] = None
    """Where the run goes."""
    resume: Switch = False
    """Go on with the run in the output folder, to the very same numbers as without the stop."""
    json: Switch = False
    """Print one machine-readable summary on standard output."""
    keep_every: Annotated[int | None, arg(metavar="BATCHES", help_behavior_hint="(default: only the newest)")] = None
    """Also keep the checkpoint of every so many batches; a multiple of the batches between evaluations."""
    keep: tuple[Literal["best", "last"], ...] = ("best", "last")
    """Which policies stay: the last one with all that it takes to go on, and the best of each run by evaluation."""
    until_success: Annotated[float | None, arg(metavar="RATE", help_behavior_hint="(optional)")] = None
    """End once every run's newest success rate is at least this, such as 0.95; --resume without it goes on."""
    minutes: Annotated[float | None, arg(metavar="MINUTES", help_behavior_hint="(optional)")] = None
    """End at the first evaluation after so many minutes; --resume goes on."""
    tensorboard: Switch = False
    """Also write TensorBoard event files, into the run folder's tensorboard/."""
    workers: RayWorkers = None
    """What plays a hosted environment: so many processes, or ray:32 for actors on a cluster; same numbers."""
    on: On = None
    """Where ray: workers are: ray (started here), auto (the cluster of this machine), HOST:PORT or ray://HOST:PORT."""


EARLIER_FLAGS = ("--horizon", "--horizons")


class Asked(NamedTuple):
    """What can be told of a command line before its flags are known."""

    environment: str | None
    method: str
    config: dict[str, Any]
    """The settings in the file that was named."""
    held: Job | None
    """The job in the folder that was named, to go on with."""
    flags: frozenset[str]
    """The settings that stand on the command line."""


def look_ahead(arguments: Sequence[str]) -> Asked:
    """Find environment and method, which decide what other flags there are."""
    found = dict(_values(arguments))
    config = read_configuration(Path(found["--config"])) if "--config" in found else {}
    held, output = None, found.get("--output")
    if "--resume" in found and output and (Path(output) / SETTINGS).exists():
        held = load_job(Path(output))
    method = found.get("--method") or config.get("method") or (held.settings.method if held else DEFAULT_METHOD)
    environment = found.get("") or config.get("environment")
    flags = frozenset(flag.removeprefix("--").removeprefix("no-").replace("-", "_") for flag in found)
    flags |= frozenset(flag.removeprefix("--").replace("-", "_") for flag in found)
    return Asked(environment, str(method), config, held, flags)


def _values(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each flag with the word behind it, and the first word that belongs to no flag under the name of nothing."""
    switches = {one.flag for one in _every_option() if one.bare is bool}
    switches |= {"--print-config", "--resume", "--json", "--tensorboard", "-h", "--help"}
    waiting, first = "", True
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        if flag.startswith("-") and not _is_number(flag):
            flag = flag.replace("_", "-")
            yield flag, value
            positive = flag.replace("--no-", "--", 1)
            waiting = "" if equals or flag in switches or positive in switches else flag
        elif waiting:
            yield waiting, argument
            waiting = ""
        elif first and not _is_number(argument):
            yield "", argument
            first = False


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", word) is not None


def _every_option() -> Iterator[Option]:
    for row in all_methods().values():
        yield from row.visible
    for entry in all_environments().values():
        yield from described(entry.options)


def modernised(arguments: Sequence[str]) -> list[str]:
    """The arguments with today's flags; `--horizon paper` and `--horizon full` were once about when episodes end."""
    joined = [part for argument in arguments for part in _parted(argument)]
    result: list[str] = []
    for position, argument in enumerate(joined):
        following = joined[position + 1] if position + 1 < len(joined) else ""
        if argument in EARLIER_FLAGS and following in EARLIER_ENDS:
            print(f"hindsight: {argument} {following} is now {_ends(following)}.", file=sys.stderr)
            argument = "--episodes-end"
        elif argument in EARLIER_ENDS and result[-1:] and result[-1] in ("--episodes-end", *EARLIER_ENDS.values()):
            argument = EARLIER_ENDS[argument]
        result.append(argument)
    return result


def _ends(earlier: str) -> str:
    return f"--episodes-end {EARLIER_ENDS[earlier]}"


def _parted(argument: str) -> list[str]:
    flag, _, value = argument.partition("=")
    return [flag, value] if flag in EARLIER_FLAGS and value in EARLIER_ENDS else [argument]


def train_class(arguments: Sequence[str]) -> type:
    """The dataclass that parses a command line: `hindsight train`'s own flags and those of all settings that apply."""
    asked = look_ahead(arguments)
    find_method(asked.method)
    known, defaults = _known(asked)
    titles = {
        "run": "What every run is told.",
        "environment": f"What {asked.environment} can be told.",
        "method": f"What {asked.method} can be told; another --method has other options.",
    }
    hint = f"(default: {asked.method})"
    fields: list[Any] = [
        ("environment", Annotated[Positional[str], arg(metavar="ENVIRONMENT", help=_ENVIRONMENT)]),
        ("method", Annotated[str, arg(metavar="NAME", help=_METHOD, help_behavior_hint=hint)], asked.method),
    ]
    if asked.environment is not None:
        fields[0] = (*fields[0], asked.environment)
    for name, options in known._asdict().items():
        if options:
            group = make_dataclass(name, [_field(one, defaults) for one in options], frozen=True)
            group.__doc__ = titles[name]
            fields.append((f"{name}_options", Annotated[group, arg(name=name)], field(default_factory=group)))
    made = make_dataclass("Train", fields, bases=(TrainOwn,), frozen=True, kw_only=True)
    made.__doc__ = _DOC
    made.asked = asked  # type: ignore[attr-defined]
    made.known = known  # type: ignore[attr-defined]
    made.run = _run  # type: ignore[attr-defined]
    return made


def check_class(arguments: Sequence[str]) -> type:
    """`hindsight check` with the flags of the environment that is named."""
    name = dict(_values(arguments)).get("")
    options = settable(name) if name else ()
    if not options:
        return Check
    group = make_dataclass("environment", [_field(one, {}) for one in options], frozen=True)
    group.__doc__ = f"What {name} can be told."
    fields: list[Any] = [("told", Annotated[group, arg(name="environment")], field(default_factory=group))]
    made = make_dataclass("Check", fields, bases=(Check,), frozen=True)
    made.__doc__ = Check.__doc__
    told = {flag.removeprefix("--no-").removeprefix("--").replace("-", "_") for flag, _ in _values(arguments)}
    given_names = [one.name for one in options if one.name in told]
    made.options = property(  # type: ignore[attr-defined]
        lambda command: {name: getattr(command.told, name) for name in given_names}
    )
    return made


_DOC = (
    "Train an agent into a run folder. What is not given suits environment and method; the paper's methods have the "
    "paper's settings."
)
_ENVIRONMENT = (
    "Such as bit-flipping-8, four-rooms, grid:maze.txt, gym:FetchReach-v4, or your own as my_module:MyEnvironment; "
    "`hindsight environments` lists them."
)
_METHOD = "Such as hppo or hpg, or your own as my_module:my_method; `hindsight methods` lists them."


def _known(asked: Asked) -> tuple[Names, dict[str, Any]]:
    """The settings that apply, and the values that they have unless a flag says otherwise."""
    if asked.environment is None:
        known = Names(described(RunSettings), (), find_method(asked.method).visible)
        return known, {one.name: one.default for group in known for one in group}
    known = names(asked.environment, asked.method)
    if asked.held is not None and asked.held.settings.method == asked.method:
        return known, {**asked.held.environment.options, **asked.held.settings.flat}
    try:
        job = resolve(asked.environment, {**_settings(asked.config), "method": asked.method})
    except HindsightError:  # perhaps for want of what a flag says; otherwise it is said again when that is parsed
        return known, {one.name: one.default for group in known for one in group}
    return known, {**job.environment.options, **job.settings.flat}


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != "environment"}


def _field(option: Option, defaults: dict[str, Any]) -> tuple[str, Any, Any]:
    default, kind = defaults.get(option.name, option.default), option.bare
    shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
    hint = f"(default: {shown})"
    if default is None:
        hint = "(required)" if option.required else "(optional)"
    if kind is bool:
        hint = f"(default: {'yes' if default else 'no'})"
        # Both --x and --no-x: the default may come from a file, or from the run that goes on.
        return option.name, Annotated[bool, arg(help=option.help, help_behavior_hint=hint)], default
    metavar = {int: "INT", float: "NUMBER", str: "TEXT"}.get(kind, "VALUE")
    if get_origin(kind) is Literal:
        metavar = "{" + ",".join(map(str, get_args(kind))) + "}"
    elif get_origin(kind) is tuple:
        kind, metavar = tuple[int, ...], "INT [INT ...]"
    kind = int | float | str if kind is Any else kind  # an argument whose type nobody says
    typed = kind | None if option.may_be_none or option.required else kind
    return option.name, Annotated[typed, arg(metavar=metavar, help=option.help, help_behavior_hint=hint)], default


def refuse_flag(made: Any, flag: str) -> HindsightError:
    """The error for a flag that `hindsight train` does not have, given environment and method."""
    asked, known = made.asked, made.known
    name = flag.removeprefix("--").replace("-", "_")
    return refused(name, asked.environment or "the environment", asked.method, known, flag)


def given(command: Any) -> dict[str, Any]:
    """The settings that stand on the command line, and those of the file for which no flag does."""
    values: dict[str, Any] = {"method": command.method}
    for group in Names._fields:
        chosen = vars(command).get(f"{group}_options")
        for name in vars(chosen) if chosen else ():
            if name in command.asked.flags:
                values[name] = getattr(chosen, name)
    return {**_settings(command.asked.config), **values}


def _run(command: Any) -> None:
    """Train, with progress on standard error."""
    from hindsight_rl.cli.train import run_train

    run_train(command)
