"""Terms: ranges rounded outward, the segment between extreme corners, cuts through the middle, words."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnforge.targets import Box
from attnforge.targets.structure.term import constant_term, cut_term, form_range, input_term, ridge_term

NAMES = ("x", "y", "z")
BOX = Box([-1, 0, 2], [1, 2, 5])
NUMBERS = st.floats(-100, 100, allow_subnormal=False)


def inside(points):
    BOX.check(points)
    return points


def test_the_segment_joins_the_extreme_corners():
    term = ridge_term(inside, BOX, NAMES, [1, -0.5, 0])
    assert (term.lower, term.upper) == ([-2], [1])
    np.testing.assert_array_equal(term.values(np.array([[-2.0], [1.0]])), [[-1, 2, 3.5], [1, 0, 3.5]])
    np.testing.assert_allclose(term.values(np.array([[-0.5]])), [[0, 1, 3.5]], rtol=1e-15)


@given(st.lists(NUMBERS, min_size=3, max_size=3).filter(lambda w: max(map(abs, w)) > 1e-3), st.floats(0, 1))
def test_on_the_segment_the_form_has_the_value_asked_for(weights, share):
    term = ridge_term(inside, BOX, NAMES, weights)
    wanted = term.lower + share * (term.upper - term.lower)
    np.testing.assert_allclose(term.values(wanted[None]) @ np.array(weights), wanted, atol=1e-12)


@given(st.lists(NUMBERS, min_size=3, max_size=3), NUMBERS)
def test_the_range_contains_all_corners_and_is_one_step_wide_of_them(weights, offset):
    low, high = form_range(np.array(weights), offset, BOX)
    corners = np.array(np.meshgrid(*zip(BOX.lower, BOX.upper, strict=True))).reshape(3, -1).T
    exact = [
        sum((Fraction(w) * Fraction(x) for w, x in zip(weights, corner, strict=True)), Fraction(offset))
        for corner in corners.tolist()
    ]
    assert low <= min(exact) < np.nextafter(low, np.inf)
    assert np.nextafter(high, -np.inf) < max(exact) <= high


def test_arguments_beyond_the_range_are_moved_to_its_end():
    for term in (ridge_term(inside, BOX, NAMES, [1, 1, 1]), input_term(inside, BOX, NAMES, [0, 2])):
        ends = np.stack([term.lower, term.upper])
        np.testing.assert_array_equal(term.values(ends + np.array([[-1.0], [1.0]])), term.values(ends))


def test_a_form_without_range_is_evaluated_at_the_one_point():
    term = ridge_term(lambda x: x, Box([1, 2], [1, 2]), ("x", "y"), [1, 1])
    np.testing.assert_array_equal(term.values(np.array([[3.0], [4.0]])), [[1, 2], [1, 2]])


def test_cuts_are_summed_with_their_factors_in_one_call():
    calls = []

    def product(points):
        calls.append(points.copy())
        return points.prod(axis=1, keepdims=True)

    term = cut_term(product, BOX, NAMES, [0, 2], [((), 1), ((0,), -1), ((0, 1), 2)])
    # the middle is (0, 1, 3.5): 0 - x * 1 * 3.5 + 2 x * 1 * z
    np.testing.assert_allclose(term.values(np.array([[0.5, 4.0], [1.0, 2.0]])), [[2.25], [0.5]])
    assert [len(call) for call in calls] == [6]


def test_a_term_at_points_reads_its_forms():
    term = input_term(lambda x: x[:, [0]] + 10 * x[:, [2]], BOX, NAMES, [2])
    np.testing.assert_array_equal(term.at(np.array([[-1.0, 2.0, 3.0]])), [[30.0]])


def test_longdouble_stays_longdouble():
    for term in (ridge_term(inside, BOX, NAMES, [1, 1, 1]), input_term(inside, BOX, NAMES, [0])):
        assert term.values(np.ones((2, 1), dtype=np.longdouble)).dtype == np.longdouble


def test_a_constant_has_no_forms():
    term = constant_term([1.0, 2.0], NAMES)
    assert term.forms.shape == (0, 3)
    np.testing.assert_array_equal(term.at(np.zeros((2, 3))), [[1, 2], [1, 2]])


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1, 0, 0], "x"),
        ([1, 1, 0], "x + y"),
        ([-1, 2, -0.5], "-x + 2*y - 0.5*z"),
        ([0, 1, -1 / 3], "y - 0.3333*z"),
    ],
)
def test_words(weights, words):
    assert ridge_term(inside, BOX, NAMES, weights).describe() == words


def test_words_of_other_terms():
    assert input_term(inside, BOX, NAMES, [0, 2]).describe() == "x, z"
    assert constant_term(1.0, NAMES).describe() == "constant"
    many = Box(0, 1, shape=(50,))
    assert ridge_term(inside, many, tuple(f"x[{i}]" for i in range(50)), np.ones(50)).describe() == (
        "a form of 50 inputs"
    )


def test_only_a_form_that_mixes_inputs_is_a_ridge():
    assert ridge_term(inside, BOX, NAMES, [1, 0, 1]).is_ridge
    assert not ridge_term(inside, BOX, NAMES, [1, 0, 0]).is_ridge
    assert not input_term(inside, BOX, NAMES, [0, 1]).is_ridge
