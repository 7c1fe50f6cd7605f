"""Figures show the numbers that they are given."""

import io
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from hindsight_rl.analysis.figures import Format, figure_bytes, learning_curves
from hindsight_rl.analysis.statistics import Curve

BATCHES = np.array([0, 10, 20])


def curve(height: float, runs: int = 20) -> Curve:
    mean = height * np.array([0.1, 0.6, 1.0])
    return Curve(BATCHES, mean, mean - 0.5, mean + 0.5, runs)


def axes_of(figure: Figure) -> Axes:
    (axes,) = figure.axes
    return axes


def curve_lines(axes: Axes) -> list[Line2D]:
    return [line for line in axes.get_lines() if line.get_label() != "best possible"]


def legend_texts(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_lines_and_bands_are_the_curves() -> None:
    curves = {"hpg": curve(8.0), "gcpg": curve(3.0, runs=1)}
    axes = axes_of(learning_curves(curves, "Bit flipping", best_return=None))
    bands = [band for band in axes.collections if isinstance(band, PolyCollection)]
    for line, band, drawn in zip(curve_lines(axes), bands, curves.values(), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), drawn.batches)
        np.testing.assert_array_equal(line.get_ydata(), drawn.mean)
        corners = {tuple(corner) for corner in np.asarray(band.get_paths()[0].vertices)}
        assert corners == {*zip(drawn.batches, drawn.low, strict=True), *zip(drawn.batches, drawn.high, strict=True)}
    assert legend_texts(axes) == ["hpg (20 runs)", "gcpg (1 run)"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("training batches", "average return")
    assert axes.get_title(loc="left") == "Bit flipping"


def test_best_possible_line_is_optional() -> None:
    axes = axes_of(learning_curves({"hpg": curve(8.0)}, "title", best_return=9.5))
    (best,) = (line for line in axes.get_lines() if line.get_label() == "best possible")
    assert set(np.asarray(best.get_ydata())) == {9.5}
    assert best.get_linestyle() == ":"
    assert legend_texts(axes)[-1] == "best possible"
    without = axes_of(learning_curves({"hpg": curve(8.0)}, "title", best_return=None))
    assert legend_texts(without) == ["hpg (20 runs)"]


def test_another_quantity_and_a_later_beginning() -> None:
    later = Curve(np.array([10, 20]), np.array([1.0, 2.0]), np.array([0.5, 1.5]), np.array([1.5, 2.5]), runs=2)
    axes = axes_of(learning_curves({"hpg": later}, "title", best_return=None, quantity="share of $x$"))
    assert axes.get_ylabel() == r"share of \$x\$"
    assert axes.get_xlim() == (0, 20)
    assert axes_of(learning_curves({"hpg": curve(8.0)}, "title", best_return=None)).get_xlim() == (0, BATCHES[-1])


def test_curves_differ_in_colour_and_style() -> None:
    curves = {str(index): curve(index + 1.0) for index in range(35)}
    lines = curve_lines(axes_of(learning_curves(curves, "many", best_return=None)))
    looks = [(to_hex(line.get_color()), str(line._unscaled_dash_pattern)) for line in lines]  # type: ignore[attr-defined]
    assert len(set(looks)) == 35
    assert len({colour for colour, _ in looks[:5]}) == len({style for _, style in looks[:5]}) == 5


def test_legend_does_not_cover_the_curves() -> None:
    figure = learning_curves({"hindsight policy gradient": curve(8.0)}, "title", best_return=9.0)
    figure.draw_without_rendering()
    axes = axes_of(figure)
    legend = axes.get_legend()
    assert legend is not None
    assert legend.get_window_extent().x0 > axes.get_window_extent().x1
    assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_odd_curves_are_drawn_too() -> None:
    one_point = Curve(np.array([0]), np.array([1.0]), np.array([0.5]), np.array([1.5]), runs=3)
    nothing = np.full(3, np.nan)
    curves = {"short": one_point, "failed": Curve(BATCHES, nothing, nothing, nothing, runs=0)}
    figure = learning_curves(curves, "odd", best_return=None)
    assert legend_texts(axes_of(figure)) == ["short (3 runs)", "failed (no run finished)"]
    assert curve_lines(axes_of(figure))[0].get_marker() == "o"
    assert figure_bytes(figure)


def test_empty_figure() -> None:
    assert figure_bytes(learning_curves({}, "nothing yet", best_return=None)).startswith(b"\x89PNG")


@pytest.mark.parametrize(("format", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_files_are_of_their_format_and_repeatable(format: Format, magic: bytes) -> None:
    first, second = (figure_bytes(learning_curves({"hpg": curve(8.0)}, "title", 9.0), format) for _ in range(2))
    assert first.startswith(magic)
    assert first == second


def test_picture_shows_the_curve_in_its_colour() -> None:
    image = Image.open(io.BytesIO(figure_bytes(learning_curves({"hpg": curve(8.0)}, "title", 9.0)))).convert("RGB")
    colours = {colour for _, colour in image.getcolors(image.width * image.height) or []}
    assert (0x00, 0x72, 0xB2) in colours


def test_no_global_state_is_touched() -> None:
    program = "import sys, hindsight_rl.analysis.figures; print('matplotlib.pyplot' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "False"
