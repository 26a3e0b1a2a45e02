r"""Where a target's values lie on boxes: by its Lipschitz constant, or enclosed by interval arithmetic.

A formula is evaluated on intervals, which proves the range. Of a callable with $|f(x) - f(y)| \le L\|x - y\|$ the
range over a box with midpoint m and radii r is $f(m) \pm L\|r\|$, on condition that L is right.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.balls import precision
from attnforge.errors import CertificateError
from attnforge.targets import Formula, Target
from attnforge.targets.expression.evaluate import bounds
from attnforge.targets.expression.intervals import Interval

Array = npt.NDArray[np.float64]
Range = Callable[[Array, Array], tuple[Array, Array]]

NORMS: dict[str, Callable[[Array], Array]] = {
    "sup": lambda r: r.max(axis=1),
    "l2": lambda r: np.sqrt(np.square(r).sum(axis=1)) * (1 + 2.0**-48),
    "l1": lambda r: r.sum(axis=1) * (1 + 2.0**-48),
}


def range_of(target: Target) -> Range:
    """A function from boxes, lower and upper corners (B, D), to lower and upper bounds (B, K) of the target there."""
    if isinstance(target, Formula):
        return _enclosed(target)
    return _lipschitz(target)


def values_at(target: Target, points: Array) -> Array:
    """Values (B, K) at points (B, D), all outputs of all tokens in a row."""
    found = np.asarray(target.values(points.reshape(-1, *target.domain.shape)), dtype=np.float64)
    return found.reshape(len(points), -1)


def _lipschitz(target: Target) -> Range:
    known = target.lipschitz()
    if known is None:
        raise CertificateError("This bound rests on a Lipschitz constant or a formula", "neither", "Pass lipschitz=")
    constant, norm = known.constant, NORMS[known.norm]

    def bounds_on(lower: Array, upper: Array) -> tuple[Array, Array]:
        middle = lower / 2 + upper / 2
        radius = np.maximum(upper - middle, middle - lower) * (1 + 2.0**-50)
        value, reach = values_at(target, middle), constant * norm(radius)[:, None]
        reach = reach + 2.0**-50 * (np.abs(value) + reach)
        return value - reach, value + reach

    return bounds_on


def _enclosed(target: Formula) -> Range:
    tree, names = target.tree, target.names

    def bounds_on(lower: Array, upper: Array) -> tuple[Array, Array]:
        found = np.empty((len(lower), 2))
        with precision():
            for row, (low, high) in enumerate(zip(lower, upper, strict=True)):
                sides = {name: Interval(arb(a), arb(b)) for name, a, b in zip(names, low, high, strict=True)}
                found[row] = _outward(bounds(tree, sides))
        return found[:, :1], found[:, 1:]

    return bounds_on


def _outward(found: Interval) -> tuple[float, float]:
    """Floats around an interval; everything where it is undefined."""
    if not (found.lower.is_finite() and found.upper.is_finite()):
        return -np.inf, np.inf
    low, high = float(found.lower), float(found.upper)
    return float(np.nextafter(low, -np.inf)), float(np.nextafter(high, np.inf))
