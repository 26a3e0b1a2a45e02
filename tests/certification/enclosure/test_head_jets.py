"""Jets of heads: the same from factors as from one flat list of keys, and around what the network computes."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, arb_series, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.balls import Balls, precision
from attnforge.certification.enclosure.factors import Factor, FactorHead
from attnforge.certification.enclosure.head_jets import head_jets

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


def along(head, point, direction):
    """The power series of the head along a line, in high precision."""
    before = ctx.cap
    ctx.cap = DEGREE + 1
    try:
        with precision(160):
            whole, above, below = flat(head), arb_series([arb(0)]), arb_series([arb(0)])
            factor = whole.factors[0]
            for k, value in enumerate(whole.values.mid.tolist()):
                slope = [arb(float(s)) for s in factor.slopes.mid[:, k]]
                start = slope[0] * arb(float(point[0])) + slope[1] * arb(float(point[1])) + arb(factor.offsets.mid[k])
                rise = slope[0] * arb(float(direction[0])) + slope[1] * arb(float(direction[1]))
                weight = arb_series([start, rise]).exp()
                above, below = above + weight * arb(value), below + weight
            quotient = above / below
            return np.array([float(quotient[j].mid()) for j in range(DEGREE + 1)])
    finally:
        ctx.cap = before


def on_line(jets, cell, direction):
    scale = (direction**jets.table.exponents).prod(axis=1)
    rows = [jets.table.totals == j for j in range(DEGREE + 1)]
    mid = np.array([(jets.mid[row, cell] * scale[row]).sum() for row in rows])
    return mid, np.array([(jets.rad[row, cell] * np.abs(scale[row])).sum() for row in rows])


@pytest.mark.parametrize("sizes", [(3,), (3, 4), (2, 3, 4), (1, 2)])
@given(st.integers(0, 10**6))
@settings(max_examples=8, deadline=None)
def test_jets_contain_the_series_along_lines(sizes, seed):
    rng = np.random.default_rng(seed)
    head = random_head(rng, sizes)
    middle, radius, direction = rng.uniform(-1, 1, (2, 2)), rng.uniform(0.001, 0.1, (2, 2)), rng.normal(size=2)
    at, over = head_jets(head, middle, radius, DEGREE)
    for cell in range(2):
        inside = middle[cell] + rng.uniform(-1, 1, 2) * radius[cell]
        for jets, point in ((at, middle[cell]), (over, inside)):
            expected = along(head, point, direction)
            mid, rad = on_line(jets, cell, direction)
            assert (np.abs(mid - expected) <= rad + 1e-13 * (1 + np.abs(expected))).all()
    assert at.rad.max() < 1e-9


def test_factors_and_the_flat_list_agree():
    rng = np.random.default_rng(4)
    head = random_head(rng, (4, 5))
    middle, radius = rng.uniform(-1, 1, (6, 2)), np.full((6, 2), 0.01)
    for by_factors, by_list in zip(
        head_jets(head, middle, radius, DEGREE), head_jets(flat(head), middle, radius, DEGREE), strict=True
    ):
        assert (np.abs(by_factors.mid - by_list.mid) <= by_factors.rad + by_list.rad).all()


def test_cells_too_large_for_any_bound_are_unknown_not_wrong():
    head = random_head(np.random.default_rng(0), (3, 3))
    at, over = head_jets(head, np.zeros((1, 2)), np.full((1, 2), 1e4), DEGREE)
    assert at.known.all()
    assert not over.known.any()
