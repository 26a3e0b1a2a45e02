"""Formulas of named inputs on no box yet: they are evaluated, enclosed, and become targets on a box."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.arrays import float64, framed, gathered
from attnforge.errors import DomainError, RefusalError, is_whole
from attnforge.expression import Node, program_text
from attnforge.expression.evaluate import bounds
from attnforge.expression.intervals import Interval
from attnforge.expression.points import careful_values
from attnforge.expression.ranges import range_on
from attnforge.expression.tree import Apply, bottom_up, joined
from attnforge.outward import lower, precision, upper
from attnforge.targets.comparing import compared
from attnforge.targets.defined import shown
from attnforge.targets.domain import Box, in_order
from attnforge.targets.formula import Formula
from attnforge.targets.formulas import Formulas, formula_target

Array = npt.NDArray[np.float64]

CELLS = 400  # parts of a box looked at for either end: where second derivatives vary little, a few a halving suffice
CLOSE = 2.0**-20  # of an end: 20 halvings of the first guess, or 10 where the error falls with the square of a side
PIECE = 2**16  # points evaluated at a time: results of all operations on them fit in memory
SHOWN = 80  # characters of a formula that is shown in one line


@dataclass(frozen=True, eq=False, repr=False)
class OpenFormula:
    """Formulas of named inputs; ``print`` shows them.

    ``scalar``: there is one, and its value is a number and not an array. ``origin`` is the function of a point (d,)
    that they were read from; None where they were written as text.

    >>> from attnforge.expression import parse
    >>> wave = OpenFormula((parse("sin(x)*y"),), ("x", "y"), scalar=True)
    >>> float(wave(x=0.5, y=2)), wave([[0.5, 2], [0, 1]]).tolist()
    (0.958851077208406, [0.958851077208406, 0.0])
    >>> wave.enclose({"x": (0, 1), "y": (-1, 2)})
    (-0.8414709848078966, 1.6829419696157932)
    """

    trees: tuple[Node, ...]
    names: tuple[str, ...]
    scalar: bool
    origin: Callable[[Array], Array] | None = None

    @property
    def text(self) -> str:
        """The formulas, as a straight-line program where parts are used twice."""
        return program_text(self.trees, self.names, scalar=self.scalar)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        text = self.text
        return f"<formula {text if len(text) <= SHOWN else text[:SHOWN] + ' ...'} of {', '.join(self.names)[:SHOWN]}>"

    def on(self, domain: Box) -> Formula | Formulas:
        """The target on a box, compared at random points of it with what the formulas were read from."""
        if domain.shape not in ((), (len(self.names),)):
            got = f"a domain of shape {domain.shape}"
            raise DomainError(f"The inputs are {', '.join(self.names)}", got, "Give each of them an interval")
        target = formula_target(self.trees, domain.fixed((len(self.names),)), self.names, self.scalar)
        if (origin := self.origin) is None:
            return target
        return compared(target, lambda points: np.stack([origin(point) for point in points]))

    def __call__(self, *points: Any, **inputs: Any) -> Any:
        """Values in float64, as NumPy computes them, or by more digits where more than 12 of the 53 bits would be lost.

        Inputs are numbers and arrays by name, which broadcast, vectors x[0], x[1], .. also as one x with them along the
        last axis; or one array (..., d) of all of them, of one input also (N,) or a number. Values have the shape
        (...), several formulas one more axis. Refused where a formula has no finite value.
        """
        given = gathered(points, self._by_entry(inputs), self.names, "formula")
        flat, shape = self._flat(float64(given))
        found = [careful_values(self._root, self.names, flat[i : i + PIECE]) for i in range(0, len(flat), PIECE)]
        values = np.concatenate([np.empty((0, len(self.trees))), *found])
        self._check_finite(flat, values)
        return framed(values.reshape(shape if self.scalar else (*shape, len(self.trees)))[()], points)

    def enclose(self, box: Any, *, cells: int = CELLS) -> tuple[Any, Any]:
        """Proved: a lower and an upper end that hold every value on a box, numbers, or arrays of several formulas.

        Args:
            box: ``{"x": (-1, 1), ...}``, or intervals in the order of ``names``, or an :class:`attnforge.Box`.
            cells: parts into which the box is cut at most for either end, the worst first, until the end is known to a
                millionth; of formulas of more than 400 operations there is one.

        By intervals, mean values and monotone inputs, in 96 bits; ends are rounded outward. Refused where a formula may
        have no finite value.
        """
        if not is_whole(cells) or not cells >= 1:
            raise RefusalError("`cells` is a whole number, at least 1", f"{cells!r:.80}", "Leave it out")
        domain = in_order(box, self.names).fixed((len(self.names),))
        ends = zip(self.names, domain.lower.tolist(), domain.upper.tolist(), strict=True)
        sides = {name: Interval(arb(low), arb(high)) for name, low, high in ends}
        with precision():
            found = [_range(tree, sides, int(cells)) for tree in self.trees]
        low, high = (np.array(each) for each in zip(*found, strict=True))
        return (float(low[0]), float(high[0])) if self.scalar else (low, high)

    @cached_property
    def _root(self) -> Apply:
        return joined(self.trees)

    def _by_entry(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Inputs by their names, vectors taken apart."""
        found: dict[str, Any] = {}
        for name, value in inputs.items():
            entries = {place: each for each in self.names if (place := _place(each, name)) is not None}
            found |= _taken_apart(name, value, entries) if entries else {name: value}
        return found

    def _flat(self, points: Array) -> tuple[Array, tuple[int, ...]]:
        """Points (N, d), and the shape of the values of one formula."""
        count = len(self.names)
        if count == 1 and points.ndim <= 1:
            points = points[..., None]
        if points.ndim == 0 or points.shape[-1] != count:
            got, remedy = f"shape {points.shape}", "Name every input, or give an array (..., d)"
            raise DomainError(f"Points have the inputs {', '.join(self.names)} along the last axis", got, remedy)
        if not np.all(np.isfinite(points)):
            raise DomainError("Inputs must be finite", "NaN or infinity", "Remove these points")
        return points.reshape(-1, count), points.shape[:-1]

    def _check_finite(self, points: Array, values: Array) -> None:
        wrong = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(wrong):
            at = ", ".join(f"{name}={x:g}" for name, x in zip(self.names, points[wrong[0]], strict=True))
            raise DomainError("A formula is evaluated where it has a finite value", f"{at[:200]}", "Leave it out")


