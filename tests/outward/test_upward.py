"""Upper bounds are above the exact results, judged by rational arithmetic, and not by much."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attnforge.outward import Balls, Up, precision, spectral_norm, sum_rounding

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
    assert (zero + infinite).values.tolist() == infinite.values.tolist()
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


@given(matrices, arrays(np.float64, (3, 4), elements=st.floats(1e-100, 1e100)))
@settings(max_examples=60)
def test_quotients_powers_and_roots_only_grow(a, least):
    x = exact(a)
    assert above(Up.of(a) / least, x / exact(least))
    assert above(Up.of(a).least(1e60) ** 3, np.minimum(x, exact(np.float64(1e60))) ** 3)
    assert above(Up.of(a).mean(0), x.sum(axis=0) / 3)
    assert above(Up.of(a) + 0.1, x + Fraction(0.1))
    assert above(0.1 * Up.of(a), x * Fraction(0.1))
    root = exact(Up.of(a).root().values)
    assert np.all(root**2 >= x)


@given(st.one_of(st.just(0.0), st.floats(1e-300, 700.0)))
def test_functions_only_grow(number):
    """Against balls of 200 bits."""
    with precision(200):
        at = arb(number)
        wanted = {"exp": at.exp(), "expm1": at.expm1(), "sinh": at.sinh(), "tanh": at.tanh(), "coshm1": at.cosh() - 1}
        for name, value in wanted.items():
            found = float(getattr(Up.of(number), name)())
            assert arb(found) >= value.lower()
            assert found <= float(value.upper()) * (1 + 1e-12) + 1e-300


def test_exponentials_of_either_sign_and_of_too_much():
    assert Up.exp_of([-1.0, 0.0]).values == pytest.approx([np.exp(-1.0), 1.0], rel=1e-12)
    assert Up.exp_of(-1e6).values > 0
    assert np.isinf(Up.exp_of(1e6).values)
    assert not Up.zeros(2).expm1().values.any()


def test_quotients_by_nothing_positive_are_infinite():
    assert np.isinf((Up.of([1.0, 0.0, 1.0]) / np.array([0.0, 0.0, -1.0])).values).all()
    assert (Up.zeros(2) / 3.0).values.tolist() == [0.0, 0.0]


def test_arrays_on_the_left_are_sizes_too():
    assert isinstance(np.ones(2) * Up.of([1.0, 2.0]), Up)
    assert (np.array([-1.0]) + Up.of([2.0])).values[0] >= 3.0
