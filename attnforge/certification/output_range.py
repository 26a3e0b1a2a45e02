r"""Where outputs lie on a box: those of a network as it runs, and those of its target.

The run is a Taylor model on cells (:mod:`attnforge.kernel.run`), roundings of the dtype included, the target is
enclosed on them by :mod:`.target_range`. Cells are cut where the largest upper end is, and anew for the smallest lower
end, until each is within a small part of the range of a value seen, or a limit is reached; the outermost ends hold on
the box in any case.

A run lies within the proved bound of the target's range, and in the range of its models: where the bound is no small
part of the range, or there is none, models are made, too, and the range is what both have in common. No certificate
that a network brings along is believed: the bound is proved anew, on the box, from its numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attnforge.certification.certify import certify
from attnforge.certification.enclosure.run import evenly
from attnforge.certification.target_range import Range, enclosed_range
from attnforge.certification.window import window_rounding
from attnforge.effort import NORMAL, Effort, check_time
from attnforge.errors import AttnforgeError, CertificateError, OutOfTimeError
from attnforge.kernel.cells import numbers_held
from attnforge.kernel.degrees import degrees
from attnforge.kernel.models import Models
from attnforge.kernel.plan import INPUTS
from attnforge.kernel.run import run_network
from attnforge.network import Network, apply, rounded
from attnforge.outward import MACHINES, Machine, machine
from attnforge.outward.branch_and_bound import Found, Rules, Supremum, branch_and_bound
from attnforge.targets import AttentionHead, Box, JointFunction, PromptFormula, Target

Array = npt.NDArray[np.float64]
Values = Callable[[Array], Array]

CLOSE = 1 + 2.0**-10  # of the range seen: how much further out an end may be, plus one
TOLD = 2.0**6  # roundings of the largest value: ends are not told more closely
MANY = 2  # the order of models, of as many inputs as are cut
FIRST, BATCH = 64, 64  # cells at first, and those cut at once
BLOCK = 2**19  # numbers of one array held at once
SEARCHES = 4  # the boxes of a proof are shared by two ends, of a network and of its target
TIE = 2.0**-20  # where values hardly change, the longest side is cut


class Bounds(NamedTuple):
    """The lower and the upper ends (K,) of K outputs on a box, and whether both searches came to their end."""

    lower: Array
    upper: Array
    closed: bool

    def common(self, other: Bounds) -> Bounds:
        """Where both hold."""
        if self.lower.shape != other.lower.shape:
            got = f"{other.lower.size} of {self.lower.size}"
            raise CertificateError("The network must write the target's outputs", got, "Certify it first")
        return Bounds(np.fmax(self.lower, other.lower), np.fmin(self.upper, other.upper), self.closed or other.closed)

    def wider(self, by: float) -> Bounds:
        """With so much added, outward."""
        return Bounds(np.nextafter(self.lower - by, -np.inf), np.nextafter(self.upper + by, np.inf), self.closed)


@dataclass(frozen=True, eq=False)
class Outputs:
    """What is to be bounded: ranges (C, K) on cells (C, D); values (P, K) at points, which tell where to look.

    ``unit`` is the roundoff of values, ``cells`` how many may be looked at for an end of all outputs.
    """

    range: Range
    values: Values
    unit: float
    cells: int

    def on(self, lower: Array, upper: Array) -> Bounds:
        """The ends on a box (D,), each by a search of its own."""
        first = evenly(lower, upper, max(1, min(FIRST, self.cells)))
        seen = self.values(np.concatenate([first[0] / 2 + first[1] / 2, lower[None], upper[None]]))
        seen = np.nan_to_num(seen, nan=0.0, posinf=0.0, neginf=0.0)  # where there is no value nothing is to be seen
        ends = []
        for sign in (-1.0, 1.0):
            found = [self._largest(j, sign, seen, *first) for j in range(seen.shape[1])]
            largest = [float(each.parts.max()) for each in found if each.parts is not None]
            ends.append((sign * np.array(largest), all(each.limit is None for each in found)))
        (low, is_low), (high, is_high) = ends
        return Bounds(low, high, is_low and is_high)

    def _largest(self, output: int, sign: float, seen: Array, lower: Array, upper: Array) -> Supremum:
        """The supremum of an output, or of its opposite: found above the smallest value seen, ends kept as parts."""
        ahead, size = sign * seen[:, output], float(np.abs(seen[:, output]).max())
        base = float(ahead.min())
        sides = upper.max(axis=0) - lower.min(axis=0)

        def look(lows: Array, highs: Array, _: Any) -> Found:
            ends = sign * self.range(lows, highs)[1 if sign > 0 else 0][:, output]
            high = np.where(np.isnan(ends), np.inf, ends)
            values, axis = self._looked(lows, highs, output, sides)
            return Found.of(high - base, sign * values - base, axis, parts=high[:, None])

        told = TOLD * self.unit * size + (CLOSE - 1) * float(np.ptp(ahead))
        rules = Rules(CLOSE, max(1, self.cells // seen.shape[1]), BATCH, negligible=told)
        return branch_and_bound(look, lower, upper, rules)

    def _looked(self, lower: Array, upper: Array, output: int, sides: Array) -> tuple[Array, npt.NDArray[np.int64]]:
        """The values in the middle of cells (C,), and the axis along which they change most."""
        middle, radius = lower / 2 + upper / 2, upper / 2 - lower / 2
        count, inputs = middle.shape
        share = TIE * radius / np.where(sides > 0, sides, 1.0)
        if inputs > INPUTS:
            return self.values(middle)[:, output], share.argmax(axis=1)
        ways = np.concatenate([np.zeros((1, inputs)), np.eye(inputs), -np.eye(inputs)])
        points = (middle[:, None] + ways * radius[:, None]).reshape(-1, inputs)
        values = self.values(points)[:, output].reshape(count, -1)
        change = np.abs(values[:, 1:] - values[:, :1]).reshape(count, 2, -1).max(axis=1)
        reach = max(float(np.nan_to_num(change).max()), np.finfo(np.float64).tiny)
        share = np.nan_to_num(change) / reach + share
        return values[:, 0], np.where(radius > 0, share, -1.0).argmax(axis=1)


def output_range(
    network: Network, target: Target, box: Box, dtype: str, effort: Effort = NORMAL
) -> tuple[Array, Array]:
    """Lower and upper ends (K,) of the outputs of the network as it runs on the box: of all rows, in a row.

    ``box`` (D,) or (n, d) is one of the target's points, or of any number of tokens.
    """
    found = _by_target(network, target, box, dtype, effort)
    if (found is None or not found.closed) and not isinstance(target, PromptFormula):
        run = run_outputs(network, input_rows(target, box), box, machine(dtype), effort).on(
            box.lower.ravel(), box.upper.ravel()
        )
        found = run if found is None else found.common(run)
    return _ends(found, "the network's outputs")


def target_range(target: Target, box: Box, effort: Effort = NORMAL) -> tuple[Array, Array]:
    """Lower and upper ends (K,) of the target on the box; refused where it cannot be read."""
    return _ends(_of_target(target, box, effort), "the target")


def _ends(found: Bounds | None, what: str) -> tuple[Array, Array]:
    if found is None or not (np.isfinite(found.lower).all() and np.isfinite(found.upper).all()):
        remedy = "Take a smaller box, more effort or a wider dtype"
        raise CertificateError(f"A finite range of {what} must be proved", "none", remedy)
    return found.lower, found.upper


def _by_target(network: Network, target: Target, box: Box, dtype: str, effort: Effort) -> Bounds | None:
    """The target's range and what the network may be off; None where either is not proved."""
    if isinstance(target, AttentionHead) and len(box.shape) > 1:
        target = replace(target, tokens=max(target.tokens, box.shape[0]))
    try:
        certificate = certify(network, target, _hull(network, box), dtype, effort=effort)
        if certificate.status != "proved" or certificate.bound is None:
            return None
        found = _of_target(target, box, effort)
        small = certificate.bound <= (CLOSE - 1) * float((found.upper - found.lower).min())
        return found.wider(certificate.bound)._replace(closed=found.closed and small)
    except OutOfTimeError:
        raise
    except AttnforgeError:
        return None


