"""The results file: exact, all or nothing, and clear about what is wrong with it."""

import json
import random
import sqlite3
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_results import CELL, example_file, example_run, metrics, read, refusal, write

from hindsight_rl.records import results
from hindsight_rl.records.layout import FORMAT
from hindsight_rl.records.results import RESULTS, ResultsFile
from hindsight_rl.records.runs import DEFINITIVE, Cause, Cell, FinishedRun, RunKey

NAN = float("nan")
USUAL = ("mean_return", "success_rate")


def known(values: np.ndarray) -> bool:
    """Whether a run has any value of a metric; what it has none of is not kept."""
    return not np.isnan(values).all()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / RESULTS


@pytest.fixture
def filled(path: Path) -> Path:
    """A file with three runs."""
    return example_file(path)


def assert_same_run(left: FinishedRun, right: FinishedRun) -> None:
    for name in ("cell", "key", "settings", "seconds", "failure", "origin"):
        assert getattr(left, name) == getattr(right, name), name
    for name in ("batches", "episodes", "mean_returns", "success_rates"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)
    assert left.metrics.keys() == {name for name, values in right.metrics.items() if name in USUAL or known(values)}
    for name, values in left.metrics.items():
        np.testing.assert_array_equal(values, right.metrics[name], err_msg=name)
    assert left.records.keys() == right.records.keys()
    for name, array in left.records.items():
        assert right.records[name].shape == array.shape
        np.testing.assert_array_equal(right.records[name], array, err_msg=name)


@st.composite
def any_run(draw: st.DrawFn, seed: int) -> FinishedRun:
    """Any run: long or short, finished, failed on the way, or ended by an exception."""
    number = st.floats(allow_nan=False)
    batches = np.array(sorted(draw(st.sets(st.integers(0, 10**9), max_size=5))), dtype=np.int64)
    returns, rates = (np.array(draw(st.lists(number, min_size=len(batches), max_size=len(batches)))) for _ in range(2))
    others = draw(st.dictionaries(st.text(), st.just(number | st.just(NAN)), max_size=2)) if len(batches) else {}
    recorded = {
        name: np.array(draw(st.lists(value, min_size=len(batches), max_size=len(batches))))
        for name, value in others.items()
        if name not in ("mean_return", "success_rate")
    }
    failure = draw(st.none() | st.builds(Cause, st.integers(-1, 10**9), st.text()))
    if failure:
        returns[batches > failure.batch] = rates[batches > failure.batch] = NAN
    whole = st.integers(-(2**63), 2**63 - 1)
    shapes = draw(st.dictionaries(st.text(), st.lists(st.integers(0, 3), max_size=3), max_size=2))
    records = {
        name: np.array(draw(st.lists(whole, min_size=(size := int(np.prod(shape))), max_size=size)), np.int64).reshape(
            shape
        )
        for name, shape in shapes.items()
    }
    stage = draw(st.sampled_from(["search", "search 2", DEFINITIVE]))
    return example_run(
        seed,
        cell=Cell(draw(st.text()), draw(st.integers(1, 2**31)), draw(st.text())),
        key=RunKey(stage, tuple(draw(st.dictionaries(st.text(), number, max_size=3)).items()), seed),
        settings=draw(st.dictionaries(st.text(), st.none() | number | st.text() | st.integers(), max_size=3)),
        batches=batches,
        episodes=batches * 2,
        metrics=metrics(returns.astype(np.float64), rates.astype(np.float64)) | recorded,
        seconds=draw(st.floats(0, 1e9)),
        failure=failure,
        records=records,
    )


