"""Graded meshes: the wished gap at an edge, gentle growth, both ends hit, ghosts that repeat the last gap."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.anchors.edges import Edge
from attnforge.anchors.mesh import Spacing
from attnforge.anchors.panels import Panels

KINK = Edge(0.3, 1, 2.0)
PANELS = Panels(np.array([-1.0, 0.3, 1.0]), (8, 8))


def rough(panels):
    """Values whose coefficients are all large: every panel needs its whole degree."""
    return np.where(np.arange(len(panels.nodes)) % 2, 1.0, -1.0)[:, None]


def spacing(tol=1e-6, edge=KINK):
    return Spacing.wanted(PANELS, [edge], tol, rough(PANELS))


@pytest.mark.parametrize(("order", "gap"), [(1, 7.5e-7), (2, 7.5e-7**0.5), (3, 7.5e-7 ** (1 / 3))])
def test_the_wish_of_an_edge_follows_from_its_order_and_jump(order, gap):
    wishes = spacing(edge=Edge(0.3, order, 2.0))
    assert wishes.gaps.tolist() == pytest.approx([1.3 / 8, 0.7 / 8, gap])
    assert wishes.left[-1] == wishes.right[-1] == 0.3


@pytest.mark.parametrize("growth", [0.3, 0.5])
@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_gaps_at_the_edge_are_the_wished_ones(scale, growth):
    positions = spacing().anchors(scale, growth, 0)
    nearest = np.diff(positions).min()
    h = 7.5e-7 * scale
    assert 0.9 * h <= nearest <= (1 + growth) * h
    k = int(np.diff(positions).argmin())
    assert abs(positions[k] - 0.3) <= 2 * h


@pytest.mark.parametrize("growth", [0.3, 0.4, 0.5])
def test_gaps_grow_by_a_bounded_factor(growth):
    gaps = np.diff(spacing().anchors(1.0, growth, 0))
    ratios = np.maximum(gaps[1:] / gaps[:-1], gaps[:-1] / gaps[1:])
    # dx/dk = H with H' <= g: gaps grow like exp(g k).
    assert ratios.max() <= np.exp(growth) * 1.02
    assert ratios.max() >= 1 + 0.8 * growth


def test_a_gap_is_never_longer_than_its_panel_asks():
    gaps = np.diff(spacing().anchors(1.0, 0.4, 0))
    assert gaps.max() <= 1.3 / 8 * 1.02


def test_the_count_falls_with_the_scale_and_grows_with_the_logarithm_of_tol():
    counts = [len(spacing().anchors(scale, 0.4, 0)) for scale in (0.25, 0.5, 1.0, 2.0, 4.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]
    by_tol = [len(spacing(tol).anchors(1.0, 0.4, 0)) for tol in (1e-4, 1e-6, 1e-8, 1e-10)]
    steps = np.diff(by_tol)
    expected = 2 * np.log(100) / 0.4  # both sides
    np.testing.assert_allclose(steps, expected, atol=2)


@pytest.mark.parametrize("ghosts", [0, 1, 4])
def test_the_ends_are_hit_and_ghosts_repeat_the_last_gap(ghosts):
    plain, extended = (spacing().anchors(1.0, 0.4, n) for n in (0, ghosts))
    assert plain[0] == -1.0
    assert plain[-1] == 1.0
    assert len(extended) == len(plain) + 2 * ghosts
    np.testing.assert_array_equal(extended[ghosts : ghosts + len(plain)], plain)
    gaps = np.diff(extended)
    np.testing.assert_allclose(gaps[: ghosts + 1], plain[1] - plain[0], rtol=1e-12)
    np.testing.assert_allclose(gaps[len(gaps) - ghosts - 1 :], plain[-1] - plain[-2], rtol=1e-12)


def test_positions_increase_even_at_the_finest_wish():
    positions = spacing(tol=1e-13).anchors(1 / 8, 0.4, 3)
    assert (np.diff(positions) > 0).all()


def test_scores_are_counted_from_the_finest_place():
    assert spacing().finest == 0.3
    panels = Panels(np.array([0.0, 1.0, 2.0]), (4, 16))
    no_edges = Spacing.wanted(panels, [], 1e-6, rough(panels))
    assert no_edges.finest == 1.5


def test_panels_ask_for_the_degree_that_the_tolerance_needs():
    panels = Panels(np.array([0.0, 1.0, 2.0, 3.0]), (8, 8, 8))
    x = panels.nodes
    values = np.where(x < 1, 1e-9 * x, np.where(x < 2, x - 1, (x - 2) ** 2 + 1))[:, None]
    gaps = Spacing.wanted(panels, [], 1e-3, values).gaps
    assert gaps[1:].tolist() == pytest.approx([1.0, 0.5])
    assert gaps[0] >= 3.0  # nothing to resolve
