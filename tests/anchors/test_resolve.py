"""Functions resolved by panels: the error between nodes, the edges, the price; and what cannot be resolved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.anchors.edges import Edge
from attnforge.anchors.resolve import resolve
from attnforge.errors import DomainError, TargetError, ToleranceError

TOLERANCES = (1e-6, 1e-10, 1e-13)


def column(f):
    return lambda x: np.asarray(f(x), dtype=np.float64)[:, None]


def largest_error(found, f):
    """At fresh points: random ones, ones that crowd at both ends of every panel, and the middles between nodes."""
    edges, nodes = found.panels.edges, found.panels.nodes
    lengths, crowd = np.diff(edges)[:, None], np.logspace(-9, -1, 20)
    random = np.random.default_rng(0).uniform(edges[0], edges[-1], 1000)
    near = np.concatenate([(edges[:-1, None] + lengths * crowd).ravel(), (edges[1:, None] - lengths * crowd).ravel()])
    x = np.clip(np.concatenate([random, near, (nodes[1:] + nodes[:-1]) / 2]), edges[0], edges[-1])
    return float(np.abs(found(x) - f(x)).max())


def check(f, lower, upper, tol):
    """What every resolved function obeys."""
    found = resolve(f, lower, upper, tol)
    assert found.resolved, found.reason
    assert found.reason == ""
    assert largest_error(found, f) <= tol
    assert found.error <= tol
    assert found.values.shape == (len(found.panels.nodes), f(np.array([lower])).shape[1])
    np.testing.assert_array_equal(found(found.panels.edges), f(found.panels.edges))
    assert (found.panels.edges[0], found.panels.edges[-1]) == (lower, upper)
    return found


@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize(
    ("f", "nodes"),
    [
        (lambda x: np.sin(8 * x), (20, 26, 30)),
        (lambda x: 1 / (1 + 25 * x * x), (84, 130, 165)),
        (np.exp, (9, 12, 15)),
    ],
    ids=["sin(8x)", "Runge", "exp"],
)
def test_analytic_functions_take_one_panel(f, nodes, tol):
    found = check(column(f), -1.0, 1.0, tol)
    assert found.edges == ()
    assert len(found.panels.degrees) == 1
    assert len(found.panels.nodes) <= nodes[TOLERANCES.index(tol)]
    assert found.evaluations <= 300


@pytest.mark.parametrize("tol", TOLERANCES)
def test_a_kink_cuts_the_interval_in_two(tol):
    found = check(column(lambda x: np.sin(8 * x) + np.abs(x)), -1.0, 1.0, tol)
    assert found.panels.edges.tolist() == [-1.0, 0.0, 1.0]
    (edge,) = found.edges
    assert (edge.at, edge.order) == (0.0, 1)
    assert edge.jump == pytest.approx(2.0, rel=1e-9)
    assert found.evaluations <= 255  # 24 of them close to the kink
    assert len(found.panels.nodes) <= 43


@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize(
    ("f", "interval", "edges", "nodes"),
    [
        (lambda x: np.abs(x - 1 / 3), (-1.0, 1.0), [Edge(1 / 3, 1, 2.0)], 3),
        (lambda x: np.clip(x, -1, 1), (-4.0, 4.0), [Edge(-1.0, 1, 1.0), Edge(1.0, 1, 1.0)], 4),
        (lambda x: x * np.abs(x), (-1.0, 1.0), [Edge(0.0, 2, 4.0)], 5),
        (
            lambda x: np.maximum(np.sin(5 * x), np.cos(5 * x)),
            (-2.0, 2.0),
            [Edge((k + 0.25) * np.pi / 5, 1, 5 * np.sqrt(2)) for k in range(-3, 3)],
            102,
        ),
    ],
    ids=["|x-1/3|", "clamp", "x|x|", "max(sin,cos)"],
)
def test_all_kinks_are_found(f, interval, edges, nodes, tol):
    found = check(column(f), *interval, tol)
    assert [edge.order for edge in found.edges] == [edge.order for edge in edges]
    np.testing.assert_allclose([e.at for e in found.edges], [e.at for e in edges], rtol=0, atol=2e-15)
    np.testing.assert_allclose([e.jump for e in found.edges], [e.jump for e in edges], rtol=1e-8)
    assert len(found.panels.degrees) == len(edges) + 1
    assert len(found.panels.nodes) <= nodes


def test_a_kink_hit_by_chance_is_reported():
    """The kink is too small beside the wave to be seen at first, and the first cut, in the middle, hits it."""
    found = check(column(lambda x: 1e6 * np.sin(x) + np.abs(x)), -10.0, 10.0, 1e-6)
    (edge,) = found.edges
    assert (edge.at, edge.order) == (0.0, 1)
    assert edge.jump == pytest.approx(2.0, rel=1e-2)


@pytest.mark.parametrize(("tol", "nodes"), [(1e-6, 80), (1e-10, 115), (1e-13, 160)])
def test_a_steep_layer_is_refined_without_edges(tol, nodes):
    found = check(column(lambda x: np.tanh(1000 * (x - 0.3))), -1.0, 1.0, tol)
    assert found.edges == ()
    assert len(found.panels.nodes) <= nodes


@pytest.mark.parametrize(
    ("f", "nodes"),
    [
        (np.sqrt, (120, 310, 525)),
        (lambda x: np.where(x > 0, x * np.log(np.where(x > 0, x, 1.0)), 0.0), (65, 165, 270)),
    ],
    ids=["sqrt", "x log x"],
)
@pytest.mark.parametrize("tol", TOLERANCES)
def test_singular_ends_take_panels_that_shrink_towards_them(f, nodes, tol):
    found = check(column(f), 0.0, 1.0, tol)
    assert found.edges == ()
    lengths = np.diff(found.panels.edges)
    assert (lengths[2:] > 1.9 * lengths[1:-1])[:5].all()
    assert len(found.panels.nodes) <= nodes[TOLERANCES.index(tol)]


def test_a_singularity_inside_is_an_edge_with_panels_on_both_sides():
    found = check(column(lambda x: np.sqrt(np.abs(x - 0.3))), -1.0, 1.0, 1e-6)
    assert [(edge.at, edge.order) for edge in found.edges] == [(0.3, 1)]
    assert len(found.panels.nodes) <= 240


@pytest.mark.parametrize(("frequency", "nodes"), [(100, 145), (64 * np.pi, 256), (600, 730)])
def test_oscillations_are_not_aliased(frequency, nodes):
    found = check(column(lambda x: np.sin(frequency * x)), -1.0, 1.0, 1e-6)
    assert found.edges == ()
    assert len(found.panels.nodes) <= nodes


@pytest.mark.parametrize("degree", [8, 16, 32, 64])
def test_a_function_that_vanishes_at_the_first_nodes_is_not_zero(degree):
    """(1 - x^2) U_{n-1} vanishes at all Lobatto points of degree n, and of every n that divides it."""
    found = check(column(lambda x: np.sqrt(1 - x * x) * np.sin(degree * np.arccos(x))), -1.0, 1.0, 1e-6)
    assert len(found.panels.nodes) > degree


@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize("f", [lambda x: 0 * x, lambda x: 0 * x + 7, lambda x: 3 * x + 1], ids=["0", "7", "3x+1"])
def test_constants_and_lines_take_degree_one(f, tol):
    found = check(column(f), -1.0, 2.0, tol)
    assert found.panels.degrees == (1,)
    assert found.evaluations <= 45


def test_outputs_share_panels_and_edges():
    def f(x):
        return np.stack([np.sin(x), np.abs(x - 0.25), np.maximum(x, 0.7)], axis=1)

    found = check(f, -1.0, 1.0, 1e-10)
    assert [(edge.at, edge.order) for edge in found.edges] == [(0.25, 1), (0.7, 1)]
    assert found.panels.edges.tolist() == [-1.0, 0.25, 0.7, 1.0]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-0.95, 0.95), st.floats(-4, 4), st.sampled_from([1, 2])), max_size=4),
    st.floats(0, 20),
    st.sampled_from([1e-4, 1e-7, 1e-10]),
)
def test_any_sum_of_kinks_and_a_wave_is_resolved(kinks, wave, tol):
    def f(x):
        return sum((c * np.maximum(x - s, 0.0) ** k for s, c, k in kinks), np.sin(wave * x + 1))[:, None]

    check(f, -1.0, 1.0, tol)


@pytest.mark.parametrize("smooth", [lambda x: 0 * x, lambda x: np.sin(4 * x)])
def test_a_jump_ends_the_search(smooth):
    found = resolve(column(lambda x: np.sign(x - 0.3) + smooth(x)), -1.0, 1.0, 1e-6)
    assert not found.resolved
    (edge,) = found.edges
    assert edge.order == 0
    assert edge.at == pytest.approx(0.3, rel=0, abs=1e-15)
    assert edge.jump == pytest.approx(2.0, rel=1e-9)
    assert found.reason == "the value jumps by 2 at x = 0.3"
    assert found.error > 0.5
    assert found.evaluations <= 350


def test_a_jump_below_the_tolerance_is_followed():
    check(column(lambda x: x + 1e-8 * (x > 0.3)), -1.0, 1.0, 1e-6)


def test_noise_ends_the_search_soon():
    def f(x):
        return (np.sin(x) + 1e-3 * np.modf(np.sin(x * 12.9898) * 43758.5453)[0])[:, None]

    found = resolve(f, -1.0, 1.0, 1e-6)
    assert not found.resolved
    assert "the values are irregular by about" in found.reason
    assert found.evaluations <= 1000
    check(f, -1.0, 1.0, 0.1)


def test_steeper_than_floats_allow_is_said():
    found = resolve(column(lambda x: np.sqrt(x - 3)), 3.0, 4.0, 1e-10)
    assert not found.resolved
    assert found.reason.startswith("f is too steep for float64 at x = 3.0: it changes by")
    check(column(lambda x: np.sqrt(x - 3)), 3.0, 4.0, 1e-6)


def test_the_number_of_nodes_is_limited():
    found = resolve(column(lambda x: np.sin(600 * x)), -1.0, 1.0, 1e-6, largest=200)
    assert not found.resolved
    assert found.reason in ("more than 200 nodes are needed", "more than 3200 evaluations are needed")
    assert (found.panels.edges[0], found.panels.edges[-1]) == (-1.0, 1.0)
    assert len(found.values) == len(found.panels.nodes)


def test_every_value_is_computed_once_and_rounds_are_batched():
    calls = []

    def f(x):
        calls.append(x)
        return np.tanh(1000 * (x - 0.3))[:, None]

    found = resolve(f, -1.0, 1.0, 1e-6)
    everything = np.concatenate(calls)
    assert len(np.unique(everything)) == len(everything) == found.evaluations
    assert everything.min() == -1.0
    assert everything.max() == 1.0
    assert len(calls) <= 60


@pytest.mark.parametrize(
    ("f", "complaint"),
    [
        (np.abs, r"`f` must map \(N,\) arrays to \(N, k\) arrays\. Got \(9,\) to \(9,\)\. Return one row"),
        (lambda x: np.zeros((3, 1)), r"Got \(9,\) to \(3, 1\)"),
        (lambda x: np.zeros((len(x), len(x))), r"Got \(8,\) to \(8, 8\)|Got \(33,\) to \(33, 33\)"),
        (
            column(lambda x: np.where(x == 0, np.nan, x)),
            r"`f` must be finite on the interval\. Got \[nan\] at x = 0\.0",
        ),
    ],
)
def test_bad_functions_are_refused(f, complaint):
    with pytest.raises(TargetError, match=complaint):
        resolve(f, -1.0, 1.0, 1e-6)


def test_bad_intervals_and_tolerances_are_refused():
    with pytest.raises(DomainError, match=r"an interval must be finite and not empty\. Got \[1\.0, 1\.0\]"):
        resolve(column(np.abs), 1.0, 1.0, 1e-6)
    for tol in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ToleranceError, match=r"`tol` must be a positive number\. Got .*\. Ask for"):
            resolve(column(np.abs), -1.0, 1.0, tol)
