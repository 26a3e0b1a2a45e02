"""Leja points are nested, extremal, and their Newton polynomials never exceed one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attnforge.anchors.leja import leja, newton


def test_the_first_points_by_hand():
    # z (z - 1) (z + 1) is extremal at 1 / sqrt(3)
    assert leja(4).tolist() == [0.0, 1.0, -1.0, pytest.approx(1 / math.sqrt(3), abs=1e-15)]


def test_points_are_nested():
    assert np.array_equal(leja(20)[:7], leja(7))


def test_every_point_is_where_the_product_of_distances_is_largest():
    points, z = leja(12), np.linspace(-1, 1, 40_001)
    for m in range(1, 12):
        distances = np.abs(z[:, None] - points[:m]).prod(axis=1)
        assert np.abs(points[m] - points[:m]).prod() >= distances.max() * (1 - 1e-12)


def test_newton_polynomials_are_triangular_and_at_most_one():
    points = leja(32)
    matrix = newton(points, points)
    assert np.array_equal(np.diag(matrix), np.ones(32))
    assert not np.triu(matrix, 1).any()
    assert np.abs(newton(points, np.linspace(-1, 1, 5001))).max() <= 1 + 1e-12