def _of_target(target: Target, box: Box, effort: Effort) -> Bounds:
    if isinstance(target, PromptFormula):
        target = target.on(box).outer()
        box = target.domain
    shape = (-1, *box.shape)
    exact = enclosed_range(target, INPUTS)

    def values(points: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(target.values(points.reshape(shape)), dtype=np.float64).reshape(len(points), -1)

    outputs = Outputs(exact, values, MACHINES["float64"].roundoff, effort.boxes // SEARCHES)
    return outputs.on(box.lower.ravel(), box.upper.ravel())


@dataclass(frozen=True, eq=False)
class InputRows:
    """Where among the inputs (D,) of a box the rows of a network's input stand, and their shape (n, m)."""

    place: slice
    shape: tuple[int, int]

    @classmethod
    def of(cls, first: int, shape: tuple[int, ...]) -> InputRows:
        """From a place on; a point without rows is one."""
        rows = (1, *shape)[-2:]
        return cls(slice(first, first + rows[0] * rows[1]), (rows[0], rows[1]))

    def models(self, inputs: Models) -> Models:
        """The rows (C, n, m) of inputs (C, D)."""
        return inputs[:, self.place].shaped(inputs.shape[0], *self.shape)

    def points(self, points: Array) -> Array:
        """The rows (P, n, m) of points (P, D)."""
        return points[:, self.place].reshape(-1, *self.shape)


def input_rows(target: Target, box: Box) -> tuple[InputRows, InputRows | None]:
    """Of the input and, of two, of the second one: the joint points of these begin with it."""
    if not isinstance(target, JointFunction):
        return InputRows.of(0, box.shape), None
    told = InputRows.of(0, target.keys.shape)
    return InputRows.of(told.place.stop, target.query.shape), told


def run_outputs(
    network: Network, rows: tuple[InputRows, InputRows | None], box: Box, model: Machine, effort: Effort
) -> Outputs:
    """The outputs of a network as it runs in a dtype."""
    run, size, (state, told) = rounded(network, model.name), box.lower.size, rows
    table = degrees(size, MANY if size <= INPUTS else 1)
    numbers = len(table) * numbers_held(run, max(state.shape[0], told.shape[0] if told else 0))
    step = max(1, BLOCK // numbers)
    added = window_rounding(run, _hull(run, box), model) or 0.0

    def block(lower: Array, upper: Array) -> tuple[Array, Array]:
        check_time("enclosing the outputs of a network")
        inputs = Models.variables(table, lower, upper)
        context = None if told is None else told.models(inputs)
        with np.errstate(all="ignore"):
            low, high = run_network(run, state.models(inputs), model, context).wider(added).range()
        return low.reshape(len(lower), -1), high.reshape(len(lower), -1)

    def range_on(lower: Array, upper: Array) -> tuple[Array, Array]:
        parts = [block(lower[i : i + step], upper[i : i + step]) for i in range(0, len(lower), step)]
        return np.concatenate([low for low, _ in parts]), np.concatenate([high for _, high in parts])

    def values(points: Array) -> Array:
        context = None if told is None else told.points(points)
        with np.errstate(all="ignore"):
            return apply(run, state.points(points), context).reshape(len(points), -1)

    return Outputs(range_on, values, model.roundoff, min(effort.boxes, int(effort.pairs / numbers)) // SEARCHES)


def _hull(run: Network, box: Box) -> Box:
    """Of one token, where any number of them are run alike."""
    if run.tokens is not None or len(box.shape) < 2:
        return box
    return Box(box.lower.min(axis=0), box.upper.max(axis=0))
