"""The commands: each a frozen dataclass whose fields are its arguments, with a method `run`."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import FlagCreatePairsOff, Positional, arg

from hindsight_rl.training.settings import Ended, Horizon, InitialWeights, Relabelling, Settings

PAPER = "(default: the paper's)"
Count = Annotated[int | None, arg(metavar="INT", help_behavior_hint=PAPER)]
Switch = FlagCreatePairsOff[bool]
Workers = Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: one for each core)")]


@dataclass(frozen=True)
class Train:
    """Train an agent into a run folder. What is not given is the paper's setting for the environment and batch size."""

    environment: Annotated[Positional[str], arg(metavar="ENVIRONMENT")]
    """Such as bit-flipping-8, empty-room, four-rooms, or grid:maze.txt; `hindsight environments` lists them."""
    method: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="(default: hpg)")] = None
    """Such as hpg or gcpg; `hindsight methods` lists them."""
    batch_size: Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: 16)")] = None
    """Episodes collected for each update."""
    batches: Count = None
    """Updates in each run."""
    evaluate_every: Count = None
    """Batches between evaluations; must divide the number of batches."""
    evaluation_episodes: Count = None
    """Greedy episodes in each evaluation."""
    learning_rate: Annotated[float | None, arg(metavar="FLOAT", help_behavior_hint="(default: the best found)")] = None
    """Adam's step size for the policy."""
    baseline_learning_rate: Annotated[float | None, arg(metavar="FLOAT", help_behavior_hint="(default: 0.001)")] = None
    """Adam's step size for the baseline, where the method has one."""
    runs: Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: 1)")] = None
    """Independent runs, trained side by side."""
    seed: Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: 0)")] = None
    """Seed of the first run; the others follow it one by one."""
    hidden_layers: Annotated[
        tuple[int, ...] | None, arg(metavar="INT [INT ...]", help_behavior_hint="(default: 256 256)")
    ] = None
    """Width of each hidden layer of the networks."""
    max_active_goals: Count = None
    """Active goals drawn from each episode; all of them, where the paper takes all."""
    horizon: Annotated[Horizon | None, arg(metavar="{paper,full}", help_behavior_hint="(default: paper)")] = None
    """paper: reaching the pursued goal ends the episode. full: the agent acts on to the horizon (unbiased)."""
    ended: Annotated[Ended | None, arg(metavar="{drop,carry}", help_behavior_hint="(default: drop)")] = None
    """What an ended episode adds to the normaliser. drop: nothing (as published). carry: its last ratio."""
    initial_weights: Annotated[
        InitialWeights | None, arg(metavar="{narrow,scaled}", help_behavior_hint="(default: the paper's)")
    ] = None
    """narrow: normal with deviation 0.01. scaled: uniform with variance 2 / (inputs + outputs)."""
    normalise: Switch = False
    """Show the networks observations and goals with running mean 0 and deviation 1."""
    reward_offset: Annotated[float | None, arg(metavar="NUMBER", help_behavior_hint="(default: 0)")] = None
    """Added to every reward that the agent learns from; 1 turns -1 and 0 into 0 and 1."""
    skip_reached: Switch = False
    """For policy gradients: an episode teaches nothing about a goal that its first state reaches."""
    share_places: Switch = False
    """For policy gradients: an active goal weighs one over the number of active goals that reach it."""
    relabelling: Annotated[
        Relabelling | None, arg(metavar="{final,future,episode}", help_behavior_hint="(default: final)")
    ] = None
    """For dqn+her: relabel with the goal that the episode reached last, with later ones, or with any of it."""
    relabelled_goals: Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: 1)")] = None
    """For dqn+her: goals that each transition is relabelled with."""
    replay_capacity: Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: 1000000)")] = None
    """For dqn: the most transitions in the buffer, relabelled ones included."""
    epsilon: Annotated[float | None, arg(metavar="FLOAT", help_behavior_hint="(default: 0.2)")] = None
    """For dqn: the probability of a random action while exploring."""
    discount: Annotated[float | None, arg(metavar="FLOAT", help_behavior_hint="(default: 0.98)")] = None
    """For dqn: what the next value counts for."""
    gradient_steps: Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: 40)")] = None
    """For dqn: minibatches after each batch of episodes."""
    minibatch_size: Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: 128)")] = None
    """For dqn: transitions in a minibatch."""
    beyond_horizon: Switch = False
    """For dqn: let the next value count after the last action too, as if the episode went on."""
    output: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="(default: a new one below runs/)")] = None
    """Where the run goes."""
    resume: Switch = False
    """Go on with the run in the output folder, to the very same numbers as without the stop."""
    json: Switch = False
    """Print one machine-readable summary on standard output."""
    keep_every: Annotated[int | None, arg(metavar="BATCHES", help_behavior_hint="(default: only the newest)")] = None
    """Also keep the checkpoint of every so many batches; a multiple of the batches between evaluations."""
    tensorboard: Switch = False
    """Also write TensorBoard event files, into the run folder's tensorboard/."""
    workers: Workers = None
    """Processes that play a hosted environment; the numbers do not depend on it."""
    goal_box: Switch = False
    """For gym: learn only about goals within the box of those that the environment draws."""
    map: Annotated[str | None, arg(metavar="FILE", help_behavior_hint="(for grid only)")] = None
    """The map file: lines of '#' (wall), '.' (free) and 'S' (start)."""

    def run(self) -> None:
        """Train, with progress on standard error."""
        from hindsight_rl.cli.train import run_train

        run_train(self)

    @property
    def given(self) -> dict[str, Any]:
        """The settings that the user chose; a switch that is off was not chosen."""
        names = [field.name for field in fields(Settings)]
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None and value is not False}


