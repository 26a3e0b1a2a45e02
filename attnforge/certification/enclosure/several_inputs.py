r"""Heads of several inputs: the supremum of |network - formula| by Taylor expansion on boxes, branch and bound.

On a box the error $e = \mathrm{net} - f$ is a Taylor model (:mod:`.head_models`, :mod:`attnforge.kernel`): a polynomial
of $t \in [-1, 1]^D$, whose maximum is bounded by its Bernstein coefficients, and a bound of what it leaves out.

Boxes whose bound exceeds the largest error found by more than a factor are cut, many at a time, across the axis that
adds most, until there are none or a limit is reached; the bound holds in any case. The first cuts are where the formula
has kinks in one input. Blocks of boxes are independent: long searches share them among processes, and find the same
numbers. The roundings of float64 add about $10^{-13}$ times the size of the values: errors below that cannot be told
from zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification.enclosure.affine_heads import read_heads
from attnforge.certification.enclosure.factors import FactorHead, factor_head
from attnforge.certification.enclosure.head_models import head_models
from attnforge.effort import NORMAL, check_time
from attnforge.errors import CertificateError
from attnforge.expression.tree import Node
from attnforge.kernel.bernstein import largest_size
from attnforge.kernel.degrees import degrees
from attnforge.kernel.formula import formula_models
from attnforge.kernel.models import Models
from attnforge.network import Network
from attnforge.outward import Up
from attnforge.outward.branch_and_bound import Found, Rules, Supremum, branch_and_bound
from attnforge.parallel import Pool, Processes
from attnforge.proving.kinks import kink_cuts

Array = npt.NDArray[np.float64]

ORDERS = {1: 9, 2: 10, 3: 7, 4: 5}  # of models, by the number of inputs
PIECES = {1: 8, 2: 4, 3: 2, 4: 2}
CLOSE = 1.15  # the bound may exceed the largest error found by this factor
BATCH = 1024  # cells cut at once
FIRST = 256.5  # of them at first, about: fewer take no less time
WORTH_SHARING = 4  # blocks of them, below which no processes are asked to help
ALONE = Processes()
BLOCK = 2**20  # numbers of one array held at once
ROUNDED = 2.0**-47  # of the heads' size: about what float64 makes of their models
FLOORS = 16  # a bound this near to what rounding makes of it is not worth a cut
ENCLOSED = "the proof's own exp, sinh and cosh in float64 are within 4 units in the last place"


@dataclass(frozen=True, eq=False)
class Cells:
    """Bounds (C,) of |error| on boxes.

    ``seen`` is an error attained in the box, from below; ``floor`` is what float64 alone makes of the bound; ``cut``
    is the axis that adds most to it.
    """

    bound: Array
    seen: Array
    floor: Array
    cut: npt.NDArray[np.int64]


def join(sets: Sequence[Cells]) -> Cells:
    """All boxes of some sets, in their order."""
    names = Cells.__dataclass_fields__
    return Cells(*(np.concatenate([getattr(each, name) for each in sets]) for name in names))


def supremum_box(
    network: Network,
    tree: Node,
    names: Sequence[str],
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    *,
    close: float = CLOSE,
    cells: int = NORMAL.boxes,
    progress: Callable[[float], None] | None = None,
    processes: Processes = ALONE,
) -> Supremum:
    """A bound of |first output - formula| on the box, for one layer of heads over constant keys.

    Cutting ends when the bound is within ``close`` of the largest error found, at a limit of cells, or when time is
    up; ``progress`` is told the fraction of the way. ``processes`` share the boxes once the search turns out long. The
    result does not depend on it.
    """
    error, low, high = error_on_box(network, tree, names, lower, upper)

    def look(lows: Array, highs: Array, _: Any) -> Found:
        found = _shared(error, lows, highs, None if processes.one else pool)
        settled = found.bound <= FLOORS * found.floor
        return Found.of(found.bound, found.seen, found.cut, settled)

    rules = Rules(close, cells, BATCH, blind="what the proof's own float64 numbers can tell")
    with processes.sharing() as pool:
        return branch_and_bound(look, *first_boxes(error, low, high, min(cells, FIRST)), rules, progress)


def error_on_box(
    network: Network, tree: Node, names: Sequence[str], lower: npt.ArrayLike, upper: npt.ArrayLike
) -> tuple[ErrorOnBoxes, Array, Array]:
    """What is to be bounded, and the ends of its box, checked."""
    low, high = (np.atleast_1d(np.asarray(end, dtype=np.float64)) for end in (lower, upper))
    if (
        len(names) not in ORDERS
        or low.shape != (len(names),)
        or high.shape != low.shape
        or network.features != len(low)
    ):
        got = f"{len(names)} names, {low.size} lower and {high.size} upper ends"
        raise CertificateError("This proof covers boxes of one to four inputs, a name and two ends each", got)
    encode, heads = read_heads(network)
    heads_ = tuple(factor_head(encode, head, len(low)) for head in heads)
    return ErrorOnBoxes(heads_, tree, tuple(names), high - low), low, high


def _shared(error: ErrorOnBoxes, lower: Array, upper: Array, pool: Pool | None) -> Cells:
    """Blocks of boxes, by several processes where there are enough."""
    parts = error.parts(len(lower))
    if pool is None or len(parts) < WORTH_SHARING:
        return join([_block(error, lower[part], upper[part]) for part in parts])
    found = dict(pool.each(_numbered, [(error, i, lower[part], upper[part]) for i, part in enumerate(parts)]))
    return join([found[i] for i in range(len(parts))])


def _block(error: ErrorOnBoxes, lower: Array, upper: Array) -> Cells:
    check_time("looking at boxes")
    return error.block(lower, upper)


def _numbered(error: ErrorOnBoxes, number: int, lower: Array, upper: Array) -> tuple[int, Cells]:
    return number, error.block(lower, upper)


def first_boxes(error: ErrorOnBoxes, low: Array, high: Array, cells: float) -> tuple[Array, Array]:
    """The box, cut evenly into about so many, and where the formula has kinks in one input."""
    even = [np.linspace(a, b, int(cells ** (1 / len(low))) + 1)[1:-1] for a, b in zip(low, high, strict=True)]
    cuts = [np.unique([*some, *more]) for some, more in zip(even, error.kinks(low, high), strict=True)]
    edges = [np.array([a, *some[(a < some) & (some < b)], b]) for a, b, some in zip(low, high, cuts, strict=True)]
    pieces = [list(pairwise(edge.tolist())) for edge in edges]
    boxes = np.array(list(product(*pieces)))
    return boxes[..., 0], boxes[..., 1]


class ErrorOnBoxes:
    """The heads' sum minus the formula, expanded on cells."""

    def __init__(self, heads: tuple[FactorHead, ...], tree: Node, names: tuple[str, ...], widths: Array) -> None:
        self.heads, self.tree, self.names = heads, tree, names
        self.units = np.where(widths > 0, widths, 1.0)  # in which the longest side of a cell is measured
        self.pieces = PIECES[len(names)]
        self.table = degrees(len(names), ORDERS[len(names)])
        keys = max(max(head.values.shape[-1], head.values.mid.size // head.values.shape[-1]) for head in heads)
        self.step = max(1, BLOCK // max(len(self.table) * keys, (self.pieces * (self.table.degree + 1)) ** len(names)))

    def kinks(self, low: Array, high: Array) -> list[Array]:
        """Where the formula has kinks in one input, for each."""
        return kink_cuts(self.tree, self.names, low, high)

    def parts(self, count: int) -> list[slice]:
        """Blocks of boxes that are looked at together."""
        return [slice(i, i + self.step) for i in range(0, count, self.step)]

    def on(self, lower: Array, upper: Array) -> Cells:
        """The bounds on boxes, in blocks."""
        return join([self.block(lower[part], upper[part]) for part in self.parts(len(lower))])

    def block(self, lower: Array, upper: Array) -> Cells:
        """The bounds on some boxes at once."""
        with np.errstate(all="ignore"):
            inputs = Models.variables(self.table, lower, upper)
            heads = reduce(Models.__add__, (head_models(head, inputs) for head in self.heads))
            formula = formula_models(self.tree, {name: inputs[:, i] for i, name in enumerate(self.names)})
            bound, seen, share = self._expanded(heads, formula)
            floor = heads.size().values * ROUNDED
        longest, shown = ((upper - lower) / self.units).argmax(axis=1), share.max(axis=1) > 0
        known = np.isfinite(bound)
        return Cells(
            np.where(known, bound, np.inf),
            np.where(np.isfinite(seen), seen, 0.0),
            np.where(known, floor, 0.0),
            np.where(known & shown, share.argmax(axis=1), longest),
        )

    def _expanded(self, heads: Models, formula: Models) -> tuple[Array, Array, Array]:
        """Bounds (C,) of |error| on the cells, errors attained there, and about what each axis adds (C, D)."""
        table, error = self.table, heads - formula
        polynomial = np.zeros((error.shape[0], *[table.degree + 1] * table.inputs))
        polynomial[(slice(None), *table.exponents.T)] = error.c.T
        above, attained, _ = largest_size(polynomial, self.pieces)
        rest, last = error.rest.values, table.totals == table.degree
        left = (np.abs(heads.c) + np.abs(formula.c))[last].T @ table.exponents[last]
        curved = np.abs(error.c[table.totals > 1]).T @ table.exponents[table.totals > 1]
        share = np.where((rest > above - attained)[:, None], left, curved)
        return (Up(above) + rest).values, np.maximum(np.nextafter(attained - rest, -np.inf), 0.0), share
