"""What a stream is and what is read of it, against exact fractions and runs in any order of summation."""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
import pytest

from attnforge.errors import CertificateError, RefusalError
from attnforge.kernel.stream import Projection, Sources, Stream, less_products, product, rounded_sums
from attnforge.network import Linear, Term
from attnforge.outward import Balls, Up, machine, round_to

DRAWS = int(os.environ.get("ATTNFORGE_EXAMPLES", "60"))
DTYPES = ("float64", "float32", "bfloat16", "float16")
SMALLEST = {"float64": 2.0**-1060, "float32": 2.0**-140, "bfloat16": 2.0**-128, "float16": 2.0**-20}  # subnormal


def exact(array):
    return np.vectorize(Fraction, otypes=[object])(np.asarray(array, dtype=np.float64))


def summed(terms, dtype, rng):
    """One run of a sum: any two of the terms left are added and rounded."""
    left = [float(term) for term in terms]
    while len(left) > 1:
        rng.shuffle(left)
        left.append(float(round_to(np.array([left.pop() + left.pop()]), dtype)[0]))
    return left[0] if left else 0.0


def times(row, matrix, dtype, rng, added=None):
    """One run of a row times a matrix, and of numbers added."""
    found = []
    for j, column in enumerate(matrix.T):
        terms = [float(round_to(np.array([a * b]), dtype)[0]) for a, b in zip(row, column, strict=True) if b != 0]
        found.append(summed(terms + ([float(added[j])] if added is not None and added[j] else []), dtype, rng))
    return np.array(found)


def weights(rng, shape, dtype):
    """Some zero, some powers of two, some of many digits and sizes."""
    kinds = rng.integers(0, 4, shape)
    drawn = np.select(
        [kinds == 0, kinds == 1, kinds == 2],
        [0.0, 2.0 ** rng.integers(-3, 4, shape), rng.normal(size=shape)],
        rng.normal(size=shape) * 10,
    )
    return round_to(drawn * rng.choice([-1, 1], shape), dtype)


def drawn_stream(rng, dtype):
    """A stream of a map, a layer with a residual, and a map; its run; and the numbers in it."""
    d, m, k = rng.integers(1, 4), rng.integers(2, 5), rng.integers(1, 4)
    tiny = SMALLEST[dtype] if rng.integers(4) == 0 else 1.0
    first, constant = weights(rng, (d, m), dtype), weights(rng, (m,), dtype) * (tiny == 1.0)
    outputs, last = weights(rng, (k, m), dtype), weights(rng, (m, m), dtype)
    numbers = round_to(np.concatenate([[1.0], rng.uniform(-1, 1, d + k) * tiny]), dtype)
    low, high = numbers.copy(), numbers.copy()
    low[1:], high[1:] = np.minimum(low[1:], 0.0), np.maximum(high[1:], 0.0)
    sources = Sources(low, high)
    rows = np.arange(1 + d, 1 + d + k)
    stream = Stream.of_inputs(int(d), machine(dtype)).mapped(Linear((Term(first),), constant[None]), sources)
    run = times(numbers[1 : 1 + d], first, dtype, rng, constant)
    residual = bool(rng.integers(2))
    stream = stream.attended(rows, outputs, sources, residual)
    run = times(numbers[1 + d :], outputs, dtype, rng, run if residual else None)
    stream = stream.mapped(Linear((Term(last),)), sources)
    return stream, times(run, last, dtype, rng), numbers, sources


@pytest.mark.parametrize("dtype", DTYPES)
def test_runs_depart_from_the_sum_along_directions_by_the_error(dtype):
    rng, tightest = np.random.default_rng(1), 0.0
    for _ in range(DRAWS):
        stream, run, numbers, sources = drawn_stream(rng, dtype)
        here = exact(numbers[stream.rows])
        off = np.abs(exact(run) - here @ exact(stream.directions.mid))
        slack = np.abs(here) @ exact(stream.directions.rad)
        assert np.all(off <= exact(stream.error.values) + slack)
        low, high = stream.ends(sources)
        assert np.all(low <= run)
        assert np.all(run <= high)
        room = stream.error.values
        tightest = max(tightest, float(np.max(np.where(room > 0, off.astype(float) / np.maximum(room, 1e-300), 0.0))))
    assert tightest > 0.1  # a bound that could be much smaller would be no test of its parts


