"""The protocol on made-up performances: who goes on, for how long, with which seeds."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_studies import simulate, small_plan

from hindsight_rl.experiments.study.files import load_study
from hindsight_rl.experiments.study.plan import SEEDS_BETWEEN_STAGES, Plan, Stage
from hindsight_rl.experiments.study.protocol import (
    MOST_RUNS_IN_A_PIECE,
    Piece,
    Round,
    next_piece,
    ranked,
    rounds_ahead,
    score,
    search_stages,
)
from hindsight_rl.records.runs import DEFINITIVE, Choices, RunKey

NAN = float("nan")


def paper_plan(method: str) -> Plan:
    (plan,) = load_study("paper").narrowed(["bit-flipping-8"], [method], [16]).plans
    return plan


def rates_of(learning_rate: float, baseline_learning_rate: float | None = None) -> Choices:
    own = (("learning_rate", learning_rate),)
    return own if baseline_learning_rate is None else (*own, ("baseline_learning_rate", baseline_learning_rate))


def rounds_of(pieces: list[Piece]) -> dict[str, tuple[Stage, list[Choices], list[int]]]:
    """Each round's stage, the settings that were run in it, and their seeds."""
    found: dict[str, tuple[Stage, list[Choices], list[int]]] = {}
    for piece in pieces:
        _, rates, seeds = found.setdefault(piece.round.name, (piece.round.stage, [], []))
        rates += [own for own in dict.fromkeys(key.choices for key in piece.keys) if own not in rates]
        seeds += [seed for seed in dict.fromkeys(key.seed for key in piece.keys) if seed not in seeds]
    return found


def performance(key: RunKey) -> float:
    """Best at a rate of 5e-4 and a baseline's rate of 1e-2; a run of a setting differs by its seed."""
    rates = {"baseline_learning_rate": 1e-2, **dict(key.choices)}
    distance = abs(np.log(rates["learning_rate"] / 5e-4)) + abs(np.log(rates["baseline_learning_rate"] / 1e-2))
    return -float(distance) + 0.001 * (key.seed % 3)


def test_the_score_is_mean_minus_standard_deviation() -> None:
    assert score([1.0, 2.0, 6.0]) == pytest.approx(3 - np.sqrt(14 / 3))
    assert score([4.0]) == 4.0
    assert score([]) == -np.inf


def test_the_full_grid_and_then_the_best_with_fresh_seeds() -> None:
    plan = paper_plan("hpg")
    rounds = rounds_of(simulate(plan, performance))
    assert list(rounds) == ["search", DEFINITIVE]
    stage, rates, seeds = rounds["search"]
    assert stage == plan.search == Stage(10, 1400, 14, 256)
    assert rates == plan.grid
    assert seeds == list(range(1_000_000, 1_000_010))
    assert rounds[DEFINITIVE] == (plan.definitive, [rates_of(5e-4)], list(range(20)))


def test_successive_halving_over_the_papers_grid() -> None:
    """64 settings, then 16, then 4: a quarter of the batches with a quarter of 10 runs, then half of both, then all."""
    plan = paper_plan("gcpg+b")
    rounds = rounds_of(simulate(plan, performance))
    assert list(rounds) == ["search 1", "search 2", "search 3", DEFINITIVE]
    numbers = {name: (len(rates), stage.batches, len(seeds)) for name, (stage, rates, seeds) in rounds.items()}
    assert numbers == {
        "search 1": (64, 350, 3),
        "search 2": (16, 700, 5),
        "search 3": (4, 1400, 10),
        DEFINITIVE: (1, 1400, 20),
    }
    from_best = sorted(plan.grid, key=lambda rates: (-performance(RunKey("", rates, 0)), rates))
    assert rounds["search 2"][1] == sorted(from_best[:16])
    assert rounds["search 3"][1] == sorted(from_best[:4])
    assert rounds[DEFINITIVE][1] == [rates_of(5e-4, 1e-2)]


