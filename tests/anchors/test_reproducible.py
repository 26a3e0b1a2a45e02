import math

import numpy as np
import pytest
from flint import arb

from attnforge.anchors.axis import Axis
from attnforge.anchors.panels import lobatto
from attnforge.anchors.reproducible import Decomposition, cosines, exponential, product
from attnforge.anchors.ties import first_of_least


def test_exponentials_are_right_to_a_unit_in_the_last_place():
    x = -np.concatenate([np.random.default_rng(0).exponential(40, size=2000), [0.0, 2.0**-60, 708.0, 745.0, 800.0]])
    wanted = np.array([float(arb(each).exp()) for each in x])
    assert (np.abs(exponential(x) - wanted) <= np.spacing(wanted)).all()


@pytest.mark.parametrize("terms", [1, 7, 300, 5000])
def test_products_are_nearer_than_sums_in_float64(terms):
    rng = np.random.default_rng(terms)
    a, b = rng.normal(size=(3, terms)) * [[1e9], [1.0], [1e-9]], rng.normal(size=(terms, 2))
    exact = [[math.fsum(float(p) for p in _split(row, column)) for column in b.T] for row in a]
    assert (
        np.allclose(product(a, b), exact, rtol=0, atol=0)
        or (
            np.abs(product(a, b) - exact)
            <= 2.0**-52 * np.abs(exact) + 2.0**-58 * terms * np.abs(a).max(axis=1)[:, None]
        ).all()
    )


def _split(row, column):
    """The products of two vectors, each as two numbers that are exact."""
    high = np.float64(2.0**27 + 1)
    parts = [(each, (each * high) - (each * high - each)) for each in (row, column)]
    (a, top), (b, head) = parts
    low, tail = a - top, b - head
    return np.concatenate([top * head, top * tail, low * head, low * tail])


def test_products_have_the_same_bits_in_any_order():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(20, 90)), rng.normal(size=(90, 5))
    order = rng.permutation(90)
    assert np.array_equal(product(a, b), product(a[:, order], b[order]))
    assert not np.array_equal(a @ b, a[:, order] @ b[order])


@pytest.mark.parametrize(("rows", "columns"), [(40, 12), (12, 12), (6, 10)])
def test_the_decomposition_solves_least_squares(rows, columns):
    rng = np.random.default_rng(rows)
    w, wanted = rng.normal(size=(rows, columns)), rng.normal(size=(rows, 2))
    factors = Decomposition.of(w)
    rank = min(rows, columns)
    values = factors.values(factors.solved(factors.projected(wanted)), rank)
    assert np.allclose(values, np.linalg.lstsq(w, wanted, rcond=None)[0], atol=1e-12)


def test_truncated_it_errs_as_singular_values_do():
    axis, x = Axis.uniform(-1.0, 1.0, 40, 8, 0.3), lobatto(-1.0, 1.0, 160)
    w, wanted = axis.weights(x), np.sin(8 * x)[:, None]
    factors, (u, s, vt) = Decomposition.of(w), np.linalg.svd(w, full_matrices=False)
    solved = factors.solved(factors.projected(wanted))
    for rank in (24, 30, 34, 38):
        best = np.abs(w @ (vt[:rank].T @ ((u.T @ wanted)[:rank] / s[:rank, None])) - wanted).max()
        assert np.abs(w @ factors.values(solved, rank) - wanted).max() < 2 * best
    assert (factors.sizes[:36] > 0.5 * s[:36]).all()
    assert (factors.sizes[:36] < 2 * s[:36]).all()


def test_cosines_are_symmetric_and_nested():
    assert np.array_equal(cosines(16), -cosines(16)[::-1])
    assert np.array_equal(cosines(32)[::2], cosines(16))
    assert np.allclose(cosines(5, 0.5), np.cos(np.pi * (np.arange(6) + 0.5) / 5), atol=1e-15)


def test_what_is_clearly_less_is_chosen():
    assert first_of_least([1.0, 1 - 1e-6, 2.0]) == 0
    assert first_of_least([1.0, 0.9, 0.9 - 1e-9]) == 1
    assert first_of_least([0.0, 0.0]) == 0
