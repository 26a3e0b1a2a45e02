"""Figures of tables: nothing is asked of them but at their listed points."""

from types import SimpleNamespace

import numpy as np
import pytest

import attnforge as af
from attnforge.plot import section
from attnforge.plot.listing import MOST_POINTS, _shown
from attnforge.targets import Table


def of_table(formula, names, points):
    net = af.compile(formula, dict.fromkeys(names, (-1, 1)), tol=1e-3)
    values = np.asarray(net.at_points(points)) + 0.01
    values[3] += 0.1
    return SimpleNamespace(
        network=net.network,
        target=Table(points, values, names),
        certificate=net.certificate,
        construction="table",
        at_points=net.at_points,
    )


def points(inputs, count=40):
    return np.random.default_rng(0).uniform(-1, 1, size=(count, inputs))


@pytest.mark.parametrize("names", [("x",), ("x", "y", "z")])
def test_values_and_errors_at_listed_points(names):
    figure = section(of_table(" + ".join(f"sin(2*{name})" for name in names), names, points(len(names))))
    top, bottom = figure.axes
    labels = [text.get_text() for text in top.get_legend().get_texts()]
    assert labels[:2] == ["attention output", "listed points (40 shown)"]
    error = bottom.get_lines()[0].get_ydata()
    assert len(error) == 40
    assert sorted(error)[-2:] == pytest.approx([0.01, 0.11])
    assert bottom.get_xlabel() == ("x" if len(names) == 1 else "listed point")
    figure.draw_without_rendering()


def test_two_inputs_are_maps():
    where = points(2)
    figure = section(of_table("sin(x)*cos(3*y)", ("x", "y"), where))
    left, right = figure.axes[:2]
    assert left.images[0].get_array().shape == (129, 129)
    logs = right.collections[0].get_array()
    assert logs.max() == pytest.approx(np.log10(0.11))
    assert right.get_lines()[0].get_xydata()[0] == pytest.approx(where[3])
    figure.draw_without_rendering()


def test_a_compiled_table_is_drawn():
    x = np.linspace(0, 1, 30)
    net = af.compile((x, np.sin(5 * x)), {"t": (0, 1)}, tol=1e-2)
    figure = net.plot()
    assert figure.axes[-1].get_xlabel() == "t"
    assert figure.axes[-1].get_lines()[0].get_ydata().max() <= 1e-2
    figure.draw_without_rendering()


def test_long_tables_are_thinned():
    assert _shown(3).tolist() == [0, 1, 2]
    rows = _shown(1_000_000)
    assert len(rows) == MOST_POINTS
    assert (rows[0], rows[-1]) == (0, 999_999)
