from io import BytesIO

import numpy as np
import pytest

import attnforge as af
from attnforge.plot.rates import (
    SERIES,
    Curve,
    draw_rates,
    hide_unused,
    no_minor_labels,
    page_wide,
    rate_curves,
    ticks_at,
)


def test_curves_differ_in_colour_marker_and_name() -> None:
    curves = [Curve(f"c{i}", [1, 2, 4], [1 / (i + 1), 0.5, 0.2]) for i in range(len(SERIES))]
    axes = rate_curves(curves, x_label="p", y_label="error").axes[0]
    lines = [line for line in axes.lines if not line.get_label().startswith("_")]
    assert [line.get_label() for line in lines] == [curve.name for curve in curves]
    assert len({line.get_color() for line in lines}) == len({line.get_marker() for line in lines}) == len(SERIES)


def test_a_slope_is_drawn_as_a_line_of_that_slope_with_its_name() -> None:
    axes = rate_curves([Curve("c", [10, 100, 1000], [1, 0.1, 0.02])], x_label="p", y_label="e", slopes=[-1.5]).axes[0]
    x, y = axes.lines[-1].get_data()
    assert np.log(y[1] / y[0]) / np.log(x[1] / x[0]) == pytest.approx(-1.5)
    assert "slope -1.5" in [text.get_text() for text in axes.texts]


def test_a_curve_without_two_good_points_has_no_slope() -> None:
    axes = rate_curves([Curve("c", [10, 20], [0.5, np.nan])], x_label="p", y_label="e", slopes=[-1]).axes[0]
    assert len(axes.lines) == 1


def test_bands_and_linear_axes() -> None:
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    band = Curve("c", [0, 1], [1, 2], [0.5, 1], [2, 3])
    draw_rates(axes, [band], x_label="$x$", y_label="y", title="t", logarithmic=(False, True))
    assert (axes.get_xscale(), axes.get_yscale(), len(axes.collections)) == ("linear", "log", 1)
    assert not axes.xaxis.label.get_parse_math()


def test_names_are_drawn_as_they_are() -> None:
    names = ["$\\frac{$", "_a", "_child0", "plain", "\x1b[31m"]
    figure = rate_curves([Curve(name, [1, 2], [1, 2]) for name in names], x_label="x", y_label="y")
    texts = figure.legends[0].get_texts()
    assert [text.get_text() for text in texts] == ["$\\frac{$", "_a", "_child0", "plain", "\\x1b[31m"]
    assert not any(text.get_parse_math() for text in texts)
    figure.savefig(BytesIO(), dpi=40)


def test_nameless_curves_stay_out_of_the_legend() -> None:
    curves = [Curve("", [1, 2], [1, 2]), Curve("_", [1, 2], [1, 2])]
    assert not rate_curves(curves, x_label="x", y_label="y").legends
    (legend,) = rate_curves([*curves, Curve("c", [1, 2], [1, 2])], x_label="x", y_label="y").legends
    assert [text.get_text() for text in legend.get_texts()] == ["c"]


def test_no_curves_are_refused() -> None:
    with pytest.raises(af.TargetError, match=r"at least one curve. Got none. Pass \[Curve"):
        rate_curves([], x_label="x", y_label="y", slopes=[-1])
    axes = page_wide(2.0).subplots()
    draw_rates(axes, [], x_label="x", y_label="y", slopes=[-1])  # a panel of several may be empty
    assert not axes.lines


def test_ticks_are_where_they_are_asked_for() -> None:
    figure = page_wide(2.0)
    axes = figure.subplots()
    draw_rates(axes, [Curve("c", [3, 20], [1, 2])], x_label="H", y_label="e")
    ticks_at(axes, (3, 7, 20))
    figure.draw_without_rendering()
    assert figure.get_figwidth() == 7.2
    assert [text.get_text() for text in axes.get_xticklabels()] == ["3", "7", "20"]
    assert len(axes.xaxis.get_minorticklocs()) == 0


def test_minor_ticks_lose_their_numbers_only() -> None:
    figure = page_wide(2.0)
    axes = figure.subplots()
    draw_rates(axes, [Curve("c", [3, 20], [1, 2])], x_label="H", y_label="e")
    figure.draw_without_rendering()
    assert any(text.get_text() for text in axes.get_xticklabels(minor=True))
    no_minor_labels(axes)
    figure.draw_without_rendering()
    assert len(axes.xaxis.get_minorticklocs()) > 0
    assert not any(text.get_text() for text in axes.get_xticklabels(minor=True))


def test_panels_that_are_left_over_are_hidden() -> None:
    panels = page_wide(2.0).subplots(1, 3)
    hide_unused(panels, 2)
    assert [axes.get_visible() for axes in panels] == [True, True, False]
