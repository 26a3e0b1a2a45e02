"""Max-affine partitions: cells, scores and values, read from the weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnforge as af
from attnforge.network import Attention, Claims, Head, Network, Rows
from attnforge.plot import partition
from attnforge.plot.partition import MOST_CELLS, Cells, _area, _breaks, _polygon, cells_of
from attnforge.targets import Formula

SQUARE = {"x": (0, 1), "y": (0, 1)}
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])


def voronoi(centres):
    return Cells(2 * centres, -np.square(centres).sum(axis=1), np.arange(len(centres), dtype=float), centres)


def drawn(figure):
    return figure.axes[0].collections[0]


def test_intervals_of_a_hard_grid():
    net = af.constructions.max_affine("sin(5*x)", {"x": (0, 1)}, cells=4, sharpness="hard")
    cells = cells_of(net.network, net.target)
    breaks, chosen = _breaks(cells, net.domain)
    assert np.allclose(breaks, [0, 0.25, 0.5, 0.75, 1])
    assert chosen.tolist() == [0, 1, 2, 3]
    assert np.allclose(cells.values, np.sin(5 * np.array([0.125, 0.375, 0.625, 0.875])))
    figure = partition(net)
    top, bottom = figure.axes
    at = np.linspace(0, 1, 1025)[:, None]
    (envelope,) = [line for line in top.get_lines() if line.get_label() == "the largest, which chooses"]
    assert np.array_equal(envelope.get_ydata(), cells.scores(at).max(axis=1))
    assert "4 cells" in figure.get_suptitle()
    assert [t.get_text() for t in bottom.get_legend().get_texts()] == [
        "target",
        "value of the cell",
        "attention output",
    ]


def test_ghosts_beyond_the_edge_are_no_cells():
    net = af.constructions.max_affine("sin(5*x)", {"x": (0, 1)}, cells=4)
    assert net.anchors > 4
    assert len(_breaks(cells_of(net.network, net.target), net.domain)[1]) == 4
    square = af.constructions.max_affine("x*y", SQUARE, cells=3)
    assert len(drawn(partition(square)).get_paths()) == 9


def test_the_scores_choose_what_attention_chooses():
    centres = np.random.default_rng(3).uniform(size=(15, 2))
    net = af.constructions.max_affine("sin(5*x)*y", SQUARE, cells=centres)
    points = np.random.default_rng(4).uniform(size=(200, 2))
    assert np.array_equal(cells_of(net.network, net.target).scores(points).argmax(axis=1), net.partition(points))


def test_adaptive_cells_on_a_line_and_in_the_plane():
    line = af.constructions.max_affine("sqrt(x)", {"x": (0, 1)}, cells=af.anchors.Adaptive(8))
    breaks, chosen = _breaks(cells_of(line.network, line.target), line.domain)
    assert len(chosen) == 8
    assert np.diff(breaks)[0] < np.diff(breaks)[-1]  # finer where the root is steep
    middles = (breaks[1:] + breaks[:-1]) / 2
    assert np.array_equal(line.partition(middles), chosen)
    partition(line).draw_without_rendering()
    plane = af.constructions.max_affine("sqrt(x + y)", SQUARE, cells=af.anchors.Adaptive(12))
    assert len(drawn(partition(plane)).get_paths()) == 12


def test_literal_layout_and_pairs():
    literal = af.constructions.max_affine("sin(5*x)", {"x": (0, 1)}, cells=4, sharpness="hard", layout="literal")
    lean = af.constructions.max_affine("sin(5*x)", {"x": (0, 1)}, cells=4, sharpness="hard")
    found, wanted = (cells_of(net.network, net.target) for net in (literal, lean))
    assert np.allclose(found.values, wanted.values)
    assert np.allclose(_breaks(found, lean.domain)[0], _breaks(wanted, lean.domain)[0])
    box = af.Box(0, 1, shape=(1,))
    pairs = af.constructions.cross_attention(lambda x, y: x[..., 0] * y[..., 0], box, box, grid=3)
    figure = partition(pairs)
    figure.draw_without_rendering()
    assert len(drawn(figure).get_paths()) == 9


def test_two_tokens_of_one_feature():
    box = af.Box(0, 1, shape=(2, 1))
    net = af.constructions.max_affine(lambda x: np.sort(x, axis=-2), box, cells=3, sharpness="hard", lipschitz=1)
    cells = cells_of(net.network, net.target)
    assert len(cells.values) == 9
    assert cells.values[1] == pytest.approx(1 / 6)  # of (1/6, 1/2) sorted, the first token
    assert len(drawn(partition(net)).get_paths()) == 9


@given(st.integers(2, 25), st.integers(0, 2**16))
def test_cells_tile_the_square(count, seed):
    """Areas add up to one, and every corner of a cell is nearest to its centre."""
    cells = voronoi(np.random.default_rng(seed).uniform(size=(count, 2)))
    polygons = [_polygon(cells, j, CORNERS) for j in range(count)]
    assert sum(_area(polygon) for polygon in polygons if len(polygon) > 2) == pytest.approx(1)
    for j, polygon in enumerate(polygons):
        scores = cells.scores(polygon)
        assert (scores[:, j] >= scores.max(axis=1) - 1e-9).all()


@given(st.integers(1, 30), st.integers(0, 2**16))
def test_intervals_are_where_the_score_is_largest(count, seed):
    rng = np.random.default_rng(seed)
    cells = Cells(rng.normal(size=(count, 1)), rng.normal(size=count), np.zeros(count), None)
    breaks, chosen = _breaks(cells, af.Box(-2, 2, shape=(1,)))
    assert (breaks[0], breaks[-1]) == (-2, 2)
    assert (np.diff(breaks) > 0).all()
    middles = (breaks[1:] + breaks[:-1]) / 2
    assert np.array_equal(cells.scores(middles[:, None]).argmax(axis=1), chosen)


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: af.constructions.gate([1.0], 0.0, -1, 1), "a network of gate"),
        (lambda: af.compile("sin(x)", {"x": (-1, 1)}, tol=1e-2), "a network of tensor_grid"),
        (
            lambda: af.constructions.max_affine("x*y*z", dict.fromkeys("xyz", (0, 1)), cells=2, sharpness="hard"),
            "3 inputs",
        ),
        (lambda: af.constructions.max_affine("x", {"x": (0, 1)}, cells=MOST_CELLS + 1, sharpness="hard"), "cells"),
    ],
)
def test_networks_without_cells_are_refused(build, complaint):
    with pytest.raises(af.RefusalError, match=complaint):
        partition(build())


def test_claims_are_not_trusted():
    """A head that says its keys are cells, but whose scores are the square of the input: refused."""
    claims = Claims("max_affine", 1.0, np.zeros((1, 1)), ("cell",))
    one = np.ones((1, 1))
    head = Head(one, one, key=one, value=one, key_rows=Rows(), claims=claims)
    with pytest.raises(af.RefusalError, match="Cells need affine scores"):
        cells_of(Network((Attention((head,)),), 1, 1), Formula("x", af.Box(0, 2, shape=(1,)), ("x",)))
