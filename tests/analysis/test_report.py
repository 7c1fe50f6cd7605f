"""A report holds everything that the study has, says what it lacks, and trusts no name."""

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import pytest
from reference.studies import failed, keep_runs, synthetic_study

from hindsight_rl.analysis.animation import animate
from hindsight_rl.analysis.report.build import Report, build_report, render_report, report_files
from hindsight_rl.analysis.report.content import failures_table
from hindsight_rl.analysis.report.page import SECTIONS
from hindsight_rl.analysis.study.summaries import performance
from hindsight_rl.records.runs import DEFINITIVE, Cell, StudyResults

BEST_RETURNS: Mapping[str, float | None] = {"bit-flipping-8": 4.992}
PLACES = ("bit-flipping-8-batch2", "four-rooms-batch2")
HOSTILE = "<script>window.hostile=1</script>\"><img src=x onerror='window.hostile=2'>&amp;$x$"


def paper(environment: str, method: str, batch_size: int) -> tuple[float, float] | None:
    return (4.6, 0.06) if (environment, method, batch_size) == ("bit-flipping-8", "hpg", 2) else None


@cache
def study() -> StudyResults:
    return synthetic_study(methods=("gcpg", "hpg"), batch_sizes=(2,))


@cache
def animations() -> Mapping[str, bytes]:
    return {"hpg in a corridor": animate([("start", "A.G"), ("end", "..*")])}


@cache
def report() -> Report:
    return build_report(study(), paper, BEST_RETURNS, animations())


@cache
def page() -> str:
    return render_report(report())


@cache
def small_study() -> StudyResults:
    return synthetic_study(environments=("bit-flipping-8",), methods=("gcpg", "hpg"), batch_sizes=(2,), runs=4)


@cache
def small_files() -> Mapping[str, bytes]:
    return report_files(small_study(), paper, BEST_RETURNS, animations())


