"""Models of heads: the same from factors as from one flat list of keys, and around what the network computes."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.balls import Balls, precision
from attnforge.certification.enclosure.degrees import degrees
from attnforge.certification.enclosure.factors import Factor, FactorHead
from attnforge.certification.enclosure.head_models import head_models
from attnforge.certification.enclosure.taylor_models import Models

DEGREE = 4


def random_head(rng, sizes, inputs=2):
    """A product of random factors: the first reads x, the second y, a third nothing."""
    reads = [(0,), (1,), ()]
    factors = []
    for size, read in zip(sizes, reads, strict=False):
        slopes = np.zeros((inputs, size))
        slopes[list(read)] = rng.normal(size=(len(read), size)) * 3
        factors.append(Factor(Balls.exact(slopes), Balls.exact(rng.normal(size=size)), read))
    return FactorHead(tuple(factors), Balls.exact(rng.normal(size=sizes)))


def flat(head):
    """The same head as one list of keys."""
    slopes, offsets = np.zeros((2, 1)), np.zeros(1)
    for factor in head.factors:
        slopes = (slopes[:, :, None] + factor.slopes.mid[:, None]).reshape(2, -1)
        offsets = (offsets[:, None] + factor.offsets.mid).ravel()
    rounded = Balls(slopes, 1e-15 * np.abs(slopes)), Balls(offsets, 1e-15 * np.abs(offsets) + 1e-15)
    return FactorHead((Factor(*rounded, (0, 1)),), Balls.exact(head.values.mid.ravel()))


def value(head, point):
    """The head at a point, in high precision."""
    with precision(160):
        whole, above, below = flat(head), arb(0), arb(0)
        factor = whole.factors[0]
        for k, each in enumerate(whole.values.mid.tolist()):
            slope = [arb(float(s)) for s in factor.slopes.mid[:, k]]
            score = slope[0] * arb(float(point[0])) + slope[1] * arb(float(point[1])) + arb(factor.offsets.mid[k])
            above, below = above + score.exp() * arb(each), below + score.exp()
        return float((above / below).mid())


def models(head, lower, upper):
    return head_models(head, Models.variables(degrees(2, DEGREE), np.asarray(lower, float), np.asarray(upper, float)))


def polynomial(found, cell, t):
    return float((found.c[:, cell] * (t**found.table.exponents).prod(axis=1)).sum())


@pytest.mark.parametrize("sizes", [(3,), (3, 4), (2, 3, 4), (1, 2)])
@given(st.integers(0, 10**6))
@settings(max_examples=8, deadline=None)
def test_models_hold_every_value_closely(sizes, seed):
    rng = np.random.default_rng(seed)
    head = random_head(rng, sizes)
    middle, radius = rng.uniform(-1, 1, (2, 2)), rng.uniform(0.001, 0.1, (2, 2))
    lower, upper = middle - radius, middle + radius
    found, at = models(head, lower, upper), models(head, middle, middle)
    for cell in range(2):
        point = rng.uniform(lower[cell], upper[cell])
        t = (point - (lower + upper)[cell] / 2) / ((upper - lower)[cell] / 2)
        for model, where, by in ((found, point, t), (at, middle[cell], np.zeros(2))):
            expected = value(head, where)
            assert abs(polynomial(model, cell, by) - expected) <= model.rest.values[cell] + 1e-13 * (1 + abs(expected))
    assert at.rest.values.max() < 1e-11
    assert found.rest.values.max() < 0.1


def test_factors_and_the_flat_list_agree():
    rng = np.random.default_rng(4)
    head = random_head(rng, (4, 5))
    middle = rng.uniform(-1, 1, (6, 2))
    by_factors, by_list = (models(each, middle - 0.01, middle + 0.01) for each in (head, flat(head)))
    apart = np.abs(by_factors.c - by_list.c).sum(axis=0)
    assert (apart <= by_factors.rest.values + by_list.rest.values).all()


def test_on_cells_too_large_for_any_expansion_a_head_is_among_its_values():
    head = random_head(np.random.default_rng(0), (3, 3))
    with np.errstate(all="ignore"):
        low, high = models(head, np.full((1, 2), -1e4), np.full((1, 2), 1e4)).range()
    assert low[0] == pytest.approx(head.values.mid.min())
    assert high[0] == pytest.approx(head.values.mid.max())


def test_values_that_are_unsure_make_the_head_as_unsure():
    head = random_head(np.random.default_rng(0), (3, 3))
    unsure = FactorHead(head.factors, Balls(head.values.mid, np.full((3, 3), 0.125)))
    sure, other = (models(each, np.zeros((1, 2)), np.ones((1, 2))) for each in (head, unsure))
    assert other.rest.values[0] == pytest.approx(sure.rest.values[0] + 0.125)
