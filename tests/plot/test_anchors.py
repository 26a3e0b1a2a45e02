"""Anchors and their values: one head, several along one form, sums, grids."""

from functools import cache

import numpy as np
import pytest

import attnforge as af
from attnforge.plot import anchors
from tests.plot.test_wiring import sum_of_terms


@cache
def kinked():
    return af.compile("sin(8*x) + abs(x)", {"x": (-1, 1)}, tol=1e-3)


def said(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def dots(axes):
    """Positions of all scattered dots, role by role."""
    return [c.get_offsets() for c in axes.collections if type(c).__name__ == "PathCollection"]


def test_one_row_shows_positions_values_and_gaps():
    net = kinked()
    top, gaps = anchors(net).axes
    head = net.network.heads[0]
    found = np.concatenate(dots(top))
    assert len(found) == net.anchors
    held = dict(zip(head.claims.positions[:, 0], head.memory_values[:, 0], strict=True))
    assert all(held[x] == y for x, y in found)
    assert [text.partition(" ")[0] for text in said(top)] == ["domain", "ghost", "anchor"]
    assert gaps.get_yscale() == "log"


def test_roles_have_markers_of_their_own():
    top = anchors(kinked()).axes[0]
    markers = {c.get_paths()[0].vertices.tobytes() for c in top.collections if type(c).__name__ == "PathCollection"}
    assert len(markers) == 2


def test_even_anchors_have_no_panel_of_gaps():
    assert len(anchors(af.constructions.truncated_linear([1.0], 0.1, -1, 1, anchors=9)).axes) == 1


def test_heads_along_one_form_are_rows():
    net = af.constructions.multihead_truncated_linear([1.0], 0.1, -1, 1, tokens=10, heads=3)
    axes = anchors(net).axes[0]
    assert said(axes) == ["ghost", "anchor", "sentinel"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["1", "2", "3"]
    assert sum(map(len, dots(axes))) == 30
    heights = {y for at in dots(axes) for _, y in at}
    assert heights == {0, 1, 2}


def test_sums_have_a_panel_a_term():
    panels = [axes for axes in anchors(sum_of_terms()).axes if axes.get_legend() is not None]
    assert [axes.get_xlabel() for axes in panels] == ["x", "y", "x"]
    assert panels[2].get_ylabel() == "z"


def test_forms_that_have_the_same_name_have_panels_of_their_own():
    """Both forms are written w · x + t, for they are long."""
    names = [f"x{i}" for i in range(1, 6)]
    terms = "abs(x1 + x2 + x3 + x4 + x5) + sin(x1 - x2 + x3 - x4 + x5)"
    figure = anchors(af.compile(terms, dict.fromkeys(names, (-1, 1)), tol=0.3))
    panels = [axes for axes in figure.axes if axes.get_legend() is not None]
    assert [axes.get_xlabel() for axes in panels] == ["w · x + t"] * 2
    assert "2 heads; " in figure.get_suptitle()


def test_short_forms_of_many_inputs_are_written_out():
    names = [f"x{i}" for i in range(1, 6)]
    net = af.compile("x1 + abs(x2) + sin(x3) + x4*0.5 + x5", dict.fromkeys(names, (-1, 1)), tol=0.1)
    panels = [axes for axes in anchors(net).axes if axes.get_legend() is not None]
    assert [axes.get_xlabel() for axes in panels] == ["x2", "x3", "x1 + 0.5 x4 + x5"]


def test_a_pair_of_inputs_is_named_x_and_y():
    box = af.Box(0, 1, shape=(1,))
    axes = anchors(af.constructions.cross_attention(lambda x, y: x[..., 0] * y[..., 0], box, box, grid=2)).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("X", "Y")


def test_grids_are_coloured_by_value():
    net = af.constructions.max_affine("sin(5*x)*y", {"x": (0, 1), "y": (0, 2)}, cells=4, sharpness="hard")
    axes, bar = anchors(net).axes
    (cells,) = [c for c in axes.collections if type(c).__name__ == "PathCollection"]
    head = net.network.heads[0]
    assert np.array_equal(cells.get_offsets(), head.claims.positions)
    assert np.array_equal(cells.get_array(), head.memory_values[:, 0])
    assert bar.get_ylabel() == "value held"


@pytest.mark.parametrize(
    "build",
    [
        lambda: af.constructions.gate([1.0], 0.1, -1, 1),
        lambda: af.constructions.truncated_linear([1.0], 0.1, -1, 1, anchors=5, layout="literal"),
        lambda: af.compile("abs(x - 2*y)", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-2, construction="ridge"),
        lambda: af.compile((np.random.default_rng(0).uniform(size=(9, 2)), np.arange(9.0))),
        lambda: af.constructions.max_affine(lambda x: x[..., 0], af.Box(0, 1, shape=(1,)), cells=1, lipschitz=1),
    ],
    ids=["gate", "literal", "ridge", "table", "one cell"],
)
def test_other_kinds_are_drawn(build):
    anchors(build()).draw_without_rendering()


def test_networks_without_such_keys_are_refused():
    box = af.Box(0, 1, shape=(3,))
    net = af.constructions.max_affine(lambda x: x.sum(axis=-1), box, cells=2, lipschitz=3)
    with pytest.raises(af.RefusalError, match="anchors along one or two inputs"):
        anchors(net)


def test_keys_of_registers_have_no_place_among_the_inputs():
    with pytest.raises(af.RefusalError, match=r"plot\.graph"):
        anchors(af.compile("exp(-x^2)*cos(3*y)", {"x": (-1, 1), "y": (0, 2)}, tol=1e-3))
