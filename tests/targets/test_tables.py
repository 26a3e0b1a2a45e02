"""Tables as targets: exact look-up, grids found in any order of rows, nothing claimed beyond the points."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from tests.refusals import refused

SQUARE = [[0.0, 0.0], [0.0, 1.0], [2.0, 0.0], [2.0, 1.0]]
X, Y = np.linspace(0, 1, 3), np.linspace(-1, 1, 4)
SUM = af.compile("x + y", {"x": (0, 1), "y": (0, 1)}, 1e-6)
COORDINATES = st.sampled_from([-1.5, -0.0, 0.0, 0.1, 0.25, 1.0, 256.0, 1e100])


def table(pair, domain=None):
    """The target of a table; any network will do."""
    return af.compile(pair, domain, tol=1e308, effort="low").target


FORMS = [
    ((X, X**2), (3, 1), None), ([X, X**2], (3, 1), None), (([0, 1, 2], [3, 4, 5]), (3, 1), None),
    ((torch.linspace(0, 1, 3, requires_grad=True), torch.ones(3)), (3, 1), None),
    ((SQUARE, [1, 2, 3, 4]), (4, 2), None), ((np.array(SQUARE), np.zeros((4, 3))), (4, 2), 3),
    ((SQUARE, np.ones((4, 1))), (4, 2), 1), ((list(map(np.array, SQUARE)), np.zeros(4)), (4, 2), None),
    (((X, Y), np.zeros((3, 4))), (12, 2), None), (([X, Y], np.zeros((3, 4, 5))), (12, 2), 5),
    ((([0, 1, 2], [0, 1, 2]), np.zeros((3, 3))), (9, 2), None), (((X,), X), (3, 1), None),
    (((torch.arange(3), torch.arange(4)), torch.zeros(3, 4)), (12, 2), None),
    (((np.array([0, 1]), np.array([0, 1])), [[1, 2], [3, 4]]), (4, 2), None),
]  # fmt: skip


@pytest.mark.parametrize(("pair", "shape", "outputs"), FORMS)
def test_both_forms_are_understood(pair, shape, outputs):
    found = table(pair)
    assert found.points.shape == shape
    assert found.outputs == outputs
    assert found.points.dtype == found.table_values.dtype == np.float64


WRONG = {
    "two lengths": ([0, 1, 2], [0, 1]), "one point": ([0], [1]), "no point": ([], []), "NaN": ([0, 1], [0, np.nan]),
    "an infinite point": ([0, np.inf], [0, 1]), "a NaN in a point": ([[0, 0], [1, 1], [np.nan, 0]], [0, 1, 2]),
    "too many axes": (np.zeros((2, 2, 2)), [0, 1]), "no inputs": (np.zeros((2, 0)), [0, 1]),
    "a number": (0.0, [0, 1]), "values of values": ([0, 1], np.zeros((2, 1, 1))),
    "no outputs": ([0, 1], np.zeros((2, 0))), "one value": ([0, 1], 3.0), "a flat axis": ([[0, 5], [1, 5]], [0, 1]),
    "two zeros": ([0, -0.0], [0, 0]), "text": (["0", "1"], [0, 1]), "complex": ([0, 1], [1j, 2]),
    "ragged": ([[0, 1], [1]], [0, 1]), "None": ([0, 1], [None, 2]), "a triple": (X, X, X), "one of two": (X,),
    "no values": (X, None),
    "two values at a point": ([*SQUARE, [-0.0, 1.0]], [1, 2, 3, 4, 7]), "text for values": (X, "abc"),
    "two outputs at a point": ([0, 1, 0], [[1, 2], [0, 0], [1, 3]]), "text for points": ("abc", X),
    "other values": (X, Y), "a grid the other way": ((X, Y), np.zeros((4, 3))),
    "another grid": ((X, X), np.zeros((3, 4))), "two meanings": ([[0, 1], [1, 0]], [[1, 2], [3, 4]]),
    "three points": ([[0, 1], [1, 0], [0, 0]], [1, 2]), "a short axis": (([0, 1], [5]), np.zeros((2, 1))),
    "a repeated axis": (([0.0, 1, 0], [0, 1]), np.zeros((3, 2))),
    "an axis with NaN": (([0, np.nan], [0, 1]), np.zeros((2, 2))),
    "axes of text": ((["a", "b"], [0, 1]), np.zeros((2, 2))), "an array": np.zeros((2, 2)),
    "a grid with inf": (([0, 1], [0, 1, 2]), [[0, 0, np.inf], [0, 0, 0]]),
    "wider than float64": ([-1.7e308, 0, 1.7e308], [0, 1, 2]), "too wide to be squared": ([0, 1e300], [0, 1]),
    "hardly an axis": ([[-1.5, 0], [0, 5e-324]], [0, 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_table_is_refused(name):
    for verb in (table, lambda pair: af.measure(SUM, pair), lambda pair: af.certify(SUM, pair)):
        with refused() as caught:
            verb(WRONG[name])
        assert caught.value.remedy


BEYOND = [
    {"x": (0, 2)}, {"x": (-0.5, 1)}, {"x": (0, 0.75)}, {"x": (0.25, 2)}, {"x": (0, 1), "y": (0, 1)}, [(0, 1), (0, 1)],
    {"lambda": (0, 1)}, {"a b": (0, 1)}, {3: (0, 1)}, 3,
]  # fmt: skip


@pytest.mark.parametrize("domain", BEYOND, ids=str)
def test_another_domain_is_refused(domain):
    """A table says nothing beyond its points, and a domain is not a choice of points."""
    with refused():
        table((X, X**2), domain)


def test_a_domain_may_name_the_inputs():
    pair = ((X, Y), np.add.outer(X, Y))
    assert table(pair, {"u": (0, 1), "v": (-1, 1)}).names == ("u", "v")
    assert table(pair, [(0, 1), (-1, 1)]).names is None
    assert table((Y, Y), af.Box(-1, 1)).domain.shape == (1,)


def test_values_are_looked_up_exactly_and_keep_leading_axes():
    found = table((SQUARE, [1, 2, 3, 4]))
    asked = np.array([[SQUARE[3], SQUARE[0]]])
    assert found.values(asked).tolist() == [[4.0, 1.0]]
    assert found.values(np.array([-0.0, 1.0])) == 2.0
    assert found.values(np.empty((0, 2))).shape == (0,)
    assert found.values(asked.astype(np.longdouble)).dtype == np.longdouble
    assert found.lipschitz() is None
    for point in ([0.0, np.nextafter(1, 2)], [1.0, 0.5], [np.nan, 0.0], [9.0, 9.0]):
        with refused():
            found.values(np.array([point]))


def test_repetitions_are_dropped_and_the_arrays_are_copied():
    points, values = np.array([3.0, 1, 3, 2, 1]), np.array([9.0, 1, 9, 4, 1])
    found = table((points, values))
    points[:], values[:] = -5, -5
    assert found.points.ravel().tolist() == [3.0, 1.0, 2.0]
    assert found.table_values.tolist() == [9.0, 1.0, 4.0]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(COORDINATES, COORDINATES), min_size=2, max_size=12, unique=True), st.permutations(range(12)))
def test_every_listed_point_has_its_value_and_grids_are_found_in_any_order(rows, order):
    points = np.array([rows[i] for i in order if i < len(rows)])
    values = np.arange(float(len(points)))
    try:
        found = table((points, values))
    except af.TargetError:  # on a line, or one point with two values, as -0.0 and 0.0 are one
        assert (np.ptp(points, axis=0) == 0).any() or len({tuple(row) for row in (points + 0.0).tolist()}) < len(points)
        return
    except af.RefusalError:  # of points that are one where their box is scaled
        assert np.abs(points).max() > 1e50
        return
    np.testing.assert_array_equal(found.values(points), values)
    xs, ys = (sorted(set((column + 0.0).tolist())) for column in points.T)
    whole = len(points) == len(xs) * len(ys)
    close = any(b - a <= 1e-12 * (c[-1] - c[0]) for c in (xs, ys) for a, b in itertools.pairwise(c))
    assert close or (found.grid is not None) == whole
    if whole and not close:
        for i, j in itertools.product(range(len(xs)), range(len(ys))):
            assert found.grid.values[i, j] == found.values(np.array([xs[i], ys[j]]))


@pytest.mark.parametrize(("slip", "is_grid"), [(1e-13, True), (0.9e-9, True), (1.1e-9, False), (1e-6, False)])
def test_coordinates_within_a_trillionth_of_the_axis_are_one(slip, is_grid):
    points = np.array([[0.0, 0.0], [0.0, 1.0], [1000.0, 0.0], [1000.0, 1.0]])
    points[0, 0] += slip  # the axis is 1000 long, so 1e-9 is the limit
    grid = table((points, [1, 2, 3, 4])).grid
    assert (grid is not None) is is_grid
    assert grid is None or grid.axes[0].tolist() == [0.0, 1000.0]


def test_closeness_in_a_chain_is_no_grid():
    x = [0, 0.8e-12, 1.6e-12, 1.0]  # neighbours are close, the ends of the chain are not
    rows = [*zip(x[:3], [0, 1, 2], strict=True), *((1.0, y) for y in (0, 1, 2))]  # 2 x 3, were the chain one number
    for points in (list(itertools.product(x, [0, 1])), rows, [[0, 0], [1e-14, 0], [1, 0], [1, 1]]):
        assert table((points, list(range(len(points))))).grid is None


def test_a_smaller_box_keeps_the_points_inside_and_no_other_is_taken():
    net = af.compile(((np.arange(5), np.arange(4)), np.arange(20).reshape(5, 4)), tol=1e-6)
    part = net.target.on(af.Box([0.5, 1.0], [3.0, 2.5]))
    assert sorted(map(tuple, part.points.tolist())) == [(x, y) for x in (1.0, 2.0, 3.0) for y in (1.0, 2.0)]
    assert (part.domain.lower.tolist(), part.domain.upper.tolist()) == ([1.0, 1.0], [3.0, 2.0])
    assert part.values(np.array([2.0, 1.0])) == net.target.values(np.array([2.0, 1.0]))
    for lower, upper in (([0, 0], [5, 1.5]), ([-1, 0], [2, 1]), ([1.2, 0], [1.8, 1]), ([0, 0], [0.5, 2]), ([0], [1])):
        with refused():
            net.target.on(af.Box(lower, upper))


def test_many_inputs_are_no_grid_and_found_so_at_once():
    points = np.random.default_rng(0).choice([0.0, 1.0], size=(200, 300))
    assert table((points, np.arange(200))).grid is None
