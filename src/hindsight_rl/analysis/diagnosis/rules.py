"""The rules: each looks at one run, and says what is wrong, by which figures, and what to try; or nothing.

docs/hppo.md says which runs the levels were chosen on.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hindsight_rl.analysis.diagnosis.advice import WITH_HINDSIGHT, Change, at_least, at_most, times, tried
from hindsight_rl.analysis.diagnosis.runs import RISE, Figure, RunRecord, Setting, number

HARDLY = 0.02
"""A share of goals so small that hardly any was achieved."""
STILL = 0.1
"""A share of episodes so small that what they achieve hardly ever changes."""
ENTROPY_LEFT = 0.1
"""Of the largest entropy."""
DEVIATION_LEFT = 0.05
"""Of half the distance between the bounds of an action."""
FEW_DECISIONS = 0.1
"""A share of decisions, of which sound runs had 0.6 and more."""
LARGE_DIVERGENCE = 0.5
"""KL divergence of a batch's steps, which had 0.004 to 0.02 in sound runs."""
SMALL_DIVERGENCE = 1e-5
GROWTH = 3.0
LARGE_ERROR = 0.25
"""Mean squared error of values, relative to the square of the size that they can have."""
FALL = 0.2
"""Of the success rate, from its best."""


@dataclass(frozen=True)
class Finding:
    """Something that is likely wrong with a run."""

    problem: str
    """A clause that several runs can share: `the policy has hardly any entropy left`."""
    evidence: str
    """What it was read off, with number and batch."""
    advice: str
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class Rule:
    """One thing that can be wrong."""

    name: str
    look: Callable[[RunRecord], Finding | None]
    """Called for runs that are neither failed nor solved nor rising, and that recorded what it needs."""
    needs: tuple[str, ...] = ()
    """Metrics without which nothing can be told."""
    question: str = ""
    """What cannot be told without them: `whether the policy still explores`."""


def failed(run: RunRecord) -> Finding | None:
    """The run stopped because something was not finite."""
    if not run.failed:
        return None
    cause = "it ended before its last evaluation"
    if run.cause is not None:
        cause = f"in batch {run.cause.batch:,} {run.cause.sentence}"
    known = [figure for name in ("kl", "value_error", "success_rate") for figure in run.figures(name)[-1:]]
    seen = f"; before, {', '.join(map(str, known))}" if known else ""
    smaller = {name: times(0.1) for name in ("learning_rate", "critic_learning_rate", "baseline_learning_rate")}
    return Finding("the run failed", f"{cause}{seen}", tried(run.setting, smaller), tuple(known))


def never_achieved(run: RunRecord) -> Finding | None:
    """Neither greedy nor exploring episodes came to a goal."""
    recorded = [name for name in ("success_rate", "reached", "others_reached") if run.figures(name)]
    highest = [run.highest(name) for name in recorded]
    if any(figure.value >= HARDLY for figure in highest):
        return None
    often = "never" if all(figure.value == 0 for figure in highest) else "hardly ever"
    evidence = f"{_most(highest)} in {run.batches[-1]:,} batches"
    others = ["more --batches", "a goal that is nearer or a longer horizon"]
    if run.setting.method in WITH_HINDSIGHT:
        others.insert(0, f"--method {WITH_HINDSIGHT[run.setting.method]}, which learns from other goals too")
    changes = {"exploration": at_least(0.2), "achieved_share": at_least(0.6)}
    return Finding(f"goals were {often} achieved", evidence, tried(run.setting, changes, *others), tuple(highest))


def never_moved(run: RunRecord) -> Finding | None:
    """What is achieved stays what it was at first: the block is not touched."""
    last, highest = run.last("moved"), run.highest("moved")
    if last.value > STILL:
        return None
    evidence = f"{last}, the share of episodes that left what they had achieved at first; {_most([highest])}"
    changes = {"exploration": at_least(0.2), **_deviation(run.setting), "entropy": times(2, least=0.05)}
    advice = tried(run.setting, changes, "more --batches: such goals begin to teach when they are first moved")
    return Finding("the achieved goal hardly ever changes", evidence, advice, (last, highest))


def entropy_gone(run: RunRecord) -> Finding | None:
    """The policy is all but deterministic, and has learned nothing since."""
    figures = run.figures("entropy")
    gone = [figure for figure in figures if entropy_left(figure.value, run.setting) < _left(run.setting)]
    if figures[-1] not in gone:
        return None
    since = next(one for one in gone if all(later in gone for later in figures[figures.index(one) :]))
    before, now = run.success_at(since.batch), run.last("success_rate")
    if now.value - before.value >= RISE:
        return None
    share = entropy_left(figures[-1].value, run.setting)
    of = f"{share:.1%} of what {run.setting.actions} actions allow"
    if run.setting.half_range is not None:
        of = f"a deviation of {number(share)} where half the range of actions is 1"
    evidence = f"{figures[-1]}, {of}, and as low since batch {since.batch:,}; {now}, {number(before.value)} then"
    changes = {"entropy": times(2, least=0.05), "learning_rate": times(0.3), "clip": at_most(0.1)}
    advice = tried(run.setting, changes)
    return Finding("the policy has hardly any entropy left", evidence, advice, (figures[-1], since, now))