@given(st.integers(0, 3).flatmap(lambda runs: st.tuples(*(any_run(seed) for seed in range(runs)))))
def test_what_is_written_comes_back_exactly(runs: tuple[FinishedRun, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with ResultsFile.open(Path(folder) / RESULTS, create=True) as file:
            file.write_origin({})
            file.write_runs(runs)
        again = read(Path(folder) / RESULTS).runs
    assert len(again) == len(runs)
    for run in runs:
        (found,) = [other for other in again if other.key.seed == run.key.seed]
        assert_same_run(found, run)


def test_facts_plans_and_origins_come_back_in_order(path: Path) -> None:
    others = [Cell("b", 2, "hpg"), Cell("a", 16, "gcpg"), Cell("a", 2, "gcpg")]
    with ResultsFile.open(path, create=True) as file:
        file.write_facts({"name": "first", "rates": [1e-5, None]})
        file.write_facts({"name": "second"})
        file.write_plans({cell: {"seed": number} for number, cell in enumerate(others)})
        file.write_plans({others[1]: {"seed": 9}, CELL: {"seed": 3}})
        numbers = [file.write_origin({"jax": version}) for version in ("1", "2", "1")]
    found = read(path)
    assert found.facts == {"format": FORMAT, "name": "second", "rates": [1e-5, None]}
    assert list(found.plans.items()) == [
        (others[0], {"seed": 0}),
        (others[1], {"seed": 9}),
        (others[2], {"seed": 2}),
        (CELL, {"seed": 3}),
    ]
    with ResultsFile.open(path) as file:
        file.write_plans({cell: {"seed": 4} for cell in (CELL, *others)})
    assert list(read(path).plans.items()) == [(cell, {"seed": 4}) for cell in (CELL, *others)]
    assert numbers[0] == numbers[2] != numbers[1]
    assert [found.origins[number]["jax"] for number in numbers] == ["1", "2", "1"]


def test_runs_come_sorted_whatever_the_order_in_which_they_were_written(path: Path) -> None:
    runs = [example_run(seed, stage) for seed in range(3) for stage in ("search", DEFINITIVE)]
    random.Random(0).shuffle(runs)
    with ResultsFile.open(path, create=True) as file:
        file.write_origin({})
        for run in runs:
            file.write_runs([run])
    found = read(path)
    assert [run.key for run in found.runs] == sorted(run.key for run in runs)
    assert [run.key.seed for run in found.of(CELL, "search")] == [0, 1, 2]
    assert len(found.of(CELL)) == 6
    assert found.of(Cell("other", 8, "hpg")) == []


def test_runs_are_sorted_by_numbers_not_by_their_spelling(path: Path) -> None:
    rates = [1e-5, 5e-5, 1e-4, 0.5, 2.0, 10.0]
    keys = [RunKey("search", (("learning_rate", rate), ("clip", clip)), 0) for rate in rates for clip in (0.1, 0.2)]
    with ResultsFile.open(path, create=True) as file:
        file.write_origin({})
        file.write_runs([example_run(key=key) for key in reversed(keys)])
    assert [run.key for run in read(path).runs] == keys


def test_a_whole_number_is_the_same_choice_as_its_fraction(path: Path) -> None:
    """In Python they are equal, and so they must be in the file."""
    keys = [RunKey("search", (("steps", value),), 0) for value in (40, 40.0)]
    with ResultsFile.open(path, create=True) as file:
        file.write_origin({})
        file.write_runs([example_run(key=keys[0])])
        assert "a run of it is there already" in refusal(lambda: file.write_runs([example_run(key=keys[1])]))
    assert read(path).runs[0].key == keys[0]


def test_choices_and_metrics_can_be_asked_for_in_sql(filled: Path) -> None:
    query = """
        SELECT seed, choices ->> 'learning_rate', batch, episodes, mean_return, entropy
        FROM runs JOIN evaluations ON run = number WHERE batch IN (0, 20) ORDER BY seed, batch LIMIT 2
    """
    connection = sqlite3.connect(filled)
    assert connection.execute(query).fetchall() == [(0, 0.01, 0, 0, 0.0, None), (0, 0.01, 20, 160, 2 / 3, 3.0)]
    connection.close()


def test_metrics_of_any_name_are_kept_apart(path: Path) -> None:
    names = [
        "entropy",
        "Entropy",
        "ENTROPY_2",
        "policy loss",
        "policy-loss",
        "batch",
        "run",
        "order",
        "",
        'a"; --',
        "é",
    ]
    runs = [
        example_run(seed, metrics=metrics(np.zeros(5), np.ones(5)) | {name: np.arange(5) + number})
        for seed, (number, name) in enumerate(enumerate(names))
    ]
    with ResultsFile.open(path, create=True) as file:
        file.write_origin({})
        for run in runs:
            file.write_runs([run])
    for run, found in zip(runs, read(path).runs, strict=True):
        assert_same_run(found, run)


def test_a_metric_whose_column_is_gone_is_damage(filled: Path) -> None:
    with sqlite3.connect(filled) as connection:
        connection.execute("ALTER TABLE evaluations DROP COLUMN entropy")
    connection.close()
    assert refusal(lambda: read(filled)).startswith(f"'{filled}' is damaged or not a study's results: ")


def test_a_new_metric_is_added_with_its_run_or_not_at_all(filled: Path) -> None:
    before = filled.read_bytes()
    new = example_run(7, metrics=metrics(np.zeros(5), np.zeros(5), kl=np.ones(5)))
    assert "is there already" in refusal(lambda: write(filled, [new, example_run(1)]))
    assert filled.read_bytes() == before
    write(filled, [new])
    assert ["kl" in run.metrics for run in read(filled).runs] == [False, False, False, True]
    assert ["entropy" in run.metrics for run in read(filled).runs] == [True, True, True, False]


def test_average_performance() -> None:
    assert example_run().average_performance == pytest.approx(2 / 3)
    assert np.isnan(example_run(failure=Cause(3, "it diverged")).average_performance)


def test_a_run_cannot_be_written_twice_and_nothing_beside_it_is(filled: Path) -> None:
    before = filled.read_bytes()
    message = refusal(lambda: write(filled, [example_run(7), example_run(1, seconds=9.0)]))
    assert message.startswith(f"Could not write '{filled}': a run of it is there already (")
    assert [run.key.seed for run in read(filled).runs] == [0, 1, 2]
    assert filled.read_bytes() == before
    assert [path.name for path in filled.parent.iterdir()] == [RESULTS]


def test_only_runs_that_raised_are_forgotten(filled: Path) -> None:
    recorded = metrics(np.zeros(5), np.zeros(5), entropy=np.ones(5))
    raised = example_run(8, metrics=recorded, failure=Cause(-1, "ValueError: no"), records={"ratios": np.ones(2, int)})
    write(filled, [raised, example_run(9, failure=Cause(0, "it diverged"))])
    with ResultsFile.open(filled) as file:
        assert file.remove_runs_that_raised([Cell("other", 8, "hpg")]) == 0
        assert file.remove_runs_that_raised([CELL]) == 1
        assert file.remove_runs_that_raised([CELL]) == 0
    assert [run.key.seed for run in read(filled).runs] == [0, 1, 2, 9]
    write(filled, [raised])
    assert len(read(filled).runs) == 5


def test_a_reader_sees_only_what_is_committed(filled: Path) -> None:
    writer = sqlite3.connect(filled, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("DELETE FROM evaluations")
    writer.execute("DELETE FROM records")
    assert [len(run.batches) for run in read(filled).runs] == [5, 5, 5]
    writer.close()
    assert [len(run.batches) for run in read(filled).runs] == [5, 5, 5]


@pytest.mark.parametrize(
    ("format_found", "reason"),
    [
        (0, "no hindsight wrote that"),
        (FORMAT + 1, "a newer hindsight wrote it; install that one"),
        ("x", "no hindsight wrote that"),
    ],
)
def test_other_formats_are_refused(filled: Path, format_found: object, reason: str) -> None:
    with sqlite3.connect(filled) as connection:
        connection.execute("UPDATE facts SET value = ? WHERE name = 'format'", (json.dumps(format_found),))
    connection.close()
    message = f"'{filled}' has format {format_found}, but this hindsight reads {FORMAT}: {reason}."
    assert refusal(lambda: read(filled)) == message
    assert refusal(lambda: write(filled, [])) == message


def test_a_file_has_its_tables_from_its_first_moment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill before it gets its name leaves nothing, and so a folder to begin in."""

    def interrupt(path: Path, content: bytes) -> None:
        assert content.startswith(b"SQLite format 3")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(results, "write_atomically", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write(path, [])
    assert not path.exists()
    write(path, [])
    assert read(path).runs == []
