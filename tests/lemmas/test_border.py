"""Heads that share a row: the sum of their own shares, by brute force, against the lemma."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.lemmas.border import border, border_estimate

ROUNDING = 1e-13


def counted_twice(c: float, r: int, m: int, heads: int, points: int = 64) -> float:
    """The largest sum of own shares, minus one; ghosts belong to the head at their end."""
    y = np.linspace(-r - 3.0, heads * m + r + 3.0, points * (heads * m + 2 * r + 6) + 1)
    total = np.zeros_like(y)
    for q in range(heads):
        places = np.arange(q * m - r, q * m + m + r)
        own = (places >= q * m) & (places < q * m + m)
        own |= (places < 0) & (q == 0)
        own |= (places >= heads * m) & (q == heads - 1)
        scores = -c * (y[:, None] - places) ** 2
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        total += (weights * own).sum(axis=1) / weights.sum(axis=1)
    assert total.min() >= 1 - ROUNDING  # heads never leave a gap: a check of this very reference
    return float(total.max()) - 1


@pytest.mark.parametrize("r", [1, 2, 3])
@pytest.mark.parametrize("m", [1, 2, 5, 20])
@pytest.mark.parametrize("c", [0.3, 1.0, 2.0, 3.0, 5.0, 8.0])
def test_what_is_counted_twice_is_bounded_within_a_factor_of_three(c, m, r):
    bound, found = border(c, r, m), counted_twice(c, r, m, heads=8 if m < 5 else 4)
    assert found <= bound + ROUNDING
    if bound > 1e-10:
        assert bound <= 3 * found


@given(st.floats(0.1, 20), st.integers(1, 3), st.integers(1, 20), st.integers(2, 6))
@settings(max_examples=25)
def test_any_heads_count_twice_no_more(c, r, m, heads):
    assert counted_twice(c, r, m, heads, points=16) <= border(c, r, m) + ROUNDING


def test_the_leading_terms_of_the_theory():
    for r, leading in (
        (1, lambda c: math.exp(-2 * c)),
        (2, lambda c: math.exp(-4 * c) / 4),
        (3, lambda c: math.exp(-8 * c)),
    ):
        assert border_estimate(3.0, r) == pytest.approx(leading(3.0), rel=1e-12)
        assert counted_twice(3.0, r, 20, 3) == pytest.approx(leading(3.0), rel=0.8)


def test_too_soft_is_infinite():
    assert border(0.009, 2, 10) == math.inf
