"""A report draws whatever the methods recorded, without knowing its name."""

from dataclasses import replace
from functools import cache

import numpy as np
from reference.studies import synthetic_study

from hindsight_rl.analysis.report.build import build_report, render_report, report_files
from hindsight_rl.records.runs import FinishedRun, StudyResults

PLACES = ("bit-flipping-8-batch2", "four-rooms-batch2")
HOSTILE = "<img src=x onerror='window.hostile=2'>&amp;$x$"


def no_paper(environment: str, method: str, batch_size: int) -> None:
    return None


@cache
def with_metrics() -> StudyResults:
    """Methods record things of their own: one metric both, one hpg alone, and one in half of its runs only."""
    metrics = {"gcpg": ["entropy"], "hpg": ["entropy", "clipped_share", "steps", HOSTILE]}
    made = synthetic_study(methods=("gcpg", "hpg"), batch_sizes=(2,), metrics=metrics)
    return replace(made, runs=[without(run, HOSTILE) if run.key.seed < 3 else run for run in made.runs])


def without(run: FinishedRun, metric: str) -> FinishedRun:
    return replace(run, metrics={name: values for name, values in run.metrics.items() if name != metric})


def test_whatever_the_methods_recorded_is_drawn() -> None:
    found = build_report(with_metrics(), no_paper, {}, None)
    drawn = {name: one for name, one in found.figures.items() if one.section == "metrics"}
    kinds = [name.removesuffix(f"-{place}") for place in PLACES for name in drawn if name.endswith(place)]
    assert sorted(set(kinds)) == ["metric-clipped-share", "metric-entropy", kinds[-1]]
    assert len(drawn) == len(kinds) == 6
    shared, alone = (drawn[f"metric-{name}-{PLACES[0]}"] for name in ("entropy", "clipped-share"))
    assert shared.title == "entropy, bit-flipping-8, batch size 2"
    assert (shared.caption, shared.finished) == ("All 12 planned runs finished.", 12)
    assert (alone.caption, alone.finished) == ("All 6 planned runs finished.", 6)
    axes = alone.figure.axes[0]
    assert axes.get_ylabel() == "clipped share"
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["hpg (6 runs)"]
    assert np.min(np.asarray(axes.get_lines()[0].get_xdata())) == 10  # nothing is known at batch 0
    assert drawn[f"{kinds[-1]}-{PLACES[0]}"].caption == "All 6 planned runs finished. Of these, 3 recorded it."
    text = render_report(found)
    for target in ("metrics", *(f"figure-{name}" for name in drawn)):
        assert text.count(f'id="{target}"') == 1
        assert f'href="#{target}"' in text
    assert "<img src=x" not in text


def test_figures_of_metrics_are_files_too() -> None:
    found = report_files(with_metrics(), no_paper, {})
    for ending, start in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
        assert found[f"figures/metric-entropy-{PLACES[1]}.{ending}"].startswith(start)
    assert "metric-entropy-four-rooms-batch2" in found["tables/figures.csv"].decode()
