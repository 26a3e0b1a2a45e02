"""Boxes: the compact sets on which functions are approximated and certified."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.arrays import float64
from attnforge.errors import DomainError, TargetError
from attnforge.expression.constant import EXAMPLES, constant

Array = npt.NDArray[np.float64]

SHORTEST = 2.0**-1020  # a side: four times its reciprocal is a float64 number


@dataclass(frozen=True, init=False, eq=False)
class Box:
    """The set of x with lower <= x <= upper, entry by entry.

    Args:
        lower, upper: numbers (broadcast to ``shape``), arrays of that shape, or flat arrays of as many numbers; a
            number may be text such as ``"-pi/2"`` or ``"sqrt(2)"``, and then is the float64 nearest to it.
        shape: ``(d,)`` for a function of d inputs, ``(n, d)`` for a sequence; None keeps the shape of the bounds,
            and two numbers alone make a box of any shape, fixed where it is used.

    >>> Box(-1, 1, shape=(2,)).upper
    array([1., 1.])
    """

    lower: Array
    upper: Array

    def __init__(self, lower: npt.ArrayLike, upper: npt.ArrayLike, shape: Sequence[int] | None = None) -> None:
        low, high = _numbers("lower", lower), _numbers("upper", upper)
        if shape is None:
            shape = np.broadcast_shapes(low.shape, high.shape) if _broadcastable(low, high) else low.shape
        sides = _sides(shape)
        low, high = _fit(low, sides), _fit(high, sides)
        if not np.all(low <= high):
            where = int(np.argmax(~(low <= high)))
            got = f"lower={low.flat[where]}, upper={high.flat[where]} at entry {where}"
            raise DomainError("A box needs lower <= upper in every entry", got, "Swap them")
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the points: () where it is not fixed yet."""
        return self.lower.shape

    @property
    def middle(self) -> Array:
        """The centre."""
        return self.lower / 2 + self.upper / 2

    def fixed(self, shape: tuple[int, ...]) -> Box:
        """The same box with points of the given shape."""
        if self.shape == shape:
            return self
        if self.shape == () or (len(shape) == 2 and self.shape == shape[1:]):
            return Box(np.broadcast_to(self.lower, shape), np.broadcast_to(self.upper, shape))
        raise DomainError(f"The domain must have points of shape {shape}", f"shape {self.shape}", "Give one bound each")

    def check(self, points: npt.NDArray[Any]) -> None:
        """Raise unless every point (batched over leading axes) is finite and inside."""
        if not np.all(np.isfinite(points)):
            raise DomainError("Inputs must be finite", "NaN or infinity", "Remove these points")
        inside = (points >= self.lower) & (points <= self.upper)
        if not np.all(inside):
            where = tuple(int(i) for i in np.argwhere(~inside)[0])
            entry = where[len(where) - self.lower.ndim :] if self.lower.ndim else ()
            bounds = f"[{self.lower[entry]}, {self.upper[entry]}]"
            raise DomainError(
                f"Inputs must lie in the certified domain ({bounds} at entry {entry})",
                f"{points[where]} at index {where}",
                "Compile for a larger domain, or use net.module(), which does not check",
            )


def as_box(domain: Any) -> tuple[Box, tuple[str, ...] | None]:
    """A box, and the names of its axes when the domain is a mapping such as ``{"x": (-1, 1)}``."""
    if isinstance(domain, Box):
        return _measurable(domain), None
    if isinstance(domain, Mapping):
        names = tuple(str(name) for name in domain)
        return _measurable(_from_pairs(list(domain.values()))), names
    if isinstance(domain, Sequence) and not isinstance(domain, str):
        return _measurable(_from_pairs(list(domain))), None
    remedy = 'Write {"x": (-1, 1)}, [(-1, 1)] or af.Box(-1, 1)'
    raise DomainError("A domain is a mapping of names to intervals, a list of intervals or a Box", repr(domain), remedy)


