"""Surpluses: interpolation on a downward closed set, equal to the combination technique."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from attnforge.anchors.leja import leja, newton
from attnforge.anchors.surplus import DEGREES, Surpluses, evaluate


def smooth(z):
    return np.stack([np.exp(z @ [0.3, -0.5, 0.2]), np.cos(z @ [1.0, 0.2, 0.4])], axis=1)


def grown(f, inputs=3, rounds=6):
    terms = Surpluses(f, np.ones(inputs, dtype=bool))
    for _ in range(rounds):
        assert terms.grow(10_000)
    return terms


def basis(z):
    return np.stack([newton(leja(DEGREES), column).T for column in z.T])


def coefficients(levels):
    """The c_l of the combination technique."""
    known = set(map(tuple, levels.tolist()))
    shifts = list(product((0, 1), repeat=levels.shape[1]))
    return {
        level: sum((-1) ** sum(shift) * (tuple(np.add(level, shift).tolist()) in known) for shift in shifts)
        for level in known
    }


def interpolated(f, level, z):
    """Lagrange interpolation on the product of the first l + 1 Leja points of every axis."""
    axes = [leja(degree + 1) for degree in level]
    nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    tensor = f(nodes.reshape(-1, len(level))).reshape(*nodes.shape[:-1], -1)
    for a, points in enumerate(axes):
        matrix = newton(points, z[:, a]) @ np.linalg.inv(newton(points, points))
        tensor = np.einsum("nk,k...->n...", matrix, tensor) if a == 0 else np.einsum("nk,nk...->n...", matrix, tensor)
    return tensor


def test_the_set_is_downward_closed_and_each_index_comes_once():
    levels = grown(smooth).levels.tolist()
    known = set(map(tuple, levels))
    assert len(known) == len(levels)
    assert all(
        tuple(np.maximum(np.subtract(level, unit), 0)) in known for level in levels for unit in np.eye(3, dtype=int)
    )


def test_the_sum_interpolates_at_every_point_of_the_set():
    terms = grown(smooth)
    z = terms.points[terms.levels]
    assert evaluate(terms.levels, terms.surpluses, basis(z)) == pytest.approx(smooth(z), abs=1e-13)


def test_the_sum_is_what_the_combination_technique_computes():
    terms = grown(smooth)
    signs = coefficients(terms.levels)
    assert sum(signs.values()) == 1
    z = np.random.default_rng(0).uniform(-1, 1, size=(50, 3))
    wanted = sum(sign * interpolated(smooth, level, z) for level, sign in signs.items() if sign)
    assert evaluate(terms.levels, terms.surpluses, basis(z)) == pytest.approx(wanted, abs=1e-11)


def test_products_of_low_degree_are_exact():
    def low(z):
        return (1 + z[:, :1]) * (2 - z[:, 1:2] ** 2)

    z = np.random.default_rng(0).uniform(-1, 1, size=(50, 2))
    terms = grown(low, inputs=2)
    assert evaluate(terms.levels, terms.surpluses, basis(z)) == pytest.approx(low(z), abs=1e-14)
    assert (np.abs(terms.surpluses[(terms.levels > [1, 2]).any(axis=1)]) < 1e-14).all()


def test_growth_follows_the_inputs_that_matter():
    terms = grown(lambda z: np.exp(z[:, 1:2]), rounds=8)
    assert terms.levels[:, 1].max() > 8
    assert terms.levels[:, [0, 2]].max() == 2


def test_no_growth_along_fixed_inputs():
    terms = Surpluses(smooth, np.array([True, False, True]))
    for _ in range(5):
        terms.grow(10_000)
    assert terms.levels.max(axis=0)[1] == 0


def test_growth_ends_before_too_many_terms_and_with_the_degrees():
    terms = Surpluses(smooth, np.ones(3, dtype=bool))
    while terms.grow(60):
        pass
    assert 20 < len(terms) <= 60
    line = Surpluses(lambda z: np.abs(z), np.ones(1, dtype=bool))
    while line.grow(10_000):
        pass
    assert line.levels.max() == DEGREES - 2


def test_nothing_free_means_nothing_grows():
    fixed = Surpluses(smooth, np.zeros(3, dtype=bool))
    fixed.grow(100)
    assert len(fixed) == 1
    assert not fixed.grow(100)
