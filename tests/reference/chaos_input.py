"""Trials on what people type and write: arguments, TOML, JSON, maps, and sizes that no machine has."""

import json
import random
from pathlib import Path

from reference.chaos import STUDY, Broken, Chaos, Trial, damage, loaded, spoken

TEXTS = ("settings.json", "summary.json", "versions.json")
VALUES: list[object] = [
    None,
    -1,
    0,
    2.5,
    10**30,
    "text",
    "",
    [],
    {},
    [[]],
    True,
    float("inf"),
    "[/b]",
    "a:b",
    "x" * 5000,
    "\x1b[31m",
]
WORDS = [
    "",
    "-1",
    "0",
    "1e999",
    "nan",
    "x" * 300,
    "\x1b[31m",
    "[/b]",
    "../..",
    "é",
    "--",
    "--seed",
    "all",
    "a:b",
    "0.5",
]
WORDS += [
    "\n",
    "x" * 100_000,
    "9" * 5000,
    "²",
    "ray://[::1",
    "=1+1",
    "zoo:",
    "gym:",
    "grid:",
    "gym:no_such_module:X-v0",
    "/dev/zero",
    "\udce9",
    "%s",
    "{}",
]
MAP = "horizon: 12\nS...\n.##.\n....\n...G\n"


def mutated(value: object, draw: random.Random) -> object:
    """JSON with one thing in it replaced, removed or of another type."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        key = draw.choice(sorted(value))
        if draw.random() < 0.15:
            return {name: one for name, one in value.items() if name != key}
        return {**value, key: mutated(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.5:
        return [mutated(value[0], draw), *value[1:]]
    return draw.choice(VALUES)


def mutated_json(chaos: Chaos) -> bool:
    """JSON files of a run with something else in them: a sentence, or the same numbers."""
    folder = chaos.copy(chaos.run)
    name = chaos.random.choice(TEXTS)
    content = json.loads((folder / name).read_text())
    changed = mutated(content, chaos.random)
    (folder / name).write_text(json.dumps(changed))
    verdict, _ = spoken(["verify", str(folder)])
    codes = [verdict, loaded(chaos, folder)]
    command = chaos.random.choice(
        [["diagnose"], ["runs"], ["compare", str(chaos.run)], ["compare", str(chaos.study)], []]
    )
    if command:
        codes.append(spoken([*command, str(folder)])[0])
    if name == "settings.json" and changed != content and 0 in codes[:2]:
        raise Broken(f"silent: settings of {changed} were believed")
    return any(codes)


def mutated_arguments(chaos: Chaos) -> bool:
    """Arguments replaced, dropped and doubled, without training: a sentence or a configuration."""
    draw = chaos.random
    run, toml = str(chaos.run), str(chaos.home / "study.toml")
    arguments = draw.choice(
        [
            [*chaos.training(chaos.run), "--print-config"],
            ["train", "four-rooms", "--method", "hppo", "--seed", "3", "--print-config"],
            ["train", "grid", "--map", "x.txt", "--print-config"],
            ["study", "plan", toml, "--skip-measurement", "--runs", "2"],
            ["study", "export", str(chaos.study), "--output", str(chaos.home / "other.csv")],
            ["study", "merge", str(chaos.study), "--output", str(chaos.home / "merged")],
            ["verify", run],
            ["diagnose", run],
            ["runs", str(chaos.home), "--json"],
            ["compare", run, str(chaos.study)],
            ["evaluate", run, "--episodes", "0"],
            ["render", run, "--episodes", "0"],
            ["gradients", "bit-flipping-3", "--samples", "0", "--batch-sizes", "0"],
            ["export", run, "--formats", "npz", "--output", str(chaos.home / "exported")],
            ["methods", "hpg"],
            ["environments", "four-rooms"],
            ["zoo"],
        ]
    )
    # What is behind these would go on to train, to play or to wait.
    guard = {"train": ["--print-config"], "evaluate": ["--episodes", "0"], "render": ["--episodes", "0"]}
    guard["gradients"] = ["--samples", "0"]
    last = guard.get(arguments[0], [])
    for _ in range(draw.randrange(1, 3)):
        if len(arguments) < 2:
            break
        spot = draw.randrange(1, len(arguments))
        new = draw.choice([[draw.choice(WORDS)], [draw.choice(WORDS)], [], [arguments[spot]] * 2])
        arguments = [*arguments[:spot], *new, *arguments[spot + 1 :]]
    return bool(spoken([*arguments, *last])[0])


TOML_VALUES = ["-1", "[]", '"x"', "1e999", "9" * 5000, "[" * 3000, "{}", "true", "[[1]]", '["[/b]"]', "99999999999999"]
TOML_VALUES += ["nan", '""', "2.5", "{ a = 1 }", "1979-05-27", '"a:b"', '"\\u001b[31m"']
SETTINGS = """
environment = "bit-flipping-4"
method = "hppo"
hidden_layers = [16]
kept_episodes = 32
critic = "actions"
batch_size = 8
batches = 20
learning_rate = 1e-3
normalise = false
"""


def mutated_toml(chaos: Chaos) -> bool:
    """A damaged file of a study or of settings: a sentence, or a plan or a configuration."""
    path, draw = chaos.home / "damaged.toml", chaos.random
    study = draw.random() < 0.5
    text = STUDY if study else SETTINGS
    if draw.random() < 0.5:
        path.write_bytes(damage(text.encode(), draw))
    else:
        lines = text.strip().splitlines()
        spot = draw.randrange(len(lines))
        lines[spot] = f"{lines[spot].partition('=')[0]}= {draw.choice(TOML_VALUES)}"
        path.write_text("\n".join(lines))
    plan, train = ["study", "plan", str(path), "--skip-measurement"], ["train", "--config", str(path), "--print-config"]
    return bool(spoken(plan if study else train)[0])


def mutated_map(chaos: Chaos) -> bool:
    """A damaged map: a sentence or a configuration."""
    path = chaos.home / "map.txt"
    path.write_bytes(damage(damage(MAP.encode(), chaos.random) or b"S", chaos.random))
    return bool(spoken(["train", f"grid:{path}", "--print-config"])[0])


SIZES = [
    ["--batch-size"],
    ["--runs"],
    ["--evaluation-episodes"],
    ["--hidden-layers"],
    ["--method", "dqn+her", "--capacity"],
    ["--method", "hpg+b", "--batch-size"],
    ["--method", "hppo", "--batch-size"],
    ["--method", "hppo", "--kept-episodes"],
    ["--method", "hppo", "--pairs"],
    ["--method", "hppo", "--minibatch"],
]


def too_large(chaos: Chaos) -> bool:
    """Sizes that cannot fit: refused before anything is made, with the need and what to lower."""
    draw = chaos.random
    folder = chaos.empty("large")
    flags = draw.choice(SIZES)
    size = str(10 ** draw.randrange(12, 25))
    if draw.random() < 0.2:
        code, said = spoken([draw.choice(["evaluate", "render"]), str(chaos.run), "--episodes", size])
        if not code:
            raise Broken(f"memory: {size} episodes were not refused: {said[-1000:]}")
        return True
    values = [size, size] if "--hidden-layers" in flags else [size]
    environment = draw.choice(["bit-flipping-8", "four-rooms", "empty-room"])
    code, said = spoken(["train", environment, "--method", "hpg", *flags, *values, "--output", str(folder)])
    if not code or Path(folder).exists():
        raise Broken(f"memory: {' '.join(flags)} {size} was not refused: {said[-1000:]}")
    return True


INPUT: dict[str, Trial] = {
    "mutated JSON": mutated_json,
    "mutated arguments": mutated_arguments,
    "mutated TOML": mutated_toml,
    "mutated map": mutated_map,
    "too large": too_large,
}