@dataclass(frozen=True)
class Evaluate:
    """Evaluate the greedy policies of a run folder on fresh episodes."""

    folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """A folder that `hindsight train` made."""
    episodes: int = 1000
    """Episodes for each policy."""
    seed: int = 12345
    """Seed of the episodes."""
    workers: Workers = None
    """Processes that play a hosted environment; the numbers do not depend on it."""
    json: Switch = False
    """Print the results as JSON."""

    def run(self) -> None:
        """Evaluate and print a table."""
        from hindsight_rl.cli.inspect import run_evaluate

        run_evaluate(self)


@dataclass(frozen=True)
class Render:
    """Show greedy episodes of a run folder: text in the terminal and an animated GIF."""

    folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """A folder that `hindsight train` made."""
    policy: int = 0
    """Which of the folder's runs to show."""
    episodes: int = 5
    """Episodes to show."""
    seed: int = 12345
    """Seed of the episodes."""
    output: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: policy.gif in the folder)")] = None
    """The GIF to write."""
    video: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: policy.mp4 for hosted ones)")] = (
        None
    )
    """An MP4 film to write; hosted environments are shown in no other way."""

    def run(self) -> None:
        """Play, print and draw."""
        from hindsight_rl.cli.inspect import run_render

        run_render(self)


@dataclass(frozen=True)
class Gradients:
    """Measure how far estimated gradients are from the exact one: bias, variance, error, cosine, sample sizes."""

    environment: Annotated[Positional[str], arg(metavar="ENVIRONMENT")]
    """A finite environment: bit flipping with up to 10 bits, or any grid."""
    run_folder: Annotated[Path | None, arg(metavar="RUN", help_behavior_hint="(default: a fresh policy)")] = None
    """A folder that `hindsight train` made, to take the policy from."""
    checkpoint: Annotated[int | None, arg(metavar="BATCH", help_behavior_hint="(default: the newest)")] = None
    """Which of the checkpoints that `train --keep-every` left in the folder."""
    policy: int = 0
    """Which of the folder's runs."""
    estimators: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]", help_behavior_hint="(default: all)")] = ()
    """Which estimators to compare."""
    batch_sizes: tuple[int, ...] = (2, 16)
    """Episodes in a batch."""
    max_active_goals: Annotated[tuple[str, ...], arg(metavar="all|INT ...")] = ("all",)
    """Caps on the active goals of an episode."""
    horizons: tuple[Horizon, ...] = ("paper", "full")
    """Whether reaching the pursued goal ends an episode."""
    normalisers: tuple[Ended, ...] = ("drop", "carry")
    """What ended episodes count in weighted estimators."""
    samples: int = 200
    """Batches drawn for each row."""
    seed: int = 0
    """Seed of a fresh policy and of the batches."""
    hidden_layers: tuple[int, ...] = (256, 256)
    """Widths of a fresh policy's hidden layers."""
    output: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="(default: a new one below runs/)")] = None
    """Where gradients.csv, sample-sizes.csv and gradients.png go."""
    json: Switch = False
    """Print the measurements as JSON on standard output."""

    def run(self) -> None:
        """Measure, with progress on standard error."""
        from hindsight_rl.cli.gradients import run_gradients

        run_gradients(self)


@dataclass(frozen=True)
class Environments:
    """List the environments."""

    def run(self) -> None:
        """Print a table."""
        from hindsight_rl.cli.inspect import list_environments

        list_environments()


@dataclass(frozen=True)
class Methods:
    """List the methods."""

    def run(self) -> None:
        """Print a table."""
        from hindsight_rl.cli.inspect import list_methods

        list_methods()
