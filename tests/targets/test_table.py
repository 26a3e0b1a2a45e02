"""Tables as targets: exact look-up, grids found in any order of rows, nothing claimed beyond the points."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnforge.errors import DomainError, FileFormatError, TargetError
from attnforge.targets import Box, Table, as_table, target_from_data
from attnforge.targets.table import merged

SQUARE = [[0.0, 0.0], [0.0, 1.0], [2.0, 0.0], [2.0, 1.0]]
COORDINATES = st.sampled_from([-1.5, -0.0, 0.0, 5e-324, 0.1, 1.0, 256.0, 1e300])


def square(**settings: object) -> Table:
    return Table(SQUARE, [1, 2, 3, 4], **settings)


# What a table is


def test_a_scalar_table_of_one_input():
    table = Table([3, 1, 2], [9, 1, 4])
    assert table.layout == "function"
    assert table.outputs is None
    assert table.names is None
    assert table.lipschitz() is None
    assert table.points.dtype == table.table_values.dtype == np.float64
    assert table.points.tolist() == [[3.0], [1.0], [2.0]]
    assert table.table_values.tolist() == [9.0, 1.0, 4.0]
    assert (table.domain.lower.tolist(), table.domain.upper.tolist()) == ([1.0], [3.0])


def test_several_outputs_and_names():
    table = Table(SQUARE, np.arange(12.0).reshape(4, 3), names=("x", "y"))
    assert table.outputs == 3
    assert table.names == ("x", "y")
    assert table.values(np.array([2.0, 0.0])).tolist() == [6.0, 7.0, 8.0]
    assert Table(SQUARE, np.ones((4, 1))).outputs == 1


def test_the_table_does_not_follow_the_arrays_it_came_from():
    points, values = np.array([0.0, 1.0]), np.array([2.0, 3.0])
    table = Table(points, values)
    points[0], values[0] = -5, -5
    assert table.points.tolist() == [[0.0], [1.0]]
    assert table.table_values.tolist() == [2.0, 3.0]


def test_an_exact_repetition_is_dropped_and_the_order_kept():
    table = Table([3, 1, 3, 2, 1], [9, 1, 9, 4, 1])
    assert table.points.ravel().tolist() == [3.0, 1.0, 2.0]
    assert table.table_values.tolist() == [9.0, 1.0, 4.0]


def test_a_point_with_two_values_is_named():
    with pytest.raises(TargetError, match=r"one value. Got \(0.0, 1.0\) with 2.0 and with 7.0"):
        Table([*SQUARE, [-0.0, 1.0]], [1, 2, 3, 4, 7])
    with pytest.raises(TargetError, match=r"with \(1.0, 2.0\) and with \(1.0, 3.0\)"):
        Table([0, 1, 0], [[1, 2], [0, 0], [1, 3]])


@pytest.mark.parametrize(
    ("points", "values", "reason"),
    [
        ([0, 1, 2], [0, 1], "3 points and 2 values"),
        ([0], [1], "between 2 and 10,000,000 points. Got 1"),
        ([], [], "between 2"),
        ([0, 1], [0, np.nan], "values of a table must be finite. Got NaN or infinity in row 1"),
        ([0, np.inf], [0, 1], "points of a table must be finite. Got NaN or infinity in row 1"),
        ([[0, 0], [1, 1], [np.nan, 0]], [0, 1, 2], "row 2"),
        (np.zeros((2, 2, 2)), [0, 1], r"\(N, d\) or \(N,\). Got shape \(2, 2, 2\)"),
        (np.zeros((2, 0)), [0, 1], r"\(N, d\)"),
        (0.0, [0, 1], r"\(N, d\)"),
        ([0, 1], np.zeros((2, 1, 1)), r"\(N,\) or \(N, k\)"),
        ([0, 1], np.zeros((2, 0)), r"\(N,\) or \(N, k\)"),
        ([0, 1], 3.0, r"\(N,\) or \(N, k\)"),
        ([[0, 5], [1, 5]], [0, 1], "spread along every axis. Got input 1 = 5.0"),
        ([0, -0.0], [0, 0], "spread along every axis. Got input 0 = -?0.0"),
        (["0", "1"], [0, 1], "real numbers"),
        ([0, 1], [1j, 2], "values of a table must be an array of real numbers"),
        ([[0, 1], [1]], [0, 1], "real numbers"),
        ([0, 1], [None, 2], "real numbers"),
    ],
)
def test_what_is_no_table_is_refused(points, values, reason):
    with pytest.raises(TargetError, match=reason):
        Table(points, values)


@pytest.mark.parametrize("names", [("x",), ("x", "x"), ("x", "lambda"), ("x", "y", "z"), ("x", "a b"), ("x", 3)])
def test_names_are_one_an_input_and_plain(names):
    with pytest.raises(TargetError, match="2 inputs has a name for each"):
        square(names=names)


def test_a_flat_axis_is_called_by_its_name():
    with pytest.raises(TargetError, match=r"Got v = 5.0 at every point"):
        Table([[0, 5], [1, 5]], [0, 1], names=("u", "v"))


def test_more_points_than_the_cap_are_refused(monkeypatch):
    monkeypatch.setattr("attnforge.targets.table.MAX_POINTS", 3)
    Table(range(3), range(3))
    for build in (lambda: square(), lambda: Table.from_grid([[0, 2], [0, 1]], [[1, 2], [3, 4]])):
        with pytest.raises(TargetError, match=r"between 2 and 3 points. Got 4"):
            build()


# Values


def test_values_keep_leading_axes_and_precision():
    table = square()
    asked = np.array([[SQUARE[3], SQUARE[0]]])
    assert table.values(asked).tolist() == [[4.0, 1.0]]
    assert table.values(np.array(SQUARE[1])).shape == ()
    assert table.values(np.empty((0, 2))).shape == (0,)
    assert table.values(np.array([-0.0, 1.0])) == 2.0
    assert Table([-0.0, 1.0], [3.0, 4.0]).values(np.array([0.0])) == 3.0
    assert table.values(asked.astype(np.longdouble)).dtype == np.longdouble
    assert table.values(asked.astype(np.float32)).dtype == np.float64


@pytest.mark.parametrize(
    ("point", "shown"),
    [
        ([0.0, np.nextafter(1, 2)], r"\(0.0, 1.0000000000000002\)"),
        ([1.0, 0.5], r"\(1.0, 0.5\)"),
        ([np.nan, 0.0], r"\(nan, 0.0\)"),
        ([9.0, 9.0], r"\(9.0, 9.0\)"),
    ],
)
def test_a_table_knows_its_listed_points_only(point, shown):
    with pytest.raises(TargetError, match=f"A table knows its listed points only. Got {shown}"):
        square().values(np.array([SQUARE[0], point]))


def test_a_longdouble_between_two_floats_is_not_listed():
    one = np.longdouble(1)
    near = one + np.finfo(np.longdouble).eps
    huge = np.finfo(np.longdouble).max
    for point in ([0, near], [0, huge]):
        with pytest.raises(TargetError, match="listed points only"):
            square().values(np.array([point], dtype=np.longdouble))


def test_points_of_the_wrong_width_are_refused():
    for points in (np.zeros(3), np.zeros((4, 1)), np.array(0.0)):
        with pytest.raises(TargetError, match=r"points of shape \(..., 2\)"):
            square().values(points)


@given(st.lists(st.tuples(COORDINATES, COORDINATES, COORDINATES), min_size=2, max_size=20), st.randoms())
def test_looking_up_a_listed_point_gives_its_value(points, shuffle):
    points = [*points, (-2.0, -2.0, -2.0)]  # spreads every axis
    known = {tuple(c + 0.0 for c in point): float(i) for i, point in enumerate(points)}
    asked = list(known)
    table = Table(asked, list(known.values()))
    shuffle.shuffle(asked)
    assert table.values(np.array(asked)).tolist() == [known[point] for point in asked]
    for other in itertools.product([-1.5, 0.0, 1.0], repeat=3):
        if other not in known:
            with pytest.raises(TargetError, match="listed points only"):
                table.values(np.array([other]))


def test_a_table_is_no_truncated_linear_function():
    with pytest.raises(TargetError, match=r"truncated linear function. Got a table"):
        square().truncated_form()


# Grids


def test_a_grid_is_found_and_its_values_arranged():
    axes, values = square().grid
    assert [axis.tolist() for axis in axes] == [[0.0, 2.0], [0.0, 1.0]]
    assert values.tolist() == [[[1.0], [2.0]], [[3.0], [4.0]]]


def test_one_input_is_a_grid_of_one_axis():
    axes, values = Table([3, 1, 2], [[9, 0], [1, 1], [4, 2]]).grid
    assert axes[0].tolist() == [1.0, 2.0, 3.0]
    assert values.tolist() == [[1.0, 1.0], [4.0, 2.0], [9.0, 0.0]]


@given(st.lists(st.integers(2, 4), min_size=1, max_size=4), st.integers(0, 2**32 - 1), st.sampled_from([None, 1, 3]))
def test_rows_in_any_order_give_the_grid_back(counts, seed, k):
    rng = np.random.default_rng(seed)
    axes = [np.sort(rng.choice(100, n, replace=False) / 7 - 5) for n in counts]
    values = rng.normal(size=(*counts, *([] if k is None else [k])))
    plain = Table.from_grid(axes, values)
    order = rng.permutation(len(plain.points))
    table = Table(plain.points[order], plain.table_values[order])
    found = table.grid
    assert found is not None
    assert [axis.tolist() for axis in found.axes] == [axis.tolist() for axis in axes]
    np.testing.assert_array_equal(found.values, values.reshape(*counts, -1))
    if len(counts) > 1:
        missing = Table(table.points[1:], table.table_values[1:]) if len(order) > 4 else None
        assert missing is None or missing.grid is None


def test_as_many_points_as_a_grid_are_not_a_grid():
    moved = [[0, 0], [0, 1], [2, 0], [0.5, 1]]
    assert Table(moved, [1, 2, 3, 4]).grid is None
    assert Table([[0, 0], [1, 1], [2, 2]], [1, 2, 3]).grid is None


@pytest.mark.parametrize(("slip", "is_grid"), [(1e-13, True), (0.9e-9, True), (1.1e-9, False), (1e-6, False)])
def test_coordinates_within_a_trillionth_of_the_axis_are_one(slip, is_grid):
    points = np.array([[0.0, 0.0], [0.0, 1.0], [1000.0, 0.0], [1000.0, 1.0]])
    points[0, 0] += slip  # the axis is 1000 long, so 1e-9 is the limit
    grid = Table(points, [1, 2, 3, 4]).grid
    assert (grid is not None) is is_grid
    if grid is not None:
        assert grid.axes[0].tolist() == [0.0, 1000.0]


def test_the_axes_of_a_grid_span_the_domain():
    points = np.array(SQUARE) + np.array([[0, 0], [1e-13, 1e-13], [0, 1e-13], [1e-13, 0]])
    table = Table(points, [1, 2, 3, 4])
    assert table.grid is not None
    for axis, low, high in zip(table.grid.axes, table.domain.lower, table.domain.upper, strict=True):
        assert (axis[0], axis[-1]) == (low, high)


def test_closeness_in_a_chain_is_no_grid():
    x = [0, 0.8e-12, 1.6e-12, 1.0]  # neighbours are close, the ends of the chain are not
    assert Table(x, [1, 2, 3, 4]).grid is None
    assert Table(list(itertools.product(x, [0, 1])), range(8)).grid is None
    rows = [*zip(x[:3], [0, 1, 2], strict=True), *((1.0, y) for y in (0, 1, 2))]  # 2 x 3, were the chain one number
    assert Table(rows, range(6)).grid is None


def test_two_points_closer_than_a_grid_tells_apart_are_no_grid():
    assert Table([[0, 0], [1e-14, 0], [1, 0], [1, 1]], range(4)).grid is None


def test_a_grid_as_wide_as_the_floats():
    axes, _ = Table.from_grid([[-1.7e308, 0, 1.7e308], [0, 1]], np.arange(6).reshape(3, 2)).grid
    assert axes[0].tolist() == [-1.7e308, 0.0, 1.7e308]


def test_many_inputs_are_no_grid_and_found_so_at_once():
    points = np.random.default_rng(0).choice([0.0, 1.0], size=(200, 300))
    assert Table(points, np.arange(200)).grid is None


def test_from_grid_takes_unsorted_axes():
    table = Table.from_grid([[2, 0], [0, 1]], [[3, 4], [1, 2]])
    np.testing.assert_array_equal(table.grid.values, square().grid.values)


@pytest.mark.parametrize(
    ("axes", "values", "reason"),
    [
        ([[0, 1], [0, 1, 2]], np.zeros((3, 2)), r"shape \(2, 3\) or \(.., k\). Got shape \(3, 2\)"),
        ([[0, 1]], np.zeros((2, 2, 2)), "shape"),
        ([], 3.0, "shape"),
        ([[0, 1]], np.zeros((2, 0)), r"\(N,\) or \(N, k\)"),
        ([[0, 1], [5]], np.zeros((2, 1)), "Axis 1 of a grid must be a list of at least 2 numbers"),
        ([[[0, 1]]], np.zeros(2), "Axis 0 of a grid"),
        ([[0, 1, 0]], np.zeros(3), "entries of axis 0 of a grid must differ. Got 0.0 twice"),
        ([[0, np.nan]], np.zeros(2), "Axis 0 of a table must be finite"),
        ([["a", "b"]], np.zeros(2), "Axis 0 of a table must be an array of real numbers"),
        ([[0, 1]], [0, np.inf], "values of a table must be finite"),
    ],
)
def test_what_is_no_grid_is_refused(axes, values, reason):
    with pytest.raises(TargetError, match=reason):
        Table.from_grid(axes, values)


# Smaller boxes, descriptions, files


def test_a_smaller_box_keeps_the_points_inside():
    table = Table.from_grid([np.arange(5), np.arange(4)], np.arange(20).reshape(5, 4), names=("x", "y"))
    part = table.on(Box([0.5, 1.0], [3.0, 2.5]))
    assert part.names == ("x", "y")
    assert sorted(map(tuple, part.points.tolist())) == [(x, y) for x in (1.0, 2.0, 3.0) for y in (1.0, 2.0)]
    assert part.values(np.array([2.0, 1.0])) == table.values(np.array([2.0, 1.0]))
    assert (part.domain.lower.tolist(), part.domain.upper.tolist()) == ([1.0, 1.0], [3.0, 2.0])
    whole = table.on(table.domain)
    np.testing.assert_array_equal(whole.points, table.points)


@pytest.mark.parametrize(
    ("box", "reason"),
    [
        (
            Box([0, 0], [2, 1.5]),
            r"beyond its points, here input 1 in \[0.0, 1.0\]. Got input 1 in \[0.0, 1.5\]",
        ),
        (Box([-1, 0], [2, 1]), "nothing beyond its points, here input 0"),
        (Box([0.5, 0], [1.5, 1]), r"must hold points of the table. Got none in \[0.5, 1.5\] x \[0.0, 1.0\]"),
        (Box([0, 0], [1, 1]), "spread along every axis"),
    ],
)
def test_a_box_beyond_or_between_the_points_is_refused(box, reason):
    with pytest.raises(TargetError, match=reason):
        square().on(box)


def test_a_box_of_another_dimension_is_refused():
    with pytest.raises(DomainError, match="shape"):
        square().on(Box([0.0], [1.0]))


def test_descriptions():
    grid = Table.from_grid([np.arange(10), np.arange(20)], np.zeros((10, 20)))
    assert grid.describe() == "table of 200 points of 2 inputs on a 10 x 20 grid"
    assert Table([[0, 0], [1, 1], [2, 3]], range(3)).describe() == "table of 3 points of 2 inputs"
    assert Table(range(5), range(5)).describe() == "table of 5 points of 1 input"
    assert Table(range(5), np.zeros((5, 2))).describe() == "table of 5 points of 1 input and 2 outputs"


@pytest.mark.parametrize("values", [np.arange(4.0), np.arange(4.0)[:, None], np.arange(8.0).reshape(4, 2)])
@pytest.mark.parametrize("names", [None, ("x", "y")])
def test_stored_and_read_again(values, names):
    table = Table(SQUARE, values, names)
    data, arrays = table.to_data()
    again = target_from_data(data, arrays)
    assert isinstance(again, Table)
    assert (again.names, again.outputs) == (names, table.outputs)
    np.testing.assert_array_equal(again.points, table.points)
    np.testing.assert_array_equal(again.table_values, table.table_values)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"points": np.array([[0.0, 0], [0, 1], [2, np.nan], [2, 1]])}, "points of a table must be finite"),
        ({"values": np.array([1.0, 2, np.nan, 4])}, "values of a table must be finite"),
        ({"values": np.zeros(3)}, "4 points and 3 values"),
        ({"points": np.zeros((4, 2))}, "one value"),
        ({"points": np.array([[0.0, 5], [1, 5], [2, 5], [3, 5]])}, "spread"),
        ({"points": np.zeros((4, 2, 1))}, "shape"),
        ({"names": ["x"]}, "a name for each"),
        ({"names": ["x", ["y"]]}, "a name is a string"),
        ({"names": 3}, "must be a valid target"),
    ],
)
def test_a_file_is_not_trusted(changes, reason):
    data, arrays = square().to_data()
    for name, value in changes.items():
        (arrays if name in arrays else data)[name] = value
    with pytest.raises(FileFormatError, match=reason):
        target_from_data(data, arrays)


@pytest.mark.parametrize("missing", ["points", "values", "names"])
def test_a_file_is_whole(missing):
    data, arrays = square().to_data()
    data.pop(missing, None)
    arrays.pop(missing, None)
    with pytest.raises(FileFormatError, match="must be a valid target"):
        target_from_data(data, arrays)


# What users hand in


X, Y = np.linspace(0, 1, 3), np.linspace(-1, 1, 4)


@pytest.mark.parametrize(
    ("pair", "shape", "outputs"),
    [
        ((X, X**2), (3, 1), None),
        ([X, X**2], (3, 1), None),
        (([0, 1, 2], [3, 4, 5]), (3, 1), None),
        ((torch.linspace(0, 1, 3, requires_grad=True), torch.ones(3)), (3, 1), None),
        ((SQUARE, [1, 2, 3, 4]), (4, 2), None),
        ((np.array(SQUARE), np.zeros((4, 3))), (4, 2), 3),
        ((list(map(np.array, SQUARE)), np.zeros(4)), (4, 2), None),
        (((X, Y), np.zeros((3, 4))), (12, 2), None),
        (([X, Y], np.zeros((3, 4, 5))), (12, 2), 5),
        ((([0, 1, 2], [0, 1, 2]), np.zeros((3, 3))), (9, 2), None),
        (((X,), X), (3, 1), None),
        (((torch.arange(3), torch.arange(4)), torch.zeros(3, 4)), (12, 2), None),
        (((np.array([0, 1]), np.array([0, 1])), [[1, 2], [3, 4]]), (4, 2), None),
    ],
)
def test_both_forms_are_understood(pair, shape, outputs):
    table = as_table(pair)
    assert table.points.shape == shape
    assert table.outputs == outputs


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        ("x", r"pair \(points, values\). Got str"),
        (np.zeros((2, 2)), r"pair \(points, values\). Got ndarray"),
        ((X, X, X), "Got tuple of 3"),
        ((X, "abc"), "values of a table must be an array of real numbers"),
        (("abc", X), "points of a table must be an array of real numbers"),
        ((["a", "b"], [1, 2]), "points of a table must be an array of real numbers"),
        ((X, None), "real numbers"),
        ((X, Y), "3 points and 4 values"),
        (((X, Y), np.zeros((4, 3))), r"axes with 3, 4 entries have shape \(3, 4\)"),
        (((X, X), np.zeros((3, 4))), r"axes with 3, 3 entries have shape \(3, 3\)"),
        (([[0, 1], [1, 0]], [[1, 2], [3, 4]]), "one meaning. Got lists that are 2 points or 2 axes"),
        (([[0, 1], [1, 0], [0, 0]], [1, 2]), "3 points and 2 values"),
        (([], []), "between 2"),
    ],
)
def test_everything_else_is_refused(pair, reason):
    with pytest.raises(TargetError, match=reason):
        as_table(pair)


def test_a_domain_is_the_bounding_box_and_may_name_the_inputs():
    pair = ((X, Y), np.add.outer(X, Y))
    table = as_table(pair, {"u": (0, 1), "v": (-1, 1)})
    assert table.names == ("u", "v")
    assert as_table(pair, [(0, 1), (-1, 1)]).names is None
    assert as_table(pair, Box([0, -1], [1, 1]), names=["a", "b"]).names == ("a", "b")
    assert as_table(pair, names=["a", "b"]).names == ("a", "b")
    assert as_table((Y, Y), Box(-1, 1)).domain.shape == (1,)


def test_a_domain_may_name_the_inputs_in_another_order():
    pair = ((X, Y), np.add.outer(X, Y))
    assert as_table(pair, {"v": (-1, 1), "u": (0, 1)}, names=("u", "v")).names == ("u", "v")
    with pytest.raises(TargetError, match=r"inputs of the table are u, w. Got u, v in the domain"):
        as_table(pair, {"u": (0, 1), "v": (-1, 1)}, names=("u", "w"))


@pytest.mark.parametrize(
    ("domain", "reason"),
    [
        ({"x": (0, 2)}, r"A table says nothing beyond its points, here x in \[0.0, 1.0\]. Got x in \[0.0, 2.0\]"),
        ({"x": (-0.5, 1)}, "nothing beyond its points"),
        ({"x": (0, 0.75)}, r"must lie in the domain. Got 1.0 outside \[0.0, 0.75\]"),
        ({"x": (0.25, 2)}, r"must lie in the domain. Got 0.0 outside"),
        ({"x": (0, 1), "y": (0, 1)}, "a name for each"),
        ([(0, 1), (0, 1)], "shape"),
        (3, "A domain is"),
    ],
)
def test_another_domain_is_refused(domain, reason):
    with pytest.raises((TargetError, DomainError), match=reason):
        as_table((X, X**2), domain)


def test_merged_rows_are_means_whatever_their_order() -> None:
    rng = np.random.default_rng(0)
    points, values = rng.integers(0, 3, (30, 2)).astype(float), rng.normal(size=(30, 2))
    weights = rng.integers(0, 3, 30).astype(float)
    found, means, total = merged(points, values, weights)
    assert total.sum() == weights.sum()
    for row, mean in zip(found, means, strict=True):
        same = (points == row).all(axis=1)
        assert np.allclose(mean, np.average(values[same], axis=0, weights=weights[same]))
    order = rng.permutation(30)
    again = merged(points[order], values[order], weights[order])
    assert np.array_equal(again[0], found)
    assert np.allclose(again[1], means)
    assert len(merged(np.array([[0.0], [-0.0]]), np.ones((2, 1)), np.ones(2))[0]) == 1
