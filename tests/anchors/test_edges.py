"""Edges found by zooming: their place, order and jump; and what must not be taken for an edge."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.anchors.edges import Edge, Noise, locate, worst
from attnforge.errors import DomainError


def column(f):
    return lambda x: np.asarray(f(x), dtype=np.float64)[:, None]


def power_of_the_part_above(x, s, order):
    return np.where(x > s, (x - s) ** order, 0.0)


@pytest.mark.parametrize(
    ("f", "interval", "edge"),
    [
        (np.abs, (-1.0, 1.0), Edge(0.0, 1, 2.0)),
        (np.abs, (-1.0, 1.37), Edge(0.0, 1, 2.0)),
        (lambda x: np.sin(8 * x) + np.abs(x), (-1.0, 1.0), Edge(0.0, 1, 2.0)),
        (lambda x: np.abs(x - 0.3), (-1.0, 1.0), Edge(0.3, 1, 2.0)),
        (lambda x: np.exp(x) - 5 * np.maximum(x - 2.125, 0), (-1.0, 3.0), Edge(2.125, 1, 5.0)),
        (lambda x: np.abs(x - 1000.5), (1000.0, 1002.0), Edge(1000.5, 1, 2.0)),
        (lambda x: np.abs(x - 1e-9), (0.0, 3e-9), Edge(1e-9, 1, 2.0)),
        (lambda x: x * np.abs(x), (-1.0, 1.0), Edge(0.0, 2, 4.0)),
        (lambda x: (x - 0.123) * np.abs(x - 0.123), (-1.0, 1.0), Edge(0.123, 2, 4.0)),
        (lambda x: np.abs(x - 0.2) ** 3, (-1.0, 1.0), Edge(0.2, 3, 12.0)),
        (lambda x: np.sign(x - 0.3), (-1.0, 1.0), Edge(0.3, 0, 2.0)),
        (lambda x: x > 0, (-1.0, 1.0), Edge(0.0, 0, 1.0)),
    ],
)
def test_edges_at_short_decimals_are_found_exactly(f, interval, edge):
    found = locate(column(f), *interval)
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


def test_a_place_that_is_no_short_decimal_is_not_rounded():
    found = locate(column(lambda x: np.abs(x - 1 / 3)), -1.0, 1.0)
    assert found is not None
    assert found.at == pytest.approx(1 / 3, rel=0, abs=4e-16)
    near = 0.3 + 1e-11
    found = locate(column(lambda x: np.abs(x - near)), -1.0, 1.0)
    assert found is not None
    assert found.at == pytest.approx(near, rel=0, abs=1e-15)


@pytest.mark.parametrize(
    "f",
    [
        np.exp,
        lambda x: 0 * x + 1,
        lambda x: 3 * x + 1,
        lambda x: np.sin(50 * x),
        lambda x: np.sin(600 * x),
        lambda x: np.tanh(1e3 * (x - 0.3)),
        lambda x: np.tanh(1e6 * (x - 0.3)),
        lambda x: np.tanh(1e10 * (x - 0.3)),
        lambda x: 1 / (1 + 1e8 * x * x),
        lambda x: np.abs(x - 0.2) ** 5,
    ],
)
def test_smooth_but_steep_is_no_edge(f):
    assert worst(column(f), -1.0, 1.0) is None


@pytest.mark.parametrize(
    ("f", "at", "order"),
    [
        (np.sqrt, 0.0, 1),
        (lambda x: x * np.log(np.maximum(x, 1e-300)), 0.0, 1),
        (lambda x: x**1.5, 0.0, 2),
        (lambda x: np.sqrt(1 - x), 1.0, 1),
        (lambda x: np.sqrt(np.abs(x - 0.3)), 0.3, 1),
        (lambda x: np.abs(x - 0.77) ** 1.5, 0.77, 2),
        (lambda x: np.cbrt(x - 0.5), 0.5, 1),
    ],
)
def test_unbounded_derivatives_have_the_order_of_the_first_of_them(f, at, order):
    found = locate(column(f), 0.0, 1.0)
    assert found is not None
    assert (found.at, found.order) == (at, order)


def test_the_worst_output_decides():
    found = locate(lambda x: np.stack([np.sin(x), np.abs(x - 0.25), 1e3 + x], axis=1), -1.0, 1.0)
    assert found is not None
    assert (found.at, found.order) == (0.25, 1)
    assert found.jump == pytest.approx(2.0)


@pytest.mark.parametrize("size", [1e-3, 1.0])
def test_noise_is_told_from_edges(size):
    def f(x):
        return np.sin(x) + size * np.modf(np.sin(x * 12.9898) * 43758.5453e6)[0]

    found = worst(column(f), -1.0, 1.0)
    assert isinstance(found, Noise)
    assert size / 10 < found.size < 2 * size
    assert locate(column(f), -1.0, 1.0) is None


def test_a_kink_in_single_precision_is_still_a_kink():
    def f(x):
        single = x.astype(np.float32)
        return np.sin(single) + np.abs(single - np.float32(0.3))

    found = locate(column(f), -1.0, 1.0)
    assert found is not None
    assert found.order == 1
    assert found.at == pytest.approx(0.3, abs=2e-7)
    assert found.jump == pytest.approx(2.0, rel=0.2)


@pytest.mark.parametrize(("f", "most"), [(np.abs, 130), (lambda x: np.tanh(1e3 * x), 120), (np.sign, 350)])
def test_few_evaluations(f, most):
    points = []

    def counted(x):
        points.append(x)
        return f(x)[:, None]

    locate(counted, -1.0, 1.1)
    everything = np.concatenate(points)
    assert len(everything) <= most
    assert everything.min() >= -1.0
    assert everything.max() <= 1.1


@pytest.mark.parametrize("ends", [(1.0, 1.0), (2.0, 1.0), (0.0, np.inf), (np.nan, 1.0)])
def test_an_empty_interval_is_refused(ends):
    with pytest.raises(DomainError, match=r"an interval must be finite and not empty\. Got .*\. Give lower < upper"):
        locate(column(np.abs), *ends)