def test_the_last_rung_decides() -> None:
    plan = small_plan(methods=["gcpg+b"])
    last_wins = {rates_of(1e-3, 1e-2): 5.0, rates_of(1e-2, 1e-1): 4.0}

    def perform(key: RunKey) -> float:
        if key.stage == "search 1":
            return last_wins.get(key.choices, 0.0)
        return -last_wins[key.choices]

    rounds = rounds_of(simulate(plan, perform))
    assert rounds["search 1"][0] == Stage(1, 20, 10, 32)
    assert rounds["search 2"] == (plan.search, sorted(last_wins), [2_000_000, 2_000_001])
    assert rounds[DEFINITIVE][1] == [rates_of(1e-2, 1e-1)]


@pytest.mark.parametrize(
    ("settings", "stages"),
    [
        (1, [(2, 40)]),
        (4, [(2, 40)]),
        (5, [(1, 20), (2, 40)]),
        (16, [(1, 20), (2, 40)]),
        (17, [(1, 10), (1, 20), (2, 40)]),
        (257, [(1, 10), (1, 10), (1, 10), (1, 20), (2, 40)]),
    ],
)
def test_rungs_have_whole_evaluations_and_at_least_one_run(settings: int, stages: list[tuple[int, int]]) -> None:
    rates = tuple(0.1 * (number + 1) for number in range(settings))
    plan = replace(small_plan(), strategy="halving", choices={"learning_rate": rates})
    assert [(stage.runs, stage.batches) for stage in search_stages(plan)] == stages


def test_one_setting_needs_no_search() -> None:
    for strategy in ("grid", "halving"):
        plan = replace(small_plan(learning_rates=[0.1]), strategy=strategy)
        (piece,) = simulate(plan, performance)
        assert piece.keys == tuple(RunKey(DEFINITIVE, rates_of(0.1), seed) for seed in range(4))


def round_of(values: Mapping[Choices, list[float]]) -> tuple[Round, dict[RunKey, float]]:
    """A finished round with these performances."""
    runs = len(next(iter(values.values())))
    this = Round("search", tuple(values), Stage(runs, 10, 10, 32), 7)
    return this, {RunKey("search", rates, 7 + run): row[run] for rates, row in values.items() for run in range(runs)}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({0.1: [1.0, 3.0], 0.2: [1.5, 1.5]}, [0.2, 0.1]),
        ({0.2: [2.0, 2.0], 0.1: [2.0, 2.0]}, [0.1, 0.2]),
        ({0.1: [NAN, 9.0], 0.2: [1.0, 1.0]}, [0.2, 0.1]),
        ({0.1: [NAN, NAN], 0.2: [9.0, NAN], 0.3: [1.0, NAN]}, [0.2, 0.3, 0.1]),
        ({0.2: [NAN, NAN], 0.1: [NAN, NAN]}, [0.1, 0.2]),
    ],
)
def test_ranking(values: dict[float, list[float]], expected: list[float]) -> None:
    found = ranked(*round_of({rates_of(rate): row for rate, row in values.items()}))
    assert found == [rates_of(rate) for rate in expected]


def test_equal_scores_leave_the_smaller_baseline_rate_in_front() -> None:
    rates = [rates_of(*pair) for pair in ((0.1, 0.2), (0.2, 0.1), (0.1, 0.1))]
    assert ranked(*round_of({pair: [1.0] for pair in rates})) == sorted(rates)


def test_where_all_fails_the_smallest_rates_still_get_definitive_runs() -> None:
    rounds = rounds_of(simulate(small_plan(methods=["gcpg+b"]), lambda key: NAN))
    assert rounds[DEFINITIVE][1] == [rates_of(1e-3, 1e-3)]


def test_a_round_waits_for_the_one_before_it() -> None:
    plan = small_plan()
    known: dict[RunKey, float] = {}
    first = next_piece(plan, known)
    assert first is not None
    for key in first.keys[:-1]:
        known[key] = 1.0
    rest = next_piece(plan, known)
    assert rest is not None
    assert rest.keys == first.keys[-1:]
    assert rest.settings.runs == 1


def test_pieces_hold_at_most_so_many_runs() -> None:
    sizes = [len(piece.keys) for piece in simulate(paper_plan("gcpg+b"), performance)]
    assert sizes == [20] * 9 + [12] + [20] * 4 + [20] * 2 + [20]
    assert MOST_RUNS_IN_A_PIECE == 20


