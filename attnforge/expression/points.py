r"""Values of an expression at points that can be relied on, however many digits cancel.

:func:`enclosed_values` is a proof: balls at every point, with more bits until their radius is negligible. It is slow,
some 50 microseconds a point. :func:`accurate_values` is for measuring: extended precision wherever that suffices.
:func:`careful_values` is for building: float64 wherever that suffices. How many digits are lost on the way is seen by
computing again with every intermediate result wrong on purpose, by more than an operation can make it and with factors
drawn at random: what moves the result is not rounding alone, but the formula's own sensitivity to it, so that
``(1 + 1e-30*x) - 1`` is found out although every run of it returns zero. Where the result moves by more than is
allowed, the next finer arithmetic decides.

All take a root that joins one or several trees (:func:`.tree.joined`), whose values stand along a last axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.effort import check_time
from attnforge.expression.evaluate import at_point, evaluate_joined
from attnforge.expression.functions import function_of
from attnforge.expression.tree import Apply, Constant, Node, Variable, fold_joined
from attnforge.outward import Balls, precision, upper

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
AnyArray = npt.NDArray[Any]
Extended = npt.NDArray[np.longdouble]

BITS = (128, 512, 2048, 8192)  # tried in turn: 8192 hold what is left where 1e300 and 1e-300 meet four times
EVALUATING = "evaluating the formula"  # where time runs out
FEW = 8  # points that tell whether more bits help
ENOUGH = 2.0**-60  # of a value, or of the largest one: a radius that no float64 can tell from zero
WRONG = 8  # what an operation may do to a result, and more, in gaps between numbers
MAGNIFIED = 2.0**11  # times as much is done on purpose, so that it has digits enough not to cancel by chance
TRIALS = 2
VARIETY = 1009  # how many sets of changes there are
KEPT = 2.0**-41  # of the largest value: what float64 values to build from may be wrong by, 12 of their 53 bits
NOTHING = 2.0**-1074  # the smallest float64
DOUBTFUL = 2.0**-10  # of a value: balls that are wider tell less than a run does
TRUSTED = 2.0**-57  # of the largest value: results that move by less are those of the formula, to float64's last digit


def enclosed_values(root: Apply, names: Sequence[str], points: Array) -> Balls:
    """Balls (N, k) around the values of k joined trees at points (N, d).

    NaN where there is no value, or it cannot be excluded.

    >>> from attnforge.expression import parse
    >>> from attnforge.expression.tree import joined
    >>> enclosed_values(joined([parse("1e17*((1 + 1e-17*x) - 1)")]), ("x",), np.array([[0.25]])).mid
    array([[0.25]])
    """
    zero = np.zeros(len(root.arguments))
    rows = _balls(root, names, np.asarray(points, dtype=np.float64), zero, partial(check_time, EVALUATING))
    mid = [[float(ball.mid()) for ball in row] for row in rows]
    rad = [[_radius(ball, near) for ball, near in zip(*pair, strict=True)] for pair in zip(rows, mid, strict=True)]
    shape = (len(points), len(zero))
    return Balls(np.array(mid).reshape(shape), np.array(rad).reshape(shape))


def careful_values(root: Apply, names: Sequence[str], points: Array) -> Array:
    """Float64 values (N, k) of k joined trees at points (N, d): as NumPy computes them, or better where that loses.

    >>> from attnforge.expression import parse
    >>> from attnforge.expression.tree import joined
    >>> careful_values(joined([parse("(x + 1e30) - 1e30")]), ("x",), np.array([[0.25]]))
    array([[0.25]])
    """
    columns = {name: points[:, i] for i, name in enumerate(names)}
    found = evaluate_joined(root, columns)
    lost, largest = _lost(root, columns, found, KEPT, np.zeros(found.shape[1]))
    if len(lost):
        with np.errstate(over="ignore"):  # what float64 does not hold is infinite
            found[lost] = accurate_values(root, names, points[lost], KEPT, largest, partial(check_time, EVALUATING))
    return found


def accurate_values(
    root: Apply,
    names: Sequence[str],
    points: AnyArray,
    trusted: float = TRUSTED,
    largest: Array | None = None,
    told: Callable[[], None] = lambda: None,
) -> Extended:
    """Values (N, k) of k joined trees at points (N, d) in extended precision, right to float64's last digit.

    That is the last digit of a tree's largest value. Points that are float64 numbers are meant exactly. NaN where there
    is no value. ``trusted`` is the part of the largest value, or of one known to be as large as the tree's ``largest``,
    that values may be wrong by; ``told`` is called while balls are evaluated, and may give up.

    >>> from attnforge.expression import parse
    >>> from attnforge.expression.tree import joined
    >>> float(accurate_values(joined([parse("(x + 1e30) - 1e30")]), ("x",), np.array([[0.25]]))[0, 0])
    0.25
    """
    columns = {name: points[:, i].astype(np.longdouble) for i, name in enumerate(names)}
    found = evaluate_joined(root, columns).astype(np.longdouble)
    known = np.zeros(found.shape[1]) if largest is None else largest
    lost, known = _lost(root, columns, found, trusted, known)
    if len(lost):
        for i, balls in zip(lost, _balls(root, names, points[lost].astype(np.float64), known, told), strict=True):
            found[i] = [_extended(*each) for each in zip(balls, found[i], known.tolist(), strict=True)]
    return found


def _radius(ball: arb, near: float) -> float:
    """How far the ball reaches from a number."""
    return 0.0 if ball == arb(near) else upper(abs(ball - near))


def _lost(
    root: Apply, columns: Mapping[str, AnyArray], found: AnyArray, trusted: float, largest: Array
) -> tuple[Indices, Array]:
    """The points whose values rounding may have moved by more than the part ``trusted`` of the largest; and those."""
    with np.errstate(all="ignore"):
        moved = np.max([np.abs(run - found) for run in _disturbed(root, columns, found)], axis=0) / MAGNIFIED
        sizes = np.max(np.abs(found) - moved, axis=0, initial=0.0, where=np.isfinite(moved))
        largest = np.maximum(largest, sizes.astype(np.float64))
        return np.flatnonzero(~np.all(moved <= trusted * largest, axis=1)), largest


def _disturbed(root: Apply, columns: Mapping[str, AnyArray], found: AnyArray) -> Iterator[AnyArray]:
    """The values again, with every intermediate result changed by a little; numbers and inputs are exact."""
    dtype, rng = found.dtype, np.random.default_rng(0)
    shares = rng.uniform(0.5, 1.0, size=len(found) + VARIETY) * rng.choice((-1.0, 1.0), size=len(found) + VARIETY)

    def changed(values: AnyArray, least: float = 0.0, kind: Any = dtype) -> AnyArray:
        start = int(rng.integers(VARIETY))  # every operation and point has a share of its own, neighbours theirs
        by = MAGNIFIED * WRONG * np.finfo(kind).eps * shares[start : start + len(found)]
        return np.asarray(values + np.maximum(np.abs(values), dtype.type(least)) * by.astype(dtype))

    def visit(node: Node, arguments: Sequence[AnyArray]) -> AnyArray:
        if isinstance(node, Constant):
            return np.asarray(node.value, dtype=dtype)
        if isinstance(node, Variable):
            return columns[node.name]
        if node.function == "+":  # every addition of a long sum rounds
            return reduce(lambda total, term: changed(total + term), arguments)
        function = function_of(node)
        value = np.asarray(function.array(*arguments), dtype=dtype)
        if function.rounding == "none":
            return value
        return changed(value, float(function.rounding == "absolute"), dtype if function.extended else np.float64)

    for _ in range(TRIALS):
        yield np.stack([np.broadcast_to(run, len(found)) for run in fold_joined(root, visit)], axis=-1)


def _balls(
    root: Apply, names: Sequence[str], points: Array, largest: Array, told: Callable[[], None]
) -> list[list[arb]]:
    """Balls around the values, with bits added until their radii are negligible beside the largest value of their tree.

    ``largest`` are sizes that some value of each tree is known to have. Where the most bits narrow none of a few balls,
    at points without a value or at a jump, the others are left as they are.
    """
    shape = (len(points), len(root.arguments))
    found, size, radius = [[arb.nan()] * shape[1]] * shape[0], np.zeros(shape), np.full(shape, np.inf)

    def look(at: Indices, bits: int) -> None:
        with precision(bits):
            for i in at.tolist():
                told()
                found[i] = at_point(root, dict(zip(names, map(arb, points[i].tolist()), strict=True)))
                size[i] = [abs(float(ball.mid())) for ball in found[i]]
                radius[i] = [float(ball.rad()) for ball in found[i]]

    left = np.arange(len(points))
    for bits in BITS:
        few, before = left[:: max(1, len(left) // FEW)], radius.copy()
        if bits > BITS[0]:
            look(few, BITS[-1])
            if not np.any(radius[few] < before[few]):
                break
        look(left, bits)
        known = np.isfinite(size) & np.isfinite(radius)
        sure = np.where(known, size, 0.0) - np.where(known, radius, 0.0)
        largest = np.maximum(largest, sure.max(axis=0, initial=0.0))
        wide = ~known | (radius > np.maximum(ENOUGH * np.maximum(size, largest), NOTHING))
        left = np.flatnonzero(wide.any(axis=1))
        if not len(left):
            break
    return found


def _extended(ball: arb, otherwise: np.longdouble, largest: float) -> np.longdouble:
    """The midpoint, as a sum of two float64 numbers; of a ball that tells little, around a jump, the value as run."""
    first = float(ball.mid())
    if np.isfinite(first) and not ball.is_finite():  # [0 +/- inf], beyond all numbers
        return np.longdouble(np.nan)
    if ball.is_finite() and float(ball.rad()) > max(DOUBTFUL * max(abs(first), largest), NOTHING):
        return otherwise
    return np.longdouble(first) + np.longdouble(float((ball - first).mid()) if np.isfinite(first) else 0.0)
