"""Figures of a study show the rows that they are given, and a method looks the same in all of them."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from PIL import Image

from hindsight_rl.analysis.figures import Look, figure_bytes, learning_curves
from hindsight_rl.analysis.statistics import Curve
from hindsight_rl.analysis.study.figures import (
    LOOKS,
    likelihood_ratios,
    method_looks,
    ours_and_paper,
    probabilities_of_improvement,
    sensitivity,
)
from hindsight_rl.analysis.study.sensitivity import SensitivityRow
from hindsight_rl.analysis.study.summaries import ComparisonRow, PerformanceRow
from hindsight_rl.records.runs import Cell

HPG = Cell("four-rooms", 16, "hpg")
GCPG = Cell("four-rooms", 16, "gcpg")


def settings(cell: Cell, means: Sequence[float | None], **changes: object) -> list[SensitivityRow]:
    rows = [
        SensitivityRow(
            cell, rank, "search", {"learning_rate": 1e-3}, mean, None if mean is None else 0.5, mean, 2, 0, rank == 1
        )
        for rank, mean in enumerate(means, start=1)
    ]
    return [replace(row, **changes) for row in rows]  # type: ignore[arg-type]


def pair(first: str, second: str, *numbers: float | None, runs: tuple[int, int] = (6, 5)) -> ComparisonRow:
    probability, low, high = numbers
    return ComparisonRow("four-rooms", 16, first, second, probability, low, high, *runs)


def performance_row(cell: Cell, ours: float | None, paper: float | None) -> PerformanceRow:
    std = None if ours is None else 0.3
    paper_std = None if paper is None else 0.7
    finished = 0 if ours is None else 6
    nothing = (None,) * 5
    return PerformanceRow(
        cell,
        6,
        finished,
        0,
        {"learning_rate": 1e-3},
        ours,
        std,
        *nothing,
        paper,
        paper_std,
        difference=None,
        difference_in_stds=None,
    )


def axes_of(figure: Figure) -> Axes:
    return figure.axes[0]


def line(axes: Axes, label: str) -> Line2D:
    (found,) = (one for one in axes.get_lines() if one.get_label() == label)
    return found


def points(drawn: Line2D) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in np.asarray(drawn.get_xydata())]


def legend_texts(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def look_of(drawn: Line2D) -> tuple[str, str, str]:
    return to_hex(drawn.get_color()), str(drawn._unscaled_dash_pattern), str(drawn.get_marker())  # type: ignore[attr-defined]


def test_known_methods_look_the_same_whatever_else_is_drawn() -> None:
    assert method_looks(["new", "hpg", "gcpg"])["hpg"] == method_looks(["hpg"])["hpg"] == LOOKS["hpg"]


def test_looks_differ_in_more_than_colour() -> None:
    looks = method_looks([*LOOKS, *map(str, range(30))])
    assert len(looks) == len(LOOKS) + 30
    for part in ("colour", "style", "marker"):
        assert len({getattr(look, part) for look in LOOKS.values()}) == len(LOOKS)
    assert len({(str(look.style), look.marker) for look in looks.values()}) == len(looks)


def test_a_method_keeps_its_look_from_figure_to_figure() -> None:
    looks = method_looks(["gcpg", "hpg"])
    curve = Curve(np.array([0, 1]), np.array([1.0, 2.0]), np.array([0.5, 1.5]), np.array([1.5, 2.5]), runs=3)
    curves = learning_curves({"hpg": curve, "gcpg": curve}, "title", None, looks)
    rates = sensitivity({"hpg": settings(HPG, [3, 2])}, "title", looks)
    ratios = likelihood_ratios(np.array([[1, 2]]), "title", looks["hpg"])
    drawn = line(axes_of(curves), "hpg (3 runs)"), line(axes_of(rates), "hpg (2 settings)")
    assert look_of(drawn[0]) == look_of(drawn[1])
    (colour,) = {to_hex(bar.get_facecolor()) for bar in bars(ratios)}
    assert colour == to_hex(drawn[0].get_color())
    assert look_of(line(axes_of(curves), "gcpg (3 runs)")) != look_of(drawn[0])


def test_curve_without_a_finished_run_has_an_entry() -> None:
    nothing = np.full(30, np.nan)
    curves = {"hpg": Curve(np.arange(30), nothing, nothing, nothing, runs=0)}
    figure = learning_curves(curves, "title", None, method_looks(curves))
    assert legend_texts(axes_of(figure)) == ["hpg (no run finished)"]
    assert figure_bytes(figure)


def test_sensitivity_shows_each_setting_from_best_to_worst() -> None:
    looks = method_looks(["hpg", "gcpg"])
    drawn = {"hpg": settings(HPG, [5, 4, 3.5]), "gcpg": settings(GCPG, [4])}
    axes = axes_of(sensitivity(drawn, "four-rooms, batch size 16", looks))
    hpg = line(axes, "hpg (3 settings)")
    assert points(hpg) == [(0, 5), (0.5, 4), (1, 3.5)]
    band = next(one for one in axes.collections if isinstance(one, PolyCollection))
    heights = {height for _, height in np.asarray(band.get_paths()[0].vertices)}
    assert heights == {5.5, 4.5, 4.0, 3.5, 3.0}
    assert points(line(axes, "gcpg (1 setting)")) == [(0, 4)]
    assert axes.get_title(loc="left") == "four-rooms, batch size 16"
    assert len(legend_texts(axes)) == 2


def test_sensitivity_marks_failures_and_early_rungs() -> None:
    rows = [
        *settings(HPG, [5], stage="search 2"),
        *settings(HPG, [6], stage="search 1"),
        *settings(HPG, [None], stage="search 1", failed=2, finished=0),
    ]
    axes = axes_of(sensitivity({"hpg": rows}, "title", method_looks(["hpg"])))
    hollow = [one for one in axes.get_lines() if one.get_markerfacecolor() == "white"]
    assert [points(one) for one in hollow] == [[(0.5, 6)], []]
    crosses = [one for one in axes.get_lines() if one.get_marker() == "x"]
    assert [[x for x, _ in points(one)] for one in crosses] == [[1.0], []]
    assert legend_texts(axes)[1:] == [
        "hollow: dropped at an\nearlier rung of the search",
        "a run of the setting failed",
    ]


def bars(figure: Figure) -> list[Rectangle]:
    return [patch for patch in axes_of(figure).patches if isinstance(patch, Rectangle)]


@pytest.mark.parametrize("steps", [1, 8, 31])
def test_ratio_bars_are_the_counts_with_one_largest_length(steps: int) -> None:
    counts = np.random.default_rng(0).integers(1, 1000, size=(steps, 20))
    figure = likelihood_ratios(counts, "title", LOOKS["hpg"])
    lengths = np.array([bar.get_width() for bar in bars(figure)]).reshape(steps, 20)
    np.testing.assert_allclose(lengths.max(axis=1), lengths.max())
    np.testing.assert_allclose(lengths / lengths.max(), counts / counts.max(axis=1, keepdims=True))
    corners = np.array([bar.get_y() for bar in bars(figure)]).reshape(steps, 20)
    np.testing.assert_allclose(corners[0], np.arange(20) / 20, atol=1e-12)
    assert all(bar.get_x() + bar.get_width() < bar.get_x() + 1 for bar in bars(figure))


@pytest.mark.parametrize("steps", [8, 16, 31, 49])
def test_time_steps_can_be_read(steps: int) -> None:
    figure = likelihood_ratios(np.ones((steps, 10), dtype=int), "title", LOOKS["hpg"])
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes_of(figure).get_xticklabels()]
    assert len(boxes) >= steps / 2
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_time_step_without_ratios_is_marked() -> None:
    figure = likelihood_ratios(np.array([[1, 2], [0, 0]]), "title", LOOKS["hpg"])
    assert len(bars(figure)) == 2
    assert "no active ratio" in axes_of(figure).get_xlabel()


def test_probabilities_and_their_intervals() -> None:
    rows = [
        pair("hpg", "gcpg", 0.9, 0.7, 1.0),
        pair("hpg", "hpg+b", 0.6, 0.4, 0.8),
        pair("hpg", "dqn", None, None, None),
    ]
    axes = axes_of(probabilities_of_improvement(rows, "title"))
    dots = [one for one in axes.get_lines() if one.get_marker() == "o"]
    assert [points(one) for one in dots] == [[(0.9, 0)], [(0.6, 1)]]
    assert dots[0].get_markerfacecolor() != "white"
    assert dots[1].get_markerfacecolor() == "white"
    spans = [points(one) for one in axes.get_lines() if len({x for x, _ in points(one)}) == 2]
    assert spans == [[(0.7, 0), (1.0, 0)], [(0.4, 1), (0.8, 1)]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["hpg over gcpg", "hpg over hpg+b", "hpg over dqn"]
    assert [text.get_text() for text in axes.texts] == ["no finished runs"]


def test_a_point_of_few_runs_is_hollow() -> None:
    """Complete separation of two runs from two gives an interval without any width, which proves nothing."""
    axes = axes_of(probabilities_of_improvement([pair("hpg", "gcpg", 1, 1, 1, runs=(2, 2))], "title"))
    (dot,) = (one for one in axes.get_lines() if one.get_marker() == "o")
    assert dot.get_markerfacecolor() == "white"


def test_paper_figure_has_a_panel_for_each_environment() -> None:
    rows = [
        performance_row(HPG, 8.0, 7.4),
        performance_row(GCPG, None, 4.6),
        performance_row(Cell("maze", 2, "hpg"), 3.0, None),
        performance_row(Cell("empty-room", 2, "hpg"), 20.0, 20.2),
    ]
    figure = ours_and_paper(rows, "title")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["four-rooms", "empty-room"]
    axes = axes_of(figure)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["hpg, batch size 16", "gcpg, batch size 16"]
    here, paper = (container.lines[0] for container in axes.containers)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(here.get_xdata(), [8.0, np.nan])
    np.testing.assert_array_equal(paper.get_xdata(), [7.4, 4.6])
    assert here.get_marker() != paper.get_marker()
    (bars_here,) = axes.containers[0].lines[2]  # type: ignore[attr-defined]
    assert np.ptp(bars_here.get_segments()[0][:, 0]) == pytest.approx(0.6)


def every_figure(name: str = "hpg") -> Mapping[str, Figure]:
    cell = Cell("four-rooms", 16, name)
    looks: dict[str, Look] = method_looks([name])
    return {
        "sensitivity": sensitivity({name: settings(cell, [5, 4])}, name, looks),
        "ratios": likelihood_ratios(np.array([[1, 2], [3, 4]]), name, looks[name]),
        "probabilities": probabilities_of_improvement([pair(name, name, 0.5, 0.4, 0.6)], name),
        "paper": ours_and_paper([performance_row(Cell(name, 16, name), 5, 4)], name),
    }


@pytest.mark.parametrize("kind", list(every_figure()))
def test_pictures_are_repeatable_and_not_blank(kind: str) -> None:
    first, second = every_figure()[kind], every_figure()[kind]
    assert figure_bytes(first, "pdf") == figure_bytes(second, "pdf")
    picture = figure_bytes(first, "png")
    assert picture == figure_bytes(second, "png")
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    assert len(image.getcolors(image.width * image.height) or []) > 10


@pytest.mark.parametrize("kind", list(every_figure()))
def test_names_are_never_formulas(kind: str) -> None:
    assert figure_bytes(every_figure(r"$\frac{$<&>")[kind])


@pytest.mark.parametrize("kind", list(every_figure()))
def test_long_names_leave_room_for_the_picture(kind: str) -> None:
    figure = every_figure("long" * 100)[kind]
    for format in ("png", "svg", "pdf"):  # a squeezed picture is a warning, and so an error
        assert figure_bytes(figure, format)


@pytest.mark.parametrize(
    "figure",
    [sensitivity({}, "t", {}), probabilities_of_improvement([], "t"), ours_and_paper([], "t")],
    ids=["sensitivity", "probabilities", "paper"],
)
def test_figures_of_nothing(figure: Figure) -> None:
    assert figure_bytes(figure).startswith(b"\x89PNG")
