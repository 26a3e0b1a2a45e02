"""Upper bounds are above the exact results, judged by rational arithmetic, and not by much."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attnforge.balls import Balls, Up, spectral_norm, sum_rounding

numbers = st.one_of(
    st.just(0.0), st.floats(1e-120, 1e120), st.sampled_from([0.1, 1 / 3, 1.0, 2.0**-53, 5e-324, 1e-200])
)
matrices = arrays(np.float64, (3, 4), elements=numbers)


def exact(values: np.ndarray) -> np.ndarray:
    return np.vectorize(Fraction, otypes=[object])(values)


def above(bound: Up, wanted: np.ndarray, slack: Fraction = Fraction(1, 2**40)) -> bool:
    found = exact(bound.values)
    return bool(np.all(found >= wanted) and np.all(found <= wanted * (1 + slack) + Fraction(1, 2**1000)))


@given(matrices, matrices)
@settings(max_examples=60)
def test_sums_products_and_norms_only_grow(a, b):
    x, y = exact(a), exact(b)
    assert above(Up.of(a) + Up.of(-b), x + y)
    assert above(Up.of(a) * Up.of(b), x * y)
    assert above(Up.of(a) * -0.1, x * Fraction(0.1))
    assert above(Up.of(a) @ Up.of(b).T, x @ y.T)
    assert above(Up.of(a).sum(0), x.sum(axis=0))
    norm = Up.of(a).norm()
    assert above(Up(norm.values), exact(norm.values))
    assert np.all(exact(norm.values) ** 2 >= (x * x).sum(axis=1))


def test_zero_stays_zero_and_what_is_no_number_is_infinite():
    zero, infinite = Up.zeros(2, 2), Up.of([[np.inf, 1.0], [0.0, 0.0]])
    assert not (zero @ Up.of(np.ones((2, 2)))).values.any()
    assert not (zero + zero).values.any()
    assert not (zero * infinite).values.any()
    assert not (infinite @ zero).values.any()
    assert np.isinf((infinite @ Up.of([[0.0, 1.0], [1.0, 0.0]])).values[0]).all()
    assert np.isinf(Up.of([np.nan]).values).all()


def test_least_most_and_transposed():
    a, b = Up.of([[1.0, 4.0]]), Up.of([[2.0, 3.0]])
    assert a.least(b).values.tolist() == [[1.0, 3.0]]
    assert float(b.most().values) == 3.0
    assert a.T.values.tolist() == [[1.0], [4.0]]
    assert Up.of(Balls(np.array([-1.0]), np.array([0.5]))).values[0] >= 1.5


@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (7, 3), (3, 7), (40, 40)])
@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
def test_spectral_norms_are_above_and_close(shape, scale):
    rng = np.random.default_rng(0)
    mid = scale * rng.normal(size=(4, *shape))
    rad = 1e-6 * scale * rng.random((4, *shape))
    bound = spectral_norm(Balls(mid, rad)).values
    for each in range(4):
        inside = mid[each] + rad[each] * rng.choice([-1.0, 1.0], size=shape)
        assert np.linalg.norm(inside, 2) <= bound[each]
        assert spectral_norm(Balls.exact(mid[each])).values <= np.linalg.norm(mid[each], 2) * (1 + 1e-12)


def test_a_spectral_norm_known_exactly_is_not_undercut():
    """A rational rotation times 5: the norm is 5, and float64 does not get below."""
    matrix = np.array([[3.0, -4.0], [4.0, 3.0]])
    assert 5.0 <= spectral_norm(Balls.exact(matrix)).values <= 5.0 * (1 + 1e-13)
    assert spectral_norm(Balls.exact(np.zeros((3, 2)))).values <= 1e-150
    assert spectral_norm(Balls.exact(np.full((2, 2), np.inf))).values == np.inf


def trees(terms: tuple[float, ...]):
    """The float16 sums of the terms in all orders and all bracketings."""
    if len(terms) == 1:
        yield np.float16(terms[0])
    for size in range(1, len(terms)):
        for left in itertools.combinations(range(len(terms)), size):
            if 0 in left:
                right = tuple(t for i, t in enumerate(terms) if i not in left)
                for a in set(trees(tuple(terms[i] for i in left))):
                    yield from (np.float16(a + b) for b in set(trees(right)))


@pytest.mark.parametrize("seed", range(6))
def test_sums_in_every_order_stay_within_their_rounding(seed):
    """Products of float16 numbers added up along every binary tree, against the exact sum."""
    rng = np.random.default_rng(seed)
    x, w = (rng.normal(size=5).astype(np.float16) for _ in range(2))
    w[0] = 0.0 if seed % 2 else w[0]
    products = tuple(float(np.float16(a * b)) for a, b in zip(x, w, strict=True))
    terms = x.astype(np.float64) * w.astype(np.float64)
    bound = sum_rounding(Up.of(np.maximum(terms, 0))[:, None], Up.of(np.maximum(-terms, 0))[:, None], 2.0**-11)
    worst = max(abs(float(total) - terms.sum()) for total in set(trees(products)))
    assert 0 < worst <= bound.values[0] <= 5 * 2.0**-11 * np.abs(terms).sum() * 1.1


def test_rounding_of_sums_of_both_signs_is_smaller_than_of_one():
    ones = np.ones((40, 1))
    half = np.where(np.arange(40)[:, None] % 2, 1.0, 0.0)
    same = sum_rounding(Up.of(ones), Up.zeros(40, 1), 2.0**-53).values[0]
    mixed = sum_rounding(Up.of(half), Up.of(1 - half), 2.0**-53).values[0]
    assert mixed < 0.8 * same
    assert sum_rounding(Up.zeros(3, 2), Up.zeros(3, 2), 0.5).values.tolist() == [0.0, 0.0]