class Reader(HTMLParser):
    """Collects what a test asks for: start tags with their attributes, and text."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def values(self, name: str, tag: str | None = None) -> list[str]:
        return [found[name] or "" for kind, found in self.tags if name in found and tag in (None, kind)]


def half_finished() -> StudyResults:
    """The search of everything is done, but only one cell has begun its definitive runs, of which one failed."""
    begun = Cell("bit-flipping-8", 2, "hpg")
    some = keep_runs(
        study(), lambda run: run.key.stage != DEFINITIVE or (run.cell == begun and run.key.seed in (0, 1, 2))
    )
    runs = [
        failed(run, -1, "Out of memory.") if run.key[0] == DEFINITIVE and run.key.seed == 2 else run
        for run in some.runs
    ]
    return replace(some, runs=runs)


def test_every_section_and_anchor_is_there() -> None:
    reader = Reader(page())
    anchors = reader.values("id")
    assert len(anchors) == len(set(anchors))
    assert {"summary", *(section.id for section in SECTIONS)} <= set(anchors)
    targets = {target.removeprefix("#") for target in reader.values("href")}
    assert {"summary", *(section.id for section in SECTIONS)} <= targets <= set(anchors)


def test_every_kind_of_figure_is_there() -> None:
    expected = {f"{kind}-{place}" for kind in ("learning-curves", "comparisons", "sensitivity") for place in PLACES}
    expected |= {"paper", *(f"ratios-{place}-hpg" for place in PLACES)}
    assert set(report().figures) == expected
    reader = Reader(page())
    assert {f"figure-{name}" for name in expected} <= set(reader.values("id"))
    images = [found for tag, found in reader.tags if tag == "img"]
    assert len(images) == len(expected) + len(animations())
    assert all((found["src"] or "").startswith("data:image/") and found["alt"] for found in images)


def test_every_table_is_there() -> None:
    shared = {"headline", "aggregate", "performance", "thresholds", "comparisons", "aggregate-comparisons", "paper"}
    rest = {"sensitivity", "settings", "cell-settings", "figures", "missing", "failures", "origins"}
    assert set(report().tables) == shared | rest
    assert {f"table-{name}" for name in report().tables} <= set(Reader(page()).values("id"))


def test_when_nothing_is_missing_the_file_that_said_what_was_is_written_anew() -> None:
    whole = synthetic_study(environments=("bit-flipping-8",), methods=("hpg",), batch_sizes=(2,), failures=False)
    files = report_files(whole, paper, BEST_RETURNS)
    for name in ("missing", "failures"):
        assert len(files[f"tables/{name}.csv"].decode().splitlines()) == 1
        assert f'id="table-{name}"' not in files["report.html"].decode()


def test_verdicts_come_before_everything_else() -> None:
    text = page()
    assert text.index('id="verdicts"') < min(text.index(f'<section id="{section.id}"') for section in SECTIONS)
    assert "hpg in 2 of 2 combinations" in text
    assert text.index(report().answer) < text.index('id="verdicts"')


def test_headline_marks_the_best_of_each_row() -> None:
    headline = report().tables["headline"]
    assert [column.header for column in headline.table.columns] == ["environment", "batch size", "gcpg", "hpg"]
    assert headline.best == {(0, 3), (1, 3)}
    assert page().count(" best") >= 2


def test_nothing_comes_from_the_network() -> None:
    reader = Reader(page())
    assert not reader.values("src", "script")
    assert not [tag for tag, _ in reader.tags if tag in ("link", "iframe", "object", "base", "form")]
    assert all(source.startswith("data:") for source in reader.values("src"))
    assert all(target.startswith("#") for target in reader.values("href"))
    (policy,) = (found["content"] for tag, found in reader.tags if found.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "unsafe" not in policy
    assert not reader.values("style")


def test_captions_say_how_many_runs_a_figure_rests_on() -> None:
    whole, lacking = (report().figures[f"learning-curves-{place}"] for place in PLACES)
    assert (whole.caption, whole.missing) == ("All 12 planned runs finished.", 0)
    assert lacking.caption == "11 of 12 planned runs finished (hpg: 1 failed)."
    assert (lacking.finished, lacking.failed, lacking.missing) == (11, 1, 0)
    assert lacking.caption in "".join(Reader(page()).texts)


def test_failures_have_their_causes() -> None:
    table = failures_table(study())
    assert len(table.rows) == sum(run.failure is not None for run in study().runs) == 5
    assert {row[-1] for row in table.rows} == {"The gradient was not finite."}
    assert ("four-rooms", 2, "hpg", DEFINITIVE, 1e-3, 5, 40, "The gradient was not finite.") in table.rows
    assert report().notes == (
        "1 definitive run failed, left out of all statistics: The gradient was not finite. (1 run)",
    )


def test_half_finished_study_says_what_is_missing() -> None:
    found = build_report(half_finished(), paper, BEST_RETURNS, None)
    assert found.notes == (
        "21 definitive runs not made yet, in 4 cells.",
        "3 cells without any definitive run, still to be searched or begun.",
        "1 definitive run failed, left out of all statistics: Out of memory. (1 run)",
    )
    assert [(verdict.best, verdict.certainty) for verdict in found.verdicts] == [
        ("hpg", "unfinished"),
        (None, "no runs"),
    ]
    assert found.undrawn["learning-curves"] == ("four-rooms, batch size 2",)
    assert "learning-curves-four-rooms-batch2" not in found.figures
    curves = found.figures["learning-curves-bit-flipping-8-batch2"]
    assert curves.caption == "2 of 12 planned runs finished (gcpg: 6 missing; hpg: 1 failed and 3 missing)."
    assert not [name for name in found.figures if name.startswith("comparisons")]
    text = "".join(Reader(render_report(found)).texts)
    assert all(note in text for note in found.notes)
    assert "Waiting for a finished run: four-rooms, batch size 2." in text
    assert "Out of memory." in text


def test_study_without_any_run() -> None:
    found = build_report(keep_runs(study(), lambda run: False), paper, BEST_RETURNS, None)
    assert not found.figures
    text = "".join(Reader(render_report(found)).texts)
    assert "there is nothing to compare" in text
    assert "24 definitive runs not made yet, in 4 cells." in text
    nothing = [
        section.nothing for section in SECTIONS if section.id in ("comparisons", "ratios", "sensitivity", "policies")
    ]
    assert all(sentence in text for sentence in nothing)
    assert "nan" not in text.lower().split()


def test_study_without_cells() -> None:
    text = render_report(build_report(StudyResults({}, {}, [], {}), paper, {}, None))
    assert "This study has no cells yet." in text
    assert all(section.nothing in "".join(Reader(text).texts) for section in SECTIONS)


def hostile_study() -> StudyResults:
    """A study in which everything that has a name has a bad one."""
    small = synthetic_study(environments=("four-rooms",), methods=("hpg", HOSTILE), batch_sizes=(2,), runs=2)
    cells = {cell: cell._replace(environment=HOSTILE) for cell in small.plans}
    return StudyResults(
        facts={"name": HOSTILE, "description": HOSTILE, HOSTILE: HOSTILE},
        plans={cells[cell]: {**plan, HOSTILE: HOSTILE} for cell, plan in small.plans.items()},
        runs=[
            replace(run, cell=cells[run.cell], failure=run.failure and replace(run.failure, sentence=HOSTILE))
            for run in small.runs
        ],
        origins={1: {HOSTILE: HOSTILE}},
    )


def test_hostile_names_stay_text() -> None:
    found = report_files(
        hostile_study(), lambda *_: (1.0, 0.1), {HOSTILE: 9.0}, {HOSTILE: animations()["hpg in a corridor"]}
    )
    text = found["report.html"].decode()
    reader = Reader(text)
    assert [tag for tag, _ in reader.tags].count("script") == 1
    assert not reader.values("onerror")
    assert "x" not in reader.values("src")
    assert "<img src=x" not in text
    assert HOSTILE in "".join(reader.texts)
    assert all(re.fullmatch(r"[\w+.-]+(/[\w+.-]+)?", path) and ".." not in path for path in found)


def test_names_that_differ_only_in_signs_get_files_of_their_own() -> None:
    twins = synthetic_study(
        environments=("maze/1", "maze:1", "MAZE 1"), methods=("hpg",), batch_sizes=(2,), failures=False
    )
    names = [name for name in build_report(twins, paper, {}, None).figures if name.startswith("learning-curves")]
    assert names == [
        "learning-curves-maze-1-batch2",
        "learning-curves-maze-1-batch2-2",
        "learning-curves-MAZE-1-batch2-3",
    ]


def test_files_are_complete_and_repeatable() -> None:
    first = small_files()
    assert first == report_files(small_study(), paper, BEST_RETURNS, animations())
    built = build_report(small_study(), paper, BEST_RETURNS, animations())
    expected = {f"figures/{name}.{ending}" for name in built.figures for ending in ("png", "pdf")}
    expected |= {f"tables/{name}.{ending}" for name in built.tables for ending in ("csv", "md", "tex")}
    assert set(first) == expected | {"report.html"}
    assert all(first[path].startswith(b"\x89PNG") for path in first if path.endswith(".png"))
    assert all(first[path].startswith(b"%PDF") for path in first if path.endswith(".pdf"))


def test_tables_as_files_hold_the_numbers() -> None:
    found = small_files()
    rows = list(csv.DictReader(io.StringIO(found["tables/performance.csv"].decode())))
    assert [row["method"] for row in rows] == ["gcpg", "hpg"]
    expected = performance(small_study(), paper)[1].mean
    assert float(rows[1]["average_performance_mean"]) == expected
    assert f"{expected:.2f} ± " in found["tables/headline.md"].decode()
    assert r"\begin{tabular}" in found["tables/headline.tex"].decode()


def test_without_other_metrics_their_section_says_so() -> None:
    text = "".join(Reader(page()).texts)
    assert "No finished run recorded anything else." in text


def test_a_missing_description_leaves_no_trace() -> None:
    bare = replace(report(), description="", figures={}, tables={})
    assert "A study made up for tests." in page()
    assert "A study made up for tests." not in render_report(bare)


@pytest.mark.parametrize("name", ["figures", "sensitivity"])
def test_long_tables_are_folded(name: str) -> None:
    long = report().tables[name]
    rows = tuple(long.table.rows[:1] * 40)
    targets = long.targets[:1] * 40
    table = replace(long, table=replace(long.table, rows=rows), targets=targets)
    text = render_report(replace(report(), tables={name: table}, figures={}))
    assert "<summary>Show 40 rows</summary>" in text