def _place(entry: str, stem: str) -> int | None:
    """The index of an entry of a vector of that name; None of another name."""
    name, bracket, index = entry.partition("[")
    return int(index[:-1]) if bracket and name == stem else None


def _taken_apart(name: str, value: Any, entries: Mapping[int, str]) -> dict[str, Array]:
    vector = float64(value)
    if vector.ndim == 0 or vector.shape[-1] != max(entries) + 1:
        got = f"shape {vector.shape}"
        raise DomainError(f"The vector {name} has {max(entries) + 1} entries along the last axis", got, "Give them all")
    return {entry: vector[..., place] for place, entry in entries.items()}


def _range(tree: Node, sides: Mapping[str, Interval], cells: int) -> tuple[float, float]:
    found = range_on(tree, sides, cells, CLOSE)
    if not _is_finite(found):
        raise DomainError(
            "An enclosure needs a finite value everywhere on the box, as intervals must see",
            f"`{shown(_first_without(tree, sides))}` for {_in_words(sides)[:200]}",
            "Shrink the box, or write the formula in another way",
        )
    return lower(found.lower), upper(found.upper)


def _first_without(tree: Node, sides: Mapping[str, Interval]) -> Node:
    """The first part of which no finite value is known, the arguments of functions before these."""
    nodes: Sequence[Node] = bottom_up(tree)
    return next((node for node in nodes if not _is_finite(bounds(node, sides))), tree)


def _is_finite(found: Interval) -> bool:
    return bool(found.lower.is_finite() and found.upper.is_finite())


def _in_words(sides: Mapping[str, Interval]) -> str:
    return ", ".join(f"{name} in [{float(side.lower):g}, {float(side.upper):g}]" for name, side in sides.items())
