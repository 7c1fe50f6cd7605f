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
    at_chance,
    next_piece,
    ranked,
    rounds_ahead,
    score,
    search_stages,
    undecided,
)
from hindsight_rl.records.runs import DEFINITIVE, Cell, Choices, Evidence, FinishedRun, RunKey, above_chance

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
    assert rounds["search 1"][0] == Stage(2, 20, 10, 32)
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
    """Several runs, if the search has several, but in studies that began before there was a guard."""
    rates = tuple(0.1 * (number + 1) for number in range(settings))
    plan = replace(small_plan(), strategy="halving", choices={"learning_rate": rates})
    unguarded = search_stages(replace(plan, guarded=False))
    assert [(stage.runs, stage.batches) for stage in unguarded] == stages
    assert search_stages(plan) == [replace(stage, runs=2) for stage in unguarded]
    many = search_stages(replace(plan, search=replace(plan.search, runs=8)))
    assert [stage.runs for stage in many] == [*[3] * (len(stages) - 2), 4, 8][-len(stages) :]


CHANCE = Evidence(0.1, 0.1, 1.0, 1.0, 100)


def test_a_rung_at_chance_chooses_nothing_and_the_next_makes_up_for_it() -> None:
    plan = paper_plan("gcpg+b")

    def learn(key: RunKey) -> Evidence:
        learns = key.stage != "search 1" and dict(key.choices)["learning_rate"] > 1e-4
        return CHANCE._replace(late_success=0.9) if learns else CHANCE

    rounds = rounds_of(simulate(plan, performance, learn=learn))
    numbers = {name: (len(rates), stage.batches, len(seeds)) for name, (stage, rates, seeds) in rounds.items()}
    assert numbers == {
        "search 1": (64, 350, 3),
        "search 2": (64, 700, 3),
        "search 3": (4, 1400, 10),
        DEFINITIVE: (1, 1400, 20),
    }
    assert rounds[DEFINITIVE][1] == [rates_of(5e-4, 1e-2)]
    unguarded = rounds_of(simulate(replace(plan, guarded=False), performance, learn=learn))
    assert [len(rates) for _, rates, _ in unguarded.values()] == [64, 16, 4, 1]


@pytest.mark.parametrize(("method", "rounds"), [("gcpg+b", 3), ("gcpg", 1)])
def test_a_search_that_stays_at_chance_chooses_nothing_and_says_so(method: str, rounds: int) -> None:
    """The best score would be noise: the smallest values without a failure are taken, whatever their scores."""
    plan = paper_plan(method)
    smallest = plan.grid[0]
    known, learned = {}, {}

    def perform(key: RunKey) -> float:
        known[key] = NAN if key.choices == smallest else performance(key)
        learned[key] = CHANCE
        return known[key]

    pieces = simulate(plan, perform, learn=learned.__getitem__)
    assert rounds_of(pieces)[DEFINITIVE][1] == [plan.grid[1]]
    found = undecided(plan, known, learned)
    assert [len(this.choices) for this in found] == [len(plan.grid)] * rounds
    said = [at_chance(plan, this) for this in found]
    assert all("no run is above chance after" in sentence for sentence in said)
    assert ["settings go on to the next" in sentence for sentence in said] == [True] * (rounds - 1) + [False]
    assert "after 1400 batches, so nothing was chosen" in said[-1]
    assert sum(runs for _, runs in rounds_ahead(plan, known, learned)) == 0


@pytest.mark.parametrize(
    ("untrained", "late", "episodes", "expected"),
    [
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], 100, 0),
        ([0.0, 0.0, 0.0], [0.0, 0.05, 0.0], 100, 1),  # one in 302 and three deviations of 0.6 %
        ([0.0, 0.0, 0.0], [0.0, 0.05, 0.0], 10, 0),  # one in 32 and three deviations of 5.5 %
        ([0.1, 0.1, 0.1], [0.18, 0.25, 0.1], 100, 1),
        ([0.0, 0.2, 0.1], [0.18, 0.25, 0.1], 100, 0),  # they differ by more than the episodes that are drawn
        ([0.1, NAN, 0.1], [0.18, NAN, 0.25], 100, 1),
        ([NAN], [NAN], 100, None),
        ([], [], 100, None),
    ],
)
def test_above_chance_is_better_than_untrained_runs_scatter(
    untrained: list[float], late: list[float], episodes: int, expected: int | None
) -> None:
    runs = [Evidence(*pair, 0.0, 0.0, episodes) for pair in zip(untrained, late, strict=True)]
    assert above_chance(runs) == expected


@pytest.mark.parametrize("success", [0.0, 1.0])
def test_where_success_cannot_tell_returns_do(success: float) -> None:
    returns = [(-5.0, -2.0), (-5.2, -4.9), (-4.8, -5.1)]
    assert above_chance(Evidence(success, success, *pair, 100) for pair in returns) == 1


def finished_run(successes: list[float], **settings: Any) -> FinishedRun:
    numbers = np.arange(len(successes))
    metrics = {"mean_return": 5 * np.array(successes), "success_rate": np.array(successes)}
    return FinishedRun(Cell("any", 2, "hpg"), RunKey("search", (), 0), settings, numbers, numbers, metrics, 1.0)


def test_a_lucky_evaluation_is_no_evidence_and_a_late_one_is() -> None:
    """Three runs that hit a rare goal once or twice, and one that learns in the end."""
    lucky = [[0.0] * 8 + [0.06, 0.0], [0.0, 0.05, 0.0, 0.0, 0.0, 0.0, 0.06, 0.0, 0.0, 0.0], [0.0] * 10]
    learning = [0.1, 0.0, 0.05, 0.0, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8]
    runs = [finished_run(successes, evaluation_episodes=64).evidence for successes in (*lucky, learning)]
    assert runs[-1] == Evidence(0.1, 0.6, 0.5, 3.0, 64)
    assert above_chance(runs[:-1]) == 0
    assert above_chance(runs) == 1
    assert above_chance([finished_run([0.5], evaluation_episodes=64).evidence]) is None
    assert above_chance([finished_run(learning).evidence]) is None


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
