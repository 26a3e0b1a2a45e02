"""Piecewise Chebyshev interpolation: nodes, matrices and coefficients against polynomials known by heart."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnforge.anchors.panels import Panels, barycentric, chebyshev_coefficients, lobatto
from attnforge.errors import DomainError

panels_of_any_kind = st.builds(
    lambda start, parts: Panels(start + np.cumsum([0.0, *(length for length, _ in parts)]), tuple(n for _, n in parts)),
    st.floats(-100, 100),
    st.lists(st.tuples(st.floats(1e-3, 10), st.integers(1, 40)), min_size=1, max_size=5),
)


def test_hand_computed_nodes():
    assert lobatto(-1.0, 1.0, 1).tolist() == [-1.0, 1.0]
    np.testing.assert_allclose(lobatto(0.0, 4.0, 4), [0, 2 - np.sqrt(2), 2, 2 + np.sqrt(2), 4], rtol=1e-15)
    panels = Panels(np.array([0.0, 1.0, 3.0]), (2, 1))
    assert panels.nodes.tolist() == [0.0, 0.5, 1.0, 3.0]
    assert panels.slices == (slice(0, 3), slice(2, 4))
    assert Panels.whole(-1.0, 1.0, 2).nodes.tolist() == [-1.0, 0.0, 1.0]


@pytest.mark.parametrize("degree", [1, 2, 8, 15, 64])
def test_doubling_the_degree_keeps_every_node(degree):
    assert lobatto(-0.3, 1.7, degree).tolist() == lobatto(-0.3, 1.7, 2 * degree)[::2].tolist()


@given(panels_of_any_kind)
def test_nodes_increase_and_contain_every_edge(panels):
    nodes = panels.nodes
    assert len(nodes) == sum(panels.degrees) + 1
    assert (np.diff(nodes) > 0).all()
    assert nodes[np.concatenate([[0], np.cumsum(panels.degrees)])].tolist() == panels.edges.tolist()


@given(panels_of_any_kind, st.integers(0, 3))
def test_the_matrix_is_exact_at_nodes_and_reproduces_constants(panels, seed):
    points = np.random.default_rng(seed).uniform(panels.edges[0], panels.edges[-1], 50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (panels.interpolation(panels.nodes) == np.eye(len(panels.nodes))).all()
        matrix = panels.interpolation(points)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=0, atol=1e-13)


@pytest.mark.parametrize("degree", [1, 3, 7])
def test_polynomials_of_the_degree_are_reproduced_and_of_the_next_are_not(degree):
    panels, x = Panels(np.array([-1.0, 0.2, 1.0]), (degree, degree)), np.linspace(-1, 1, 101)
    for power in range(degree + 1):
        np.testing.assert_allclose(panels.interpolation(x) @ panels.nodes**power, x**power, rtol=0, atol=1e-14)
    missed = panels.interpolation(x) @ panels.nodes ** (degree + 1) - x ** (degree + 1)
    assert np.abs(missed).max() > 1e-6


def test_panels_do_not_mix():
    """|x| with an edge at 0 needs degree one only, and the node of one side has no influence on the other."""
    panels, x = Panels(np.array([-1.0, 0.0, 1.0]), (1, 1)), np.linspace(-1, 1, 33)
    np.testing.assert_allclose(panels.interpolation(x) @ np.abs(panels.nodes), np.abs(x), rtol=0, atol=3e-16)
    assert not panels.interpolation(x[x < 0])[:, 2].any()


@pytest.mark.parametrize(("place", "floats"), [(1.0, 200), (1e6, 300), (-3.0, 5000)])
def test_a_panel_a_few_floats_long_still_interpolates(place, floats):
    """Weights of ideal nodes would be wrong in the second digit here: rounding moves the nodes."""
    step = float(np.spacing(abs(place)))
    nodes = lobatto(place, place + floats * step, 8)
    x = place + step * np.arange(floats + 1)
    found = barycentric(nodes, x) @ ((nodes - place) / (floats * step)) ** 2
    np.testing.assert_allclose(found, (np.arange(floats + 1) / floats) ** 2, rtol=0, atol=1e-13)


def test_high_degrees_neither_overflow_nor_lose_digits():
    panels, x = Panels.whole(-1e-3, 1e-3, 1000), np.linspace(-1e-3, 1e-3, 777)
    np.testing.assert_allclose(
        panels.interpolation(x) @ np.sin(3e5 * panels.nodes), np.sin(3e5 * x), rtol=0, atol=1e-12
    )


def test_hand_computed_coefficients():
    x = lobatto(-1.0, 1.0, 3)
    np.testing.assert_allclose(chebyshev_coefficients(4 * x**3 - 3 * x), [0, 0, 0, 1], atol=1e-15)  # T_3
    assert chebyshev_coefficients([2.0, 4.0]).tolist() == [3.0, 1.0]  # 3 + x
    panels = Panels(np.array([0.0, 2.0, 4.0]), (2, 1))
    first, second = panels.coefficients(np.stack([panels.nodes, panels.nodes**0], axis=1))
    np.testing.assert_allclose(first, [[1, 1], [1, 0], [0, 0]], atol=1e-15)
    np.testing.assert_allclose(second, [[3, 1], [1, 0]], atol=1e-15)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=30))
def test_coefficients_give_the_values_back(values):
    n = len(values) - 1
    found = np.polynomial.chebyshev.chebval(lobatto(-1.0, 1.0, n), chebyshev_coefficients(values))
    np.testing.assert_allclose(found, values, rtol=0, atol=1e-12)


@given(panels_of_any_kind, st.sampled_from([0.5, 1, 2, 3.5]))
def test_samples_are_dense_and_contain_every_edge(panels, per_degree):
    samples = panels.samples(per_degree)
    assert (np.diff(samples) > 0).all()
    assert np.isin(panels.edges, samples).all()
    assert (samples[0], samples[-1]) == (panels.edges[0], panels.edges[-1])
    for (a, b), n in zip(pairwise(panels.edges), panels.degrees, strict=True):
        inside = np.count_nonzero((samples >= a) & (samples <= b))
        assert per_degree * n <= inside - 1 < max(1, per_degree * n) + 1


@pytest.mark.parametrize(
    ("edges", "degrees", "complaint"),
    [
        ([0.0, 0.0], (1,), r"`edges` must be finite and strictly increasing\. Got \[0\.0, 0\.0\]\. Sort them"),
        ([1.0], (), "at least the two ends"),
        ([0.0, np.nan], (1,), "finite"),
        ([0.0, 1.0], (0,), r"`degrees` must be one whole number >= 1 for each panel\. Got 1 panels and degrees \(0,\)"),
        ([0.0, 1.0], (1, 1), "Give one degree a panel"),
        ([1.0, 1.0 + 1e-15], (64,), r"nodes must be distinct float64 numbers\. Got a panel of length 1\.11e-15"),
    ],
)
def test_what_panels_refuse(edges, degrees, complaint):
    with pytest.raises(DomainError, match=complaint):
        Panels(np.array(edges), degrees)


def test_points_outside_and_values_of_another_length_are_refused():
    panels = Panels.whole(0.0, 1.0, 2)
    with pytest.raises(DomainError, match=r"`x` must be an \(N,\) array in \[0, 1\]\. Got 0\.5 to 1\.5\."):
        panels.interpolation([0.5, 1.5])
    with pytest.raises(DomainError, match=r"Got shape \(1, 1\)"):
        panels.interpolation([[0.5]])
    with pytest.raises(DomainError, match=r"`values` must have 3 rows\. Got shape \(2,\)\. Evaluate at `nodes`"):
        panels.coefficients([1.0, 2.0])