def entropy_left(entropy: float, setting: Setting) -> float:
    """Of the largest entropy, that of all actions as likely; for continuous ones, the deviation of half the range."""
    if setting.half_range is None:
        return entropy / math.log(setting.actions) if setting.actions > 1 else 1.0
    return math.exp(entropy / setting.actions - 0.5 * math.log(2 * math.pi * math.e)) / setting.half_range


def _left(setting: Setting) -> float:
    return ENTROPY_LEFT if setting.half_range is None else DEVIATION_LEFT


def ratios_vanished(run: RunRecord) -> Finding | None:
    """The kept episodes have become so unlikely under the policy that they say nothing."""
    last = run.last("effective_sample_size")
    if last.value > FEW_DECISIONS:
        return None
    evidence = f"{last}: the drawn decisions count as {last.value:.1%} of their number"
    changes = {
        "learning_rate": times(0.3),
        "kept_episodes": times(0.25, least=64),
        "clip": times(0.5, least=0.05),
        **_deviation(run.setting),
    }
    return Finding("the likelihood ratios have vanished", evidence, tried(run.setting, changes), (last,))


def steps_too_large(run: RunRecord) -> Finding | None:
    """The policy jumps: what a batch taught is lost with the next."""
    highest = run.highest("kl")
    if highest.value < LARGE_DIVERGENCE:
        return None
    changes = {"learning_rate": times(0.3), "clip": at_most(0.1), "divergence_limit": at_most(0.1)}
    evidence = f"{highest}, where steadily learning runs have less than 0.05"
    return Finding("the policy changes too much on a batch", evidence, tried(run.setting, changes), (highest,))


def steps_too_small(run: RunRecord) -> Finding | None:
    """The policy does not move, though it could."""
    highest = run.highest("kl")
    if highest.value > SMALL_DIVERGENCE or entropy_left(run.last("entropy").value, run.setting) < _left(run.setting):
        return None
    evidence = f"kl at most {max(highest.value, 0):.1g} (batch {highest.batch:,})"
    advice = tried(run.setting, {"learning_rate": times(10), "gradient_steps": times(2)})
    return Finding("the policy hardly changes", evidence, advice, (highest,))


def value_error(run: RunRecord) -> Finding | None:
    """The critic gets worse, or is worse than any constant would be."""
    figures = run.figures("value_error")
    lowest, last = min(figures, key=lambda figure: figure.value), figures[-1]
    scale = run.setting.options.get("reward_scale") or run.setting.horizon
    size = max(1.0, max(abs(figure.value) for figure in run.figures("mean_return")) / scale)
    grown = last.value >= GROWTH * lowest.value and last.value > figures[0].value
    if not grown and last.value <= LARGE_ERROR * size**2:
        return None
    problem = "the critic's error grows" if grown else "the critic's error is as large as what it should tell apart"
    evidence = f"{last}, {number(lowest.value)} at batch {lowest.batch:,}"
    changes = {"critic_learning_rate": times(0.1), "target_rate": times(0.2, least=0.005)}
    return Finding(problem, evidence, tried(run.setting, changes), (last, lowest))


def fell_back(run: RunRecord) -> Finding | None:
    """It was better before."""
    best, last = run.highest("success_rate"), run.last("success_rate")
    if best.value - last.value < FALL:
        return None
    changes = {"learning_rate": times(0.3), "divergence_limit": at_most(0.1)}
    evidence = f"{last}, {number(best.value)} at batch {best.batch:,}"
    return Finding("the success rate has fallen", evidence, tried(run.setting, changes), (last, best))


def _deviation(setting: Setting) -> dict[str, Change]:
    """An option that continuous actions alone have a use for."""
    return {} if setting.half_range is None else {"deviation_floor": at_least(0.25)}


def _most(figures: Sequence[Figure]) -> str:
    return ", ".join(f"{one.metric} at most {number(one.value)} (batch {one.batch:,})" for one in figures)


RULES: tuple[Rule, ...] = (
    Rule("steps-too-large", steps_too_large, ("kl",), "whether steps are too large"),
    Rule("entropy-gone", entropy_gone, ("entropy",), "whether the policy still explores"),
    Rule("ratios-vanished", ratios_vanished, ("effective_sample_size",), "whether kept episodes still count"),
    Rule("steps-too-small", steps_too_small, ("kl", "entropy"), "whether steps are too small"),
    Rule("value-error", value_error, ("value_error",), "whether the critic can be trusted"),
    Rule("never-moved", never_moved, ("moved",), "whether what is achieved ever changes"),
    Rule("never-achieved", never_achieved),
    Rule("fell-back", fell_back),
)
"""What can be a cause of the others comes first."""
