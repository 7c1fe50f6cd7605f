"""The picture of the metrics shows the numbers that were recorded."""

import numpy as np
from reference.made_up_runs import SOUND, STUCK, ending_at, ramp, table

from hindsight_rl.analysis.metric_figures import metric_panels, reported

REPORTED = [name for name in SOUND if name not in ("mean_return", "success_rate")]


def test_one_panel_for_each_metric_and_one_line_for_each_run() -> None:
    evaluations = table(SOUND, ending_at(STUCK, 5))
    figure = metric_panels(evaluations, "two runs")
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        name.replace("_", " ") for name in ("success_rate", *REPORTED)
    ]
    for axes, name in zip(figure.axes, ("success_rate", *REPORTED), strict=True):
        for line, values in zip(axes.get_lines(), evaluations.metrics[name], strict=True):
            known = np.isfinite(values)
            np.testing.assert_array_equal(line.get_xdata(), evaluations.batches[known])
            np.testing.assert_array_equal(line.get_ydata(), values[known])
        assert axes.get_ylim()[0] == 0
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["run 0", "run 1"]


def test_what_spans_orders_of_magnitude_is_drawn_so() -> None:
    figure = metric_panels(table({**SOUND, "kl": ramp(10, 1e-3)}), "steps that shrink")
    scales = {axes.get_title(loc="left"): axes.get_yscale() for axes in figure.axes}
    assert scales["kl"] == "log"
    assert scales["entropy"] == "linear"


def test_what_no_run_recorded_has_no_panel() -> None:
    unknown = {**SOUND, "kl": ramp(np.nan, np.nan), "steps": ramp(0, 100)}
    assert reported(table(unknown)) == [name for name in REPORTED if name != "kl"]
    assert reported(table({name: SOUND[name] for name in ("mean_return", "success_rate")})) == []
