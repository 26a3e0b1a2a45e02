"""Sums over keys by matrices of floats or balls, against the same sums key by key in balls."""

import numpy as np
import pytest
from flint import arb

from attnforge.balls import machine
from attnforge.certification.checker.heads import _curved
from attnforge.certification.checker.powers import few, sums
from attnforge.certification.checker.search import exactly
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, ZERO, Cell
from attnforge.certification.checker.values import Place, Value, constant

ORDER = 5


def key_by_key(cell, keys, key, values):
    """The coefficients of every column's sum at the middle, of scores less ``key``'s."""
    total = [[ZERO] * cell.terms.count for _ in values[0]]
    query = [*cell.middle, ONE]
    for row, numbers in zip(keys.tolist(), values.tolist(), strict=True):
        apart = [arb(k) - arb(w) for k, w in zip(row, key.tolist(), strict=True)]
        score = cell.terms.constant(sum((a * q for a, q in zip(apart, query, strict=True)), start=ZERO))
        for axis, slope in zip(cell.terms.axes, apart, strict=False):
            score[axis] = slope
        weights = [score[0].exp() * c for c in cell.terms.exponential(score)]
        total = [
            [t + w * arb(v) for t, w in zip(column, weights, strict=True)]
            for column, v in zip(total, numbers, strict=True)
        ]
    return total


def in_balls(place, query, keys, key, values):
    """The same sums by matrices of balls."""
    numbers = [[arb(x) for x in row] for row in values.tolist()]
    return few(place.cell, _curved(place, query, keys, key), numbers)


@pytest.mark.parametrize("sums", [sums, in_balls])
@pytest.mark.parametrize("sharpness", [0.01, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("seed", range(4))
def test_coefficients_and_rest_are_those_of_the_sum_key_by_key(sums, sharpness, seed):
    rng = np.random.default_rng(seed)
    keys = sharpness * rng.normal(size=(25, 3))
    values = np.c_[rng.normal(size=25) * 10.0 ** rng.uniform(-3, 3, 25), np.ones(25)]
    low = rng.uniform(-1, 1, 2)
    high = low + 10.0 ** rng.uniform(-5, -1, 2) / max(sharpness, 1.0)
    with exactly(ORDER), np.errstate(all="ignore"):
        space = Space(low.tolist(), high.tolist())
        cell = Cell(tuple(low.tolist()), tuple(high.tolist()), ORDER)
        place = Place(space, cell, machine("float64"))
        query = [Value(place, Form({i: ONE}, ZERO), 0.0) for i in range(2)] + [constant(place, 1.0)]
        winner = int((keys @ [*(low + high) / 2, 1.0]).argmax())
        *models, weight = sums(place, query, keys, keys[winner], values)
        quotients = [cell.divide(model, weight) for model in models]  # the slope taken off all sums cancels in them
        for point in [*rng.uniform(low, high, (5, 2)).tolist(), low.tolist(), high.tolist(), None]:
            where = cell if point is None else Cell(tuple(point), tuple(point), ORDER)
            *above, below = key_by_key(where, keys, keys[winner], values)
            for column, found in zip(above, quotients, strict=True):
                wanted = where.terms.multiply(column, where.terms.inverse(below))
                assert all(o.overlaps(w) for o, w in zip(found.over, wanted, strict=True))
                assert found.rest < 1e-3 * np.abs(values).max()
                if point is None:
                    assert all(a.overlaps(w) for a, w in zip(found.at, wanted, strict=True))
                    assert float(found.at[0].rad()) < 1e-13 * np.abs(values).max()
                    continue
                steps = [arb(x) - m for x, m in zip(point, cell.middle, strict=True)]
                powers = [steps[0] ** i * steps[1] ** j for i, j in cell.terms.exponents]
                polynomial = sum((c * t for c, t in zip(found.at, powers, strict=True)), start=ZERO)
                assert (polynomial + arb(0, found.rest)).overlaps(wanted[0])


def test_what_overflows_is_not_known():
    with exactly(ORDER):
        place = Place(Space((0.0,), (1.0,)), Cell((0.0,), (1.0,), ORDER), machine("float64"))
        query = [Value(place, Form({0: ONE}, ZERO), 0.0)]
        (model,) = sums(place, query, np.array([[0.0], [1e6]]), np.array([1e6]), np.ones((2, 1)))
        assert model.at[0].is_finite()
        assert not any(x.is_finite() for x in model.over)
        assert not model.rest < float("inf")