@st.composite
def any_plan(draw: st.DrawFn) -> Plan:
    evaluations = st.integers(1, 20)
    rates = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=9, unique=True).map(lambda found: tuple(sorted(found)))
    stages: dict[str, Any] = {
        name: Stage(draw(st.integers(1, 30)), 3 * draw(evaluations), 3, 32) for name in ("search", "definitive")
    }
    steps = st.just(()) | st.lists(st.integers(1, 50), min_size=1, max_size=3, unique=True).map(
        lambda found: tuple(sorted(map(float, found)))
    )
    choices = {"learning_rate": draw(rates), "gradient_steps": draw(steps)}
    return replace(
        small_plan(methods=["dqn"]),
        choices={name: values for name, values in choices.items() if values},
        strategy=draw(st.sampled_from(["grid", "halving"])),
        seed=draw(st.integers(0, 100)),
        **stages,
    )


def random_performances(seed: int, plan: Plan) -> dict[RunKey, float]:
    """The runs of a plan followed to its end, one in ten failed."""
    generator = np.random.default_rng(seed)
    drawn: dict[RunKey, float] = {}

    def perform(key: RunKey) -> float:
        drawn[key] = NAN if generator.random() < 0.1 else float(generator.normal())
        return drawn[key]

    simulate(plan, perform)
    return drawn


@given(any_plan(), st.integers(0, 2**32))
def test_any_plan_ends_and_never_repeats_a_run(plan: Plan, seed: int) -> None:
    """`simulate` checks that no piece holds a run that is finished."""
    drawn = random_performances(seed, plan)
    definitive = [key for key in drawn if key.stage == DEFINITIVE]
    assert len(definitive) == plan.definitive.runs
    assert len({key.choices for key in definitive}) == 1
    assert definitive[0].choices in plan.grid
    assert next_piece(plan, drawn) is None
    assert sum(runs for _, runs in rounds_ahead(plan, drawn)) == 0


@given(any_plan(), st.integers(0, 2**32))
def test_the_number_of_runs_ahead_is_known_from_the_start(plan: Plan, seed: int) -> None:
    drawn = random_performances(seed, plan)
    ahead = rounds_ahead(plan, {})
    assert {this.name: runs for this, runs in ahead} == {
        name: sum(key.stage == name for key in drawn) for name in dict.fromkeys(key.stage for key in drawn)
    }


@given(any_plan(), st.integers(0, 2**32))
def test_stages_have_seeds_of_their_own(plan: Plan, seed: int) -> None:
    seeds: dict[str, set[int]] = {}
    for key in random_performances(seed, plan):
        seeds.setdefault(key.stage, set()).add(key.seed)
    together = [value for own in seeds.values() for value in own]
    assert len(together) == len(set(together))
    assert seeds[DEFINITIVE] == set(range(plan.seed, plan.seed + plan.definitive.runs))
    for number, own in enumerate(seeds.values(), 1):
        assert min(own) >= plan.seed + (number * SEEDS_BETWEEN_STAGES if number < len(seeds) else 0)


@given(any_plan(), st.integers(0, 2**32), st.integers(1, 30))
def test_more_definitive_runs_only_add(plan: Plan, seed: int, more: int) -> None:
    drawn = random_performances(seed, plan)
    larger = replace(plan, definitive=replace(plan.definitive, runs=plan.definitive.runs + more))
    added = [key for piece in simulate(larger, lambda key: 0.0, drawn) for key in piece.keys]
    assert len(added) == more
    assert {key[:2] for key in added} == {(DEFINITIVE, key.choices) for key in drawn if key.stage == DEFINITIVE}


@given(any_plan(), st.integers(0, 2**32))
def test_runs_of_a_piece_share_a_program(plan: Plan, seed: int) -> None:
    """Learning rates are inputs of it, numbers of gradient steps are not."""
    generator = np.random.default_rng(seed)
    for piece in simulate(plan, lambda key: float(generator.normal())):
        steps = {dict(key.choices).get("gradient_steps") for key in piece.keys}
        assert len(steps) == 1
        (step,) = steps
        assert step is None or piece.settings.options.gradient_steps == step
        assert len(piece.keys) <= MOST_RUNS_IN_A_PIECE
