"""Values of an expression: on NumPy arrays, and enclosed on balls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from flint import arb, arb_series, ctx

from attnforge.errors import TargetError
from attnforge.expression.functions import function_of, of_numbers
from attnforge.expression.intervals import UNDEFINED, Interval, from_ball, is_undefined, to_ball
from attnforge.expression.tree import Apply, Constant, Node, Variable, fold, fold_joined
from attnforge.outward.real import precision as working_precision

Array = npt.NDArray[Any]
T = TypeVar("T")


def evaluate(node: Node, values: Mapping[str, npt.ArrayLike]) -> Array:
    """The expression at all points at once.

    The values broadcast against each other, and the result has their common shape, also when the expression does not
    use them all. Everything is computed in float64, or in longdouble if a value is (SciPy's functions, such as `erf`,
    then have float64 accuracy).
    Points where the expression is undefined or overflows give NaN or infinity, without a warning: the caller checks.

    A sum of many terms holds one array per term: give large inputs in pieces.

    >>> from attnforge.expression.parse import parse
    >>> evaluate(parse("x^2 - 1/y"), {"x": [1.0, 2.0], "y": 4.0})
    array([0.75, 3.75])
    """
    arrays, shape = _arrays(values)
    with np.errstate(all="ignore"):
        return np.array(np.broadcast_to(fold(node, _on_arrays(arrays)), shape))


def evaluate_joined(root: Apply, values: Mapping[str, npt.ArrayLike]) -> Array:
    """The same of several trees, along a last axis.

    >>> from attnforge.expression import parse
    >>> from attnforge.expression.tree import joined
    >>> evaluate_joined(joined([parse("x^2"), parse("3")]), {"x": [1.0, 2.0]})
    array([[1., 3.],
           [4., 3.]])
    """
    arrays, shape = _arrays(values)
    with np.errstate(all="ignore"):
        results = fold_joined(root, _on_arrays(arrays))
    return np.stack([np.broadcast_to(result, shape) for result in results], axis=-1)


def _on_arrays(arrays: Mapping[str, Array]) -> Callable[[Node, Sequence[Array]], Array]:
    """What a node is on arrays of one dtype."""
    dtype = np.result_type(np.float64, *arrays.values())

    def visit(each: Node, arguments: Sequence[Array]) -> Array:
        if isinstance(each, Constant):
            return np.asarray(each.value, dtype=dtype)
        if isinstance(each, Variable):
            return _lookup(arrays, each.name)
        return np.asarray(function_of(each).array(*arguments), dtype=dtype)

    return visit


def enclose(node: Node, values: Mapping[str, arb], *, precision: int | None = None) -> arb:
    """A ball that contains the expression's value at every point of the balls given.

    It is NaN (which contains everything, and is not finite) if the expression is undefined or unbounded somewhere in
    them, or if this cannot be excluded. ``precision`` is in bits; None keeps ``flint.ctx.prec``, which is global: the
    result is correct at any precision, only wider.

    >>> from attnforge.expression.parse import parse
    >>> enclose(parse("max(x, 0)"), {"x": arb(-3)})
    0
    """
    with working_precision(precision or ctx.prec):
        return to_ball(bounds(node, {name: from_ball(ball) for name, ball in values.items()}))


def at_point(root: Apply, point: Mapping[str, arb]) -> list[arb]:
    """Balls around the values of joined trees at one point; NaN where there is none, or it cannot be excluded.

    >>> from attnforge.expression import parse
    >>> from attnforge.expression.tree import joined
    >>> at_point(joined([parse("sign(x - x) + sqrt(x)"), parse("x^2")]), {"x": arb(4)})
    [2.00000000000000, 16.0000000000000]
    """

    def visit(each: Node, arguments: Sequence[arb]) -> arb:
        if isinstance(each, Constant):
            return arb(each.value)
        return _lookup(point, each.name) if isinstance(each, Variable) else of_numbers(each, arguments)

    return fold_joined(root, visit)


def bounds(node: Node, values: Mapping[str, Interval]) -> Interval:
    """The same from endpoint to endpoint: tight where a ball cannot be, as for sqrt on an interval that starts at 0.

    >>> from attnforge.expression.parse import parse
    >>> bounds(parse("sqrt(1 - x^2)"), {"x": Interval(arb(-1), arb(1))})
    Interval(lower=0, upper=1.00000000000000)
    """
    result = fold(node, _bounded(values))
    return UNDEFINED if is_undefined(result) else result


def joined_bounds(root: Apply, values: Mapping[str, Interval]) -> list[Interval]:
    """Those of all trees that a root joins, subtrees that they share bounded once."""
    return [UNDEFINED if is_undefined(result) else result for result in fold_joined(root, _bounded(values))]


def _bounded(values: Mapping[str, Interval]) -> Callable[[Node, Sequence[Interval]], Interval]:
    def visit(each: Node, arguments: Sequence[Interval]) -> Interval:
        if isinstance(each, Constant):
            return Interval(arb(each.value), arb(each.value))
        if isinstance(each, Variable):
            return _lookup(values, each.name)
        function = function_of(each)
        if any(is_undefined(argument) for argument in arguments) and not function.chooses:
            return UNDEFINED
        return function.interval(*arguments)

    return visit


def taylor(node: Node, values: Mapping[str, arb_series]) -> arb_series:
    """The expression as a power series, its variables being power series with balls as coefficients.

    Raises NotSmoothError where it has none. The number of terms is ``flint.ctx.cap``, which is global.

    >>> from attnforge.expression.parse import parse
    >>> taylor(parse("x^2 + abs(x)"), {"x": arb_series([-1, 1])})
    2.00000000000000 + (-3.00000000000000)*x + 1.00000000000000*x^2 + O(x^10)
    """

    def visit(each: Node, arguments: Sequence[arb_series]) -> arb_series:
        if isinstance(each, Constant):
            return arb_series([arb(each.value)])
        if isinstance(each, Variable):
            return _lookup(values, each.name)
        return function_of(each).series(*arguments)

    return fold(node, visit)


def _arrays(values: Mapping[str, npt.ArrayLike]) -> tuple[dict[str, Array], tuple[int, ...]]:
    """The values in one dtype, and their common shape."""
    arrays = {name: np.asarray(value) for name, value in values.items()}
    dtype = _dtype(arrays)
    shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
    return {name: array.astype(dtype, copy=False) for name, array in arrays.items()}, shape


def _dtype(arrays: Mapping[str, Array]) -> np.dtype[Any]:
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise TargetError(f"The values of `{name}` must be real numbers", f"dtype {array.dtype}", "Convert them")
    return np.result_type(np.float64, *(array.dtype for array in arrays.values()))


def _lookup(values: Mapping[str, T], name: str) -> T:
    if name not in values:
        given = ", ".join(f"`{each}`" for each in values) or "none"
        raise TargetError(f"The expression needs a value for `{name}`", f"values for {given}", f"Give `{name}` too")
    return values[name]