@pytest.mark.parametrize("dtype", DTYPES)
def test_forms_and_projections_hold_for_any_numbers_that_are_read(dtype):
    rng = np.random.default_rng(2)
    for _ in range(DRAWS):
        stream, run, numbers, sources = drawn_stream(rng, dtype)
        m, k = stream.directions.shape[1], int(rng.integers(1, 3))
        u = rng.normal(size=(m, k)) if rng.integers(2) else weights(rng, (m, k), dtype)
        if rng.integers(2):
            u = np.eye(m)[:, rng.permutation(m)[:k]] * 2.0 ** rng.integers(-2, 3)
        k = u.shape[1]
        read = exact(run) @ exact(u)
        wanted = rng.normal(size=(len(numbers), k)) * 10.0 ** -rng.integers(0, 18)
        near = np.zeros((len(numbers), k))
        near[stream.rows] = stream.directions.mid @ u
        wanted = near + wanted
        error = stream.forms_error(u, Balls.exact(wanted), sources)
        assert np.all(np.abs(read - exact(numbers) @ exact(wanted)) <= exact(error.values))
        matrix = weights(rng, (m, 2), dtype)
        c = np.linalg.lstsq(u, matrix, rcond=None)[0] if rng.integers(2) else rng.normal(size=(k, 2))
        made = Projection.of(stream, sources, matrix[None], u[None], c[None])
        off = np.abs(exact(run) @ exact(matrix) - read @ exact(c) - exact(made.constant[0]))
        assert np.all(off <= exact(made.rest.values[0]))
        rounding = np.abs(exact(times(run, matrix, dtype, rng)) - exact(run) @ exact(matrix))
        assert np.all(rounding <= exact(made.made.values[0]) + np.abs(read) @ exact(made.rates.values[0]))


def test_products_are_exact_where_numbers_are_passed_on():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(4, 3)), np.eye(3)[:, [2, 0]] * [0.5, -4.0]
    assert not product(Balls.exact(a), b).rad.any()
    assert not less_products(a[None], a[None, :, :1], np.array([[[1.0, 0.0, 0.0]]])).mid[0, :, 0].any()
    for _ in range(DRAWS):
        tiny = 10.0 ** -float(rng.choice([0, 161, 100]))  # products of the second are below all normal numbers
        a, b = weights(rng, (3, 4), "float64") * tiny, weights(rng, (4, 2), "float64") * tiny
        known = np.abs(a) * (1e-3 if rng.integers(2) else 0.0)
        found = product(Balls(a, known), b)
        for sign in (-1, 1):
            member = exact(a) + sign * exact(known)
            assert np.all(np.abs(member @ exact(b) - exact(found.mid)) <= exact(found.rad))
        c, full = weights(rng, (2, 2), "float64") * tiny, weights(rng, (4, 2), "float64") * tiny * tiny
        less = less_products(full[None], b[None], c[None])
        assert np.all(np.abs(exact(full) - exact(b) @ exact(c) - exact(less.mid[0])) <= exact(less.rad[0]))


def test_numbers_that_are_not_known_are_not_read():
    sources = Sources(np.array([1.0, -np.inf]), np.array([1.0, np.inf]))
    assert np.isinf(sources.sums(Up.of([[0.0], [1.0]])).values[0])
    assert sources.sums(Up.of([[1.0], [0.0]])).values[0] < 1.0000001
    low, high = sources.ends(Balls.exact([[0.0], [1.0]]))
    assert (low[0], high[0]) == (-np.inf, np.inf)
    with pytest.raises(RefusalError):
        Stream.of_inputs(1, machine("float64")).size(sources)
    with pytest.raises(CertificateError):
        Stream.of_inputs(1, machine("float64")).mapped(Linear((Term(np.ones((1, 1)), np.ones((1, 1))),)), sources)


def test_what_does_not_fit_the_dtype_is_refused():
    with pytest.raises(RefusalError):
        rounded_sums((np.array([-1e5]), np.array([1e5])), np.ones((1, 1)), np.zeros((1, 1)), machine("float16"))


def test_what_a_map_rounds_stays_in_the_stream():
    third = round_to(np.array([[1 / 3]]), "float32")
    numbers = np.array([1.0, float(round_to(np.array([0.7]), "float32")[0]), 0.0])
    sources = Sources(numbers, numbers)
    stream = Stream.of_inputs(1, machine("float32")).mapped(Linear((Term(third),)), sources)
    stream = stream.attended(np.array([2]), np.ones((1, 1)), sources, residual=True)
    run = float(round_to(numbers[1] * third, "float32")[0, 0])
    off = abs(Fraction(run) - Fraction(numbers[1]) * Fraction(third[0, 0]))
    assert 0 < off <= Fraction(stream.error.values[0])
    after = stream.mapped(Linear((Term(np.array([[4.0]])),)), sources)
    assert after.error.values[0] >= 4 * stream.error.values[0]


def test_a_residual_is_one_summand_more():
    numbers = np.array([1.0, *round_to(np.array([0.7, 1 / 3]), "float32")])
    sources = Sources(numbers, numbers)
    stream = Stream.of_inputs(1, machine("float32")).attended(np.array([2]), np.ones((1, 1)), sources, residual=True)
    run = float(round_to(numbers[1:2] + numbers[2:], "float32")[0])
    off = abs(Fraction(run) - Fraction(numbers[1]) - Fraction(numbers[2]))
    assert 0 < off <= Fraction(stream.error.values[0])
