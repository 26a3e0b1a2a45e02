"""A table of points and values, as a target: known where it is listed, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from attnforge.arrays import float64
from attnforge.errors import DomainError, TargetError
from attnforge.expression.tree import name_problem
from attnforge.targets.domain import Box, as_box
from attnforge.targets.target import AnyArray, Target, TruncatedForm

MAX_POINTS = 10_000_000
SHORTEST = 1e-150  # and its reciprocal the longest axis: float64 holds squares of both
SAME = 1e-12  # of the length of an axis: coordinates this close are one coordinate of a grid

Array = npt.NDArray[np.float64]
Keys = npt.NDArray[np.bytes_]
Indices = npt.NDArray[np.intp]


class Grid(NamedTuple):
    """A full product grid: sorted axes, and the values on it, of shape (*counts, k) with k = 1 for a scalar table."""

    axes: tuple[Array, ...]
    values: Array


class Table(Target):
    """Listed points and their values.

    Between its points a table says nothing, so every statement about it is one about the listed points. Its domain is
    their bounding box.

    Args:
        points: (N, d), or (N,) for one input; N >= 2, finite, and not all equal along any axis.
        values: (N,), or (N, k) for k outputs; finite. A point listed again with the same values is dropped, with
            others refused.
        names: of the inputs.

    >>> table = Table([[0, 0], [0, 1], [2, 0], [2, 1]], [1, 2, 3, 4], names=("x", "y"))
    >>> table.describe(), table.domain.upper.tolist()
    ('table of 4 points of 2 inputs on a 2 x 2 grid', [2.0, 1.0])
    >>> table.values(np.array([[2.0, 0.0]]))
    array([3.])
    """

    layout: Literal["function"] = "function"

    def __init__(self, points: Any, values: Any, names: Sequence[str] | None = None) -> None:
        self.points, self.table_values = _distinct(*checked_table(points, values))
        self._names = _checked_names(names, self.points.shape[1])
        self.outputs = None if self.table_values.ndim == 1 else self.table_values.shape[1]
        self.domain = Box(self.points.min(axis=0), self.points.max(axis=0))
        self._check_axes()

    @classmethod
    def from_grid(cls, axes: Sequence[Any], values: Any, names: Sequence[str] | None = None) -> Table:
        """The table on a product grid, from its axes and values of shape (*counts,) or (*counts, k).

        >>> Table.from_grid([[0, 1], [5, 6, 7]], [[1, 2, 3], [4, 5, 6]]).points[3].tolist()
        [1.0, 5.0]
        """
        lines = [_checked_axis(i, axis) for i, axis in enumerate(axes)]
        array, counts = _numbers("The values", values), tuple(len(line) for line in lines)
        if not lines or array.shape[: len(counts)] != counts or array.ndim > len(counts) + 1:
            wanted = f"The values on a grid of axes with {_listed(counts)} entries have shape {counts} or (.., k)"
            raise TargetError(wanted, f"shape {array.shape}", "Give one value for each combination of the axes")
        size = math.prod(counts)
        _check_count(size)
        points = np.stack([mesh.ravel() for mesh in np.meshgrid(*lines, indexing="ij")], axis=-1)
        return cls(points, array.reshape(size, *array.shape[len(counts) :]), names)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the inputs, where they have any."""
        return self._names

    def values(self, points: AnyArray) -> AnyArray:
        """Values at listed points (..., d), looked up exactly; any other point is refused by name."""
        d = self.points.shape[1]
        if points.ndim == 0 or points.shape[-1] != d:
            raise TargetError(f"This table takes points of shape (..., {d})", f"shape {points.shape}", "Reshape them")
        flat = points.reshape(-1, d)
        with np.errstate(over="ignore"):  # a longdouble beyond float64 becomes infinite, and is not listed
            rows = self._rows(flat.astype(np.float64))
        listed = (self.points[rows] == flat).all(axis=1)
        if not listed.all():
            got = _shown(flat[int(listed.argmin())])
            raise TargetError("A table knows its listed points only", got, "Ask at points of `table.points`")
        found = self.table_values[rows].astype(np.result_type(points.dtype, np.float64), copy=False)
        return found.reshape((*points.shape[:-1], *self.table_values.shape[1:]))

    @cached_property
    def grid(self) -> Grid | None:
        """Axes and values, where the points are exactly a full product grid, in any order of rows; else None.

        Coordinates within 1e-12 of the length of their axis count as one.
        """
        axes, codes, size = [], [], 1
        for column, low, high in zip(self.points.T, self.domain.lower, self.domain.upper, strict=True):
            found = _coordinates(column, 2 * SAME * (high / 2 - low / 2))  # halves: the length itself may overflow
            if found is None or (size := size * len(found[0])) > len(self.points):
                return None
            axes.append(found[0])
            codes.append(found[1])
        counts = tuple(len(axis) for axis in axes)
        places = np.ravel_multi_index(tuple(codes), counts)
        if size != len(self.points) or not np.all(np.bincount(places, minlength=size) == 1):
            return None
        flat = self.table_values.reshape(size, -1)
        arranged = np.empty_like(flat)
        arranged[places] = flat
        return Grid(tuple(axes), arranged.reshape(*counts, -1))

    def truncated_form(self) -> TruncatedForm:
        """Refused: a table has no formula."""
        raise TargetError("The target must be a truncated linear function", "a table", "Write it as an expression")

    def on(self, domain: Box) -> Table:
        """The points inside a smaller box; the new domain is their own bounding box."""
        box = domain.fixed(self.domain.shape)
        self._check_covers(box)
        inside = ((self.points >= box.lower) & (self.points <= box.upper)).all(axis=1)
        if not inside.any():
            got = f"none in {self._box_text(box)}"
            raise TargetError("The box must hold points of the table", got, "Choose a box around some points")
        return Table(self.points[inside], self.table_values[inside], self._names)

    def describe(self) -> str:
        """How many points of how many inputs, and the grid they are on."""
        count, d = self.points.shape
        outputs = "" if self.outputs is None else f" and {_counted(self.outputs, 'output')}"
        grid = self.grid if d > 1 else None
        where = "" if grid is None else f" on a {' x '.join(str(len(axis)) for axis in grid.axes)} grid"
        return f"table of {count} points of {_counted(d, 'input')}{outputs}{where}"

    def to_data(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """For a file: the numbers; the domain follows from them."""
        data = {"kind": "table", "names": None if self._names is None else list(self._names)}
        return data, {"points": self.points, "values": self.table_values}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Table:
        """From a file: checked like a table handed in."""
        names = data["names"]
        return cls(arrays["points"], arrays["values"], None if names is None else tuple(names))

    def _rows(self, flat: Array) -> Indices:
        """For each point the row that is its own, if any is."""
        order, known = self._index
        return order[np.minimum(np.searchsorted(known, _keys(flat)), len(known) - 1)]

    @cached_property
    def _index(self) -> tuple[Indices, Keys]:
        keys = _keys(self.points)
        order = np.argsort(keys, kind="stable")
        return order, keys[order]

    def _check_axes(self) -> None:
        flat = self.domain.lower == self.domain.upper
        if flat.any():
            axis = int(flat.argmax())
            got = f"{self._input(axis)} = {self.domain.lower[axis]} at every point"
            raise TargetError("The points of a table must spread along every axis", got, "Leave this input out")
        with np.errstate(over="ignore"):
            lengths = self.domain.upper - self.domain.lower
        if (wrong := (lengths < SHORTEST) | (lengths > 1 / SHORTEST)).any():
            axis = int(wrong.argmax())
            requirement = f"The points of a table spread by {SHORTEST:g} to {1 / SHORTEST:g} along every axis"
            raise TargetError(requirement, f"{lengths[axis]:g} of {self._input(axis)}", "Rescale this input")

    def _check_covers(self, box: Box) -> None:
        """Refuse a box that reaches beyond the points."""
        beyond = (box.lower < self.domain.lower) | (box.upper > self.domain.upper)
        if beyond.any():
            axis = int(beyond.argmax())
            low, high = self.domain.lower[axis], self.domain.upper[axis]
            wanted = f"A table says nothing beyond its points, here {self._input(axis)} in [{low}, {high}]"
            got = f"{self._input(axis)} in [{box.lower[axis]}, {box.upper[axis]}]"
            raise TargetError(wanted, got, "Shrink the domain to the points, or leave it out")

    def _check_inside(self, box: Box) -> None:
        """Refuse a box that leaves points out."""
        outside = ~((self.points >= box.lower) & (self.points <= box.upper)).all(axis=1)
        if outside.any():
            got = f"{_shown(self.points[int(outside.argmax())])} outside {self._box_text(box)}"
            raise TargetError("Every point of a table must lie in the domain", got, "Widen the domain, or leave it out")

    def _input(self, axis: int) -> str:
        """What to call an input in a sentence."""
        return f"input {axis}" if self._names is None else self._names[axis]

    def _box_text(self, box: Box) -> str:
        return " x ".join(f"[{low}, {high}]" for low, high in zip(box.lower, box.upper, strict=True))


def merged(points: Array, values: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Points (N, d), values (N, k), weights (N,) without repeated points: means of values, sums of weights.

    Rows of weight zero are left out. The result is in lexicographic order, so that the order of the rows, and whether
    a row is listed twice or has twice the weight, makes no difference beyond the rounding of a mean.

    >>> [each.tolist() for each in merged(np.array([[2.0], [1.0], [2.0]]), np.array([[3.0], [5.0], [6.0]]), np.ones(3))]
    [[[1.0], [2.0]], [[5.0], [4.5]], [1.0, 2.0]]
    """
    kept = weights > 0
    distinct, inverse = np.unique(points[kept] + 0.0, axis=0, return_inverse=True)  # -0.0 and 0.0 are one point
    total = np.bincount(inverse.ravel(), weights[kept], len(distinct)).astype(np.float64)
    sums = [np.bincount(inverse.ravel(), weights[kept] * column, len(distinct)) for column in values[kept].T]
    return distinct, np.stack(sums, axis=1) / total[:, None], total


def as_table(pair: Any, domain: Any = None, names: Sequence[str] | None = None) -> Table:
    """The table a user hands in: ``(points, values)``, or ``((axis_1, .., axis_d), values)`` on a product grid.

    The second form is a tuple or list of one-dimensional arrays whose lengths are the leading shape of the values.

    Args:
        pair: points and values, or axes and values; NumPy arrays, torch tensors, lists, or data frames, whose columns
            are the names of the inputs.
        domain: if given, the bounding box of the points and nothing else, since a table says nothing beyond its
            points; its names, where it has any, are those of the inputs.
        names: of the inputs, in the order of the columns or axes.

    >>> x = np.array([0.0, 0.5, 1.0])
    >>> as_table((x, x**2), {"t": (0, 1)}).names
    ('t',)
    >>> as_table(((x, x), np.add.outer(x, x))).describe()
    'table of 9 points of 2 inputs on a 3 x 3 grid'
    """
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        got = f"{type(pair).__name__}{f' of {len(pair)}' if isinstance(pair, tuple | list) else ''}"
        raise TargetError("A table is a pair (points, values)", got, "Put both into a tuple")
    first, values = pair[0], _numbers("The values", pair[1])
    names = column_names(first) if names is None else names
    build = Table.from_grid if _are_axes(first, values.shape) else Table
    if domain is None:
        return build(first, values, names)
    box, given = as_box(domain)
    if given is not None and names is not None:
        box = _reordered(box, given, tuple(names))
    table = build(first, values, given if names is None else names)
    box = box.fixed(table.domain.shape)
    table._check_inside(box)
    table._check_covers(box)
    return table


def column_names(points: Any) -> tuple[str, ...] | None:
    """What a data frame calls its columns, or a series itself, where that can be the name of an input."""
    called = getattr(points, "columns", None)
    if called is None:
        called = [getattr(points, "name", None)] if hasattr(points, "index") and hasattr(points, "dtype") else [None]
    names = tuple(str(name) for name in called)
    return None if any(not isinstance(name, str) or name_problem(name) for name in called) else names


def _are_axes(first: Any, shape: tuple[int, ...]) -> bool:
    """Whether these are the axes of a grid with values of this shape, and not points listed one by one.

    Both readings are possible of [[a, b], [c, d]] with 2 x 2 values: plain lists are refused, arrays are axes.
    """
    if not isinstance(first, tuple | list) or not first or any(_dimensions(entry) != 1 for entry in first):
        return False
    lengths = tuple(len(entry) for entry in first)
    arrays = not any(isinstance(entry, tuple | list) for entry in first)
    fits = shape[: len(lengths)] == lengths and len(shape) <= len(lengths) + 1
    points = len(set(lengths)) == 1 and shape[:1] == (len(first),) and len(shape) <= 2
    if fits and points and not arrays:
        got = f"lists that are {len(first)} points or {len(first)} axes, and values of shape {shape}"
        raise TargetError("A table must have one meaning", got, "Give an array of points, or a tuple of arrays as axes")
    return fits or (not points and (arrays or len(set(lengths)) > 1))


def _dimensions(entry: Any) -> int:
    """The number of axes of an array, a tensor or a list; -1 for what is none."""
    if isinstance(entry, str):
        return -1
    if hasattr(entry, "ndim"):
        return int(entry.ndim)
    try:
        return int(np.ndim(entry))
    except ValueError:
        return -1


def _reordered(box: Box, given: tuple[str, ...], names: tuple[str, ...]) -> Box:
    """The box with its axes in the order of the names."""
    if sorted(given) != sorted(names):
        got = f"{', '.join(given)} in the domain"
        raise TargetError(f"The inputs of the table are {', '.join(names)}", got, "Use these names")
    order = [given.index(name) for name in names]
    return Box(box.lower[order], box.upper[order])


def _numbers(subject: str, given: Any) -> Array:
    """A float64 copy; text, objects and complex numbers are refused, not converted."""
    try:
        return np.array(float64(np.asarray(given) if hasattr(given, "columns") else given))
    except DomainError as wrong:
        wanted = f"{subject} of a table must be an array of real numbers"
        raise TargetError(wanted, wrong.got, "Give lists of equal length") from None


def checked_table(points: Any, values: Any) -> tuple[Array, Array]:
    """Points (N, d) and values (N,) or (N, k) of equal length, finite."""
    where, what = _numbers("The points", points), _numbers("The values", values)
    where = where[:, None] if where.ndim == 1 else where
    if where.ndim != 2 or where.shape[1] == 0:
        raise TargetError("The points of a table have shape (N, d) or (N,)", f"shape {where.shape}", "Reshape them")
    if what.ndim not in (1, 2) or what.shape[1:] == (0,):
        raise TargetError("The values of a table have shape (N,) or (N, k)", f"shape {what.shape}", "Reshape them")
    if len(where) != len(what):
        got = f"{len(where)} points and {len(what)} values"
        raise TargetError("A table has one value, or k values, for each point", got, "Check the lengths")
    _check_count(len(where))
    _check_finite("The points", where)
    _check_finite("The values", what)
    return where, what


def _check_count(count: int) -> None:
    if not 2 <= count <= MAX_POINTS:
        remedy = "Give more points" if count < 2 else "Leave points out"
        raise TargetError(f"A table has between 2 and {MAX_POINTS:,} points", f"{count:,}", remedy)


def _check_finite(subject: str, array: Array) -> None:
    bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    if bad.any():
        got = f"NaN or infinity in row {int(bad.argmax())}, counting from 0"
        raise TargetError(f"{subject} of a table must be finite", got, "Remove this row")


def _checked_names(names: Sequence[str] | None, axes: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    problems = [f"{name!r}: {problem}" for name in names if (problem := name_problem(name))]
    if problems or len(names) != axes or len(set(names)) != axes:
        got = "; ".join(problems) or ", ".join(names)
        raise TargetError(f"A table of {_counted(axes, 'input')} has a name for each", got[:300], "Use names such as x")
    return tuple(names)


def _checked_axis(index: int, axis: Any) -> Array:
    line = _numbers(f"Axis {index}", axis)
    if line.ndim != 1 or len(line) < 2:
        got = f"shape {line.shape}"
        raise TargetError(f"Axis {index} of a grid must be a list of at least 2 numbers", got, "Leave this input out")
    _check_finite(f"Axis {index}", line)
    values, counts = np.unique(line, return_counts=True)
    if counts.max() > 1:
        got = f"{values[counts.argmax()]} twice"
        raise TargetError(f"The entries of axis {index} of a grid must differ", got, "Remove one")
    return line


def _distinct(points: Array, values: Array) -> tuple[Array, Array]:
    """The rows without repetitions, in their order; a point with two values is refused."""
    keys = _keys(points)
    order = np.argsort(keys, kind="stable")  # so that the first of equal rows is the one listed first
    again = np.concatenate([[False], keys[order[1:]] == keys[order[:-1]]])
    if not again.any():
        return points, values
    flat = values.reshape(len(values), -1)
    clash = again.copy()
    clash[1:] &= (flat[order[1:]] != flat[order[:-1]]).any(axis=1)
    if clash.any():
        i = int(clash.argmax())
        got = f"{_shown(points[order[i - 1]])} with {_shown(flat[order[i - 1]])} and with {_shown(flat[order[i]])}"
        raise TargetError("A point of a table has one value", got, "Average the values, or remove one row")
    keep = np.sort(order[~again])
    return points[keep], values[keep]


def _keys(points: Array) -> Keys:
    """One byte string a row: strings sort and search in one go, and are equal exactly where the rows are."""
    rows = np.ascontiguousarray(points) + 0.0  # -0.0 becomes 0.0: equal numbers have equal bytes
    return rows.view(f"S{8 * rows.shape[1]}").ravel()


def _coordinates(column: Array, same: float) -> tuple[Array, Indices] | None:
    """The distinct coordinates, sorted, and for each row which one it has; None where closeness is not transitive.

    The first coordinate is the smallest number of its group and the last the largest: the axis spans the domain.
    """
    distinct, inverse = np.unique(column, return_inverse=True)
    with np.errstate(over="ignore"):  # a gap that overflows is a gap
        starts = np.concatenate([[True], np.diff(distinct) > same])
    first = distinct[starts]
    last = distinct[np.concatenate([starts[1:], [True]])]
    if np.any(last - first > same):
        return None
    axis = np.concatenate([first[:-1], last[-1:]])
    return axis, (np.cumsum(starts) - 1)[inverse]


def _shown(numbers: AnyArray) -> str:
    """A point or a row of values, every digit kept, cut where it is long."""
    shown = ", ".join(str(number) for number in numbers[:8])
    return f"({shown}{', ..' if len(numbers) > 8 else ''})" if len(numbers) > 1 else shown


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _listed(counts: Sequence[int]) -> str:
    return ", ".join(str(count) for count in counts) or "no"