def in_order(domain: Any, names: tuple[str, ...] | None) -> Box:
    """The box, its axes in the order of these names where the domain names them."""
    box, given = as_box(domain)
    if given is None or given == names:
        return box
    if names is None or set(given) != set(names):
        own = "not named" if names is None else ", ".join(names)
        raise DomainError(f"The inputs are {own}", f"a domain of {', '.join(given)}", "Use these names")
    order = [given.index(name) for name in names]
    return Box(box.lower[order], box.upper[order])


def part_of(domain: Box, names: tuple[str, ...] | None, given: Any) -> Box:
    """A box of some inputs of a domain, as people write it: named inputs that are missing keep their whole interval."""
    found, named = as_box(given)
    if named is None:
        return found
    if names is None or not set(named) <= set(names):
        expected = "not named" if names is None else ", ".join(names)
        raise DomainError(f"The inputs of this network are {expected}", ", ".join(named), "Use these names")
    lower, upper = domain.lower.copy(), domain.upper.copy()
    for name, low, high in zip(named, found.lower, found.upper, strict=True):
        lower[names.index(name)], upper[names.index(name)] = low, high
    return Box(lower, upper)


def _measurable(box: Box) -> Box:
    """The box, after checking that its sides are zero or numbers by which one can divide."""
    with np.errstate(over="ignore"):
        sides = box.upper - box.lower
    wrong = ~(np.isfinite(sides) & ((sides == 0) | (sides >= SHORTEST)))
    if np.any(wrong):
        where = int(np.argmax(wrong))
        got = f"[{box.lower.flat[where]}, {box.upper.flat[where]}] at entry {where}"
        requirement = f"Sides of a domain are zero or between {SHORTEST:.1e} and 1.8e308, to be divided by"
        raise DomainError(requirement, got, "Scale this input")
    return box


def _from_pairs(pairs: list[Any]) -> Box:
    read = _read(pairs)
    try:
        array = float64(read)
    except DomainError:
        array = np.empty(())
    if array.ndim != 2 or array.shape[1] != 2 or len(array) == 0:
        raise DomainError("Each input needs an interval (lower, upper)", repr(pairs)[:200], "Write {'x': (-1, 1)}")
    return Box(array[:, 0], array[:, 1])


def _numbers(name: str, values: npt.ArrayLike) -> Array:
    read = _read(values)
    try:
        array = np.array(float64(read))
    except DomainError:
        raise DomainError(f"`{name}` must be numbers", repr(values)[:200], "Give a number or an array") from None
    if not np.all(np.isfinite(array)):
        wanted = f"`{name}` must be finite: certificates hold on compact boxes"
        raise DomainError(wanted, repr(values)[:200], "Give finite ends")
    return array


def _read(values: Any) -> Any:
    """The same with constants that are written as text, ``"-pi"``, and fractions replaced by their numbers."""
    if isinstance(values, list | tuple):
        return [_read(each) for each in values]
    if not isinstance(values, str):
        with suppress(TypeError, OverflowError):
            return float(values) if hasattr(values, "__float__") and not hasattr(values, "dtype") else values
        return values
    try:
        return constant(values)
    except TargetError as wrong:
        got = f"{values!r:.80}: {wrong.requirement[0].lower()}{wrong.requirement[1:]}"
        raise DomainError("The ends of an interval are numbers", got, EXAMPLES) from None


def _sides(shape: Any) -> tuple[int, ...]:
    """A shape, whose entries are positive whole numbers."""
    try:
        sides = tuple(operator.index(side) for side in shape)
    except TypeError:
        sides = (0,)
    if any(side < 1 for side in sides):
        remedy = "Write (d,) for d inputs, (n, d) for a sequence"
        raise DomainError("The shape of a box holds positive whole numbers", repr(shape)[:80], remedy)
    return sides


def _broadcastable(low: Array, high: Array) -> bool:
    return low.ndim == 0 or high.ndim == 0 or low.shape == high.shape


def _fit(values: Array, shape: tuple[int, ...]) -> Array:
    if values.ndim and values.size == int(np.prod(shape)):
        return values.reshape(shape)
    if values.ndim == 0:
        return np.broadcast_to(values, shape).copy()
    raise DomainError(f"The bounds must fit the shape {shape}", f"shape {values.shape}", "Give one number, or one each")
