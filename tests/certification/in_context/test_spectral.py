"""Errors through steps that expand: bounds over eigenvalues against what errors can do at worst."""

import numpy as np
import pytest

from attnforge.balls import Balls, Up
from attnforge.certification.in_context.spectral import Commuting, cells, eigenvalues
from attnforge.targets.in_context.schedule import chebyshev


@pytest.mark.parametrize("seed", range(5))
def test_eigenvalues_are_enclosed(seed):
    rng = np.random.default_rng(seed)
    values, q = np.sort(10.0 ** rng.uniform(-6, 3, 6)), np.linalg.qr(rng.normal(size=(6, 6)))[0]
    matrix = (q * values) @ q.T
    spread = 1e-9 * rng.random()
    moved = rng.uniform(-spread, spread, (6, 6))
    found = eigenvalues(Balls(matrix, np.full((6, 6), spread)))
    for held in (matrix, matrix + (moved + moved.T) / 2):
        exact = np.linalg.eigvalsh((held + held.T) / 2)
        assert np.all(np.abs(exact - found.mid) <= found.rad + 1e-12 * values[-1])
    assert found.rad.max() <= 6 * spread + 1e-11 * values[-1]


def test_cells_cover_the_spectrum():
    found = cells((0.001, 1.0), 50)
    low, high = found.mid - found.rad, found.mid + found.rad
    assert low[0] <= 0.001
    assert high[-1] >= 1.0
    assert np.all(high[:-1] >= low[1:])


def test_the_bound_over_cells_is_above_every_eigenvalue_and_not_far():
    spectrum, steps = (0.01, 1.0), 60
    rates = chebyshev(steps, spectrum)
    errors, points = Commuting(cells(spectrum, steps), 1, Up.of([0.0])), np.linspace(*spectrum, 20_001)
    worst = np.zeros_like(points)
    for rate in rates:
        errors.step(rate, Up.of([rate]))
        worst = np.abs(1 - rate * points) * worst + rate
        assert worst.max() <= float(errors.length()[0])
    assert worst.max() == pytest.approx(1 / spectrum[0], rel=1e-3)  # a gradient off by one, over m
    assert float(errors.swept()[0]) <= 2 * worst.max()
    product = np.abs(np.prod(1 - np.array(rates)[:, None] * points, axis=0)).max()
    assert product <= float(errors.grown()) <= 4 * product


def test_errors_along_any_directions_stay_below_both_bounds():
    rng = np.random.default_rng(0)
    for _ in range(200):
        rates, values = rng.uniform(0, 2, 4), rng.uniform(0, 2, 3)
        q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        errors, reached = Commuting(Balls.exact(values), 3, Up.of([0.0])), np.zeros(3)
        for rate in rates:
            added = rng.normal(size=3) * 10.0 ** rng.uniform(-3, 0)
            reached = reached - rate * (q * values) @ q.T @ reached + added
            errors.step(rate, Up.of([np.linalg.norm(added)]))
            assert np.linalg.norm(reached) <= float(errors.length()[0]) * (1 + 1e-12)
        assert np.linalg.norm(reached) <= float(errors.swept()[0]) * (1 + 1e-12)
