"""Panels, edges and resolved functions: the error between nodes at fresh points, the price, and what is no edge."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.anchors.edges import Edge, locate, worst
from attnforge.anchors.panels import Panels, barycentric, lobatto
from attnforge.anchors.resolve import resolve
from tests.refusals import refused

panels_of_any_kind = st.builds(
    lambda start, parts: Panels(start + np.cumsum([0.0, *(length for length, _ in parts)]), tuple(n for _, n in parts)),
    st.floats(-100, 100),
    st.lists(st.tuples(st.floats(1e-3, 10), st.integers(1, 40)), min_size=1, max_size=5),
)


@given(panels_of_any_kind, st.integers(0, 3))
def test_the_matrix_is_exact_at_nodes_and_reproduces_constants(panels, seed):
    points = np.random.default_rng(seed).uniform(panels.edges[0], panels.edges[-1], 50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (panels.interpolation(panels.nodes) == np.eye(len(panels.nodes))).all()
        matrix = panels.interpolation(points)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("place", "floats"), [(1.0, 200), (1e6, 300), (-3.0, 5000)])
def test_a_panel_a_few_floats_long_still_interpolates(place, floats):
    """Weights of ideal nodes would be wrong in the second digit here: rounding moves the nodes."""
    step = float(np.spacing(abs(place)))
    nodes = lobatto(place, place + floats * step, 8)
    x = place + step * np.arange(floats + 1)
    found = barycentric(nodes, x) @ ((nodes - place) / (floats * step)) ** 2
    np.testing.assert_allclose(found, (np.arange(floats + 1) / floats) ** 2, rtol=0, atol=1e-13)


def column(f):
    return lambda x: np.asarray(f(x), dtype=np.float64)[:, None]


def power_of_the_part_above(x, s, order):
    return np.where(x > s, (x - s) ** order, 0.0)


EDGES = [
    (np.abs, -1.0, 1.37, Edge(0.0, 1, 2.0)), (lambda x: np.sin(8 * x) + np.abs(x), -1.0, 1.0, Edge(0.0, 1, 2.0)),
    (lambda x: np.exp(x) - 5 * np.maximum(x - 2.125, 0), -1.0, 3.0, Edge(2.125, 1, 5.0)),
    (lambda x: np.abs(x - 1000.5), 1000.0, 1002.0, Edge(1000.5, 1, 2.0)),
    (lambda x: np.abs(x - 1e-9), 0.0, 3e-9, Edge(1e-9, 1, 2.0)), (lambda x: x > 0, -1.0, 1.0, Edge(0.0, 0, 1.0)),
    (lambda x: (x - 0.123) * np.abs(x - 0.123), -1.0, 1.0, Edge(0.123, 2, 4.0)),
    (lambda x: np.abs(x - 0.2) ** 3, -1.0, 1.0, Edge(0.2, 3, 12.0)),
    (lambda x: np.sign(x - 0.3), -1.0, 1.0, Edge(0.3, 0, 2.0)),
]  # fmt: skip


@pytest.mark.parametrize(("f", "low", "high", "edge"), EDGES)
def test_edges_at_short_decimals_are_found_exactly(f, low, high, edge):
    found = locate(column(f), low, high)
    assert found is not None
    assert (found.at, found.order) == (edge.at, edge.order)
    assert found.jump == pytest.approx(edge.jump, rel=1e-8)


@settings(max_examples=60, deadline=None)
@given(st.floats(-0.9, 0.9), st.integers(0, 3), st.floats(0.5, 5), st.floats(0, 3))
def test_edges_at_random_places(s, order, jump, wave):
    def f(x):
        return jump * power_of_the_part_above(x, s, order) / math.factorial(order) + 1e-2 * np.sin(wave * x)

    found = locate(column(f), -1.0, 1.0)
    assert found is not None
    assert found.order == order
    assert found.at == pytest.approx(s, rel=0, abs=(1e-15, 2e-14, 1e-10, 1e-7)[order])
    assert found.jump == pytest.approx(jump, rel=(1e-6, 1e-10, 1e-7, 1e-4)[order])


STEEP = [
    np.exp, lambda x: 0 * x + 1, lambda x: 3 * x + 1, lambda x: np.sin(600 * x), lambda x: np.tanh(1e3 * (x - 0.3)),
    lambda x: np.tanh(1e6 * (x - 0.3)), lambda x: np.tanh(1e10 * (x - 0.3)), lambda x: 1 / (1 + 1e8 * x * x),
    lambda x: np.abs(x - 0.2) ** 5,
]  # fmt: skip


@pytest.mark.parametrize("f", STEEP)
def test_smooth_but_steep_is_no_edge(f):
    assert worst(column(f), -1.0, 1.0) is None


SINGULAR = [
    (np.sqrt, 0.0, 1), (lambda x: x * np.log(np.maximum(x, 1e-300)), 0.0, 1), (lambda x: x**1.5, 0.0, 2),
    (lambda x: np.sqrt(1 - x), 1.0, 1), (lambda x: np.sqrt(np.abs(x - 0.3)), 0.3, 1),
    (lambda x: np.abs(x - 0.77) ** 1.5, 0.77, 2), (lambda x: np.cbrt(x - 0.5), 0.5, 1),
]  # fmt: skip


@pytest.mark.parametrize(("f", "at", "order"), SINGULAR)
def test_unbounded_derivatives_have_the_order_of_the_first_of_them(f, at, order):
    found = locate(column(f), 0.0, 1.0)
    assert found is not None
    assert (found.at, found.order) == (at, order)


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


RESOLVED = {  # nodes at a millionth and at 1e-10, and edges
    "sin(8x)": (lambda x: np.sin(8 * x), (-1, 1), (20, 26), []),
    "Runge": (lambda x: 1 / (1 + 25 * x * x), (-1, 1), (84, 130), []),
    "sin(600x)": (lambda x: np.sin(600 * x), (-1, 1), (730, 1060), []),
    "a wave and a kink": (lambda x: np.sin(8 * x) + np.abs(x), (-1, 1), (43, 43), [0.0]),
    "a kink at a third": (lambda x: np.abs(x - 1 / 3), (-1, 1), (3, 3), [1 / 3]),
    "a clamp": (lambda x: np.clip(x, -1, 1), (-4, 4), (4, 4), [-1.0, 1.0]),
    "x|x|": (lambda x: x * np.abs(x), (-1, 1), (5, 5), [0.0]),
    "waves that cross": (lambda x: np.maximum(np.sin(5 * x), np.cos(5 * x)), (-2, 2), (102, 102),
                         [(k + 0.25) * np.pi / 5 for k in range(-3, 3)]),
    "a layer": (lambda x: np.tanh(1000 * (x - 0.3)), (-1, 1), (80, 115), []),
    "a root": (np.sqrt, (0, 1), (120, 310), []),
    "a root inside": (lambda x: np.sqrt(np.abs(x - 0.3)), (-1, 1), (240, 240), [0.3]),
    "a line": (lambda x: 3 * x + 1, (-1, 2), (2, 2), []),
    "a small jump": (lambda x: x + 1e-12 * (x > 0.3), (-1, 1), (2, 2), []),
    "outputs": (lambda x: np.stack([np.sin(x), np.abs(x - 0.25), np.maximum(x, 0.7)]), (-1, 1), (40, 50), [0.25, 0.7]),
    "a large wave": (lambda x: 1e6 * np.sin(x) + np.abs(x), (-10, 10), (400, 400), [0.0]),
}  # fmt: skip


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("name", RESOLVED)
def test_resolved_functions_at_fresh_points(name, which):
    f, (low, high), nodes, edges = RESOLVED[name]
    tol = 1e-6 if name in ("a large wave", "a root inside") else (1e-6, 1e-10)[which]  # closer, float64 has no room
    found = check(lambda x: np.asarray(f(x), dtype=float).reshape(-1, len(x)).T, float(low), float(high), tol)
    assert len(found.panels.nodes) <= nodes[which]
    np.testing.assert_allclose([edge.at for edge in found.edges], edges, rtol=0, atol=2e-15)


@pytest.mark.parametrize("degree", [8, 16, 32, 64])
def test_a_function_that_vanishes_at_the_first_nodes_is_not_zero(degree):
    """(1 - x^2) U_{n-1} vanishes at all Lobatto points of degree n, and of every n that divides it."""
    found = check(column(lambda x: np.sqrt(1 - x * x) * np.sin(degree * np.arccos(x))), -1.0, 1.0, 1e-6)
    assert len(found.panels.nodes) > degree


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


def test_noise_ends_the_search_soon():
    def f(x):
        return (np.sin(x) + 1e-3 * np.modf(np.sin(x * 12.9898) * 43758.5453)[0])[:, None]

    found = resolve(f, -1.0, 1.0, 1e-6)
    assert not found.resolved
    assert "the values are irregular by about" in found.reason
    assert found.evaluations <= 1000
    check(f, -1.0, 1.0, 0.1)


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


WRONG = {
    "an axis too few": (np.abs, -1.0, 1.0, 1e-6), "three rows": (lambda x: np.zeros((3, 1)), -1.0, 1.0, 1e-6),
    "a width that changes": (lambda x: np.zeros((len(x), len(x))), -1.0, 1.0, 1e-6),
    "a NaN": (column(lambda x: np.where(x == 0, np.nan, x)), -1.0, 1.0, 1e-6),
    "an empty interval": (column(np.abs), 1.0, 1.0, 1e-6), "tol zero": (column(np.abs), -1.0, 1.0, 0.0),
    "tol NaN": (column(np.abs), -1.0, 1.0, np.nan),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_resolved_is_refused(name):
    with refused():
        resolve(*WRONG[name])


def test_what_is_too_steep_or_too_large_is_said():
    steep = resolve(column(lambda x: np.sqrt(x - 3)), 3.0, 4.0, 1e-10)
    large = resolve(column(lambda x: np.sin(600 * x)), -1.0, 1.0, 1e-6, largest=200)
    assert not steep.resolved
    assert not large.resolved
    assert "too steep" in steep.reason
    assert "needed" in large.reason
