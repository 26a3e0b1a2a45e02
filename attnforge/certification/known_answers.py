r"""Questions about a network whose answers are known: does it stay within t of given affine pieces, on all of a box?

Let A be affine on cells of the box, $|f - A| \le r$ there (:mod:`.bracket`), and $|\mathrm{net} - f| \le b$ proved.
Then
$$ |\mathrm{net}(x) - A(x)| \le b + r \quad \text{for every } x \text{ of the box,} $$
and at one point w of it, $|\mathrm{net}(w) - A(w)| \ge d$, by an enclosure of the output there. So the answer is yes
for every $t > b + r$, no for every $t \le d$, and unknown to us in between. That the network stays within t of A says
that it stays within t + r of f; that it does not says that its error is at least t - r somewhere.

Both hold of the network in exact arithmetic and as it runs in its dtype: what rounding may add is part of b and of the
enclosure at w. Where that leaves nothing of d, it is taken of exact arithmetic alone. Nothing is believed of a network:
b is proved anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from attnforge.certification.bracket import Pieces, cut, distance
from attnforge.certification.certify import certify
from attnforge.certification.output_range import Bounds, input_rows, run_outputs
from attnforge.certification.target_range import seen_at, target_models
from attnforge.effort import NORMAL, Effort
from attnforge.errors import AttnforgeError, CertificateError, OutOfTimeError
from attnforge.kernel.degrees import degrees
from attnforge.kernel.models import Models
from attnforge.network import Network, apply, count_keys
from attnforge.outward import add_up, machine, round_to
from attnforge.targets import Box, Target

Array = npt.NDArray[np.float64]
Values = Callable[[Array], Array]

NEAR = 2.0**-4  # of the bound: pieces nearer to the target than this are neither cut nor told apart from it
HALVINGS = 60  # of a box that shrinks around a point


@dataclass(frozen=True, eq=False)
class Subject:
    """A network, of weights as a dtype holds them, the target it is compared with, and a bound proved on a box."""

    network: Network
    target: Target
    box: Box
    dtype: str
    bound: float
    effort: Effort = NORMAL

    @classmethod
    def proved(cls, network: Network, target: Target, box: Box, dtype: str, effort: Effort = NORMAL) -> Subject:
        """With the bound on the box, which must be a theorem without conditions."""
        certificate = certify(network, target, box, dtype, effort=effort)
        if certificate.status != "proved" or certificate.bound is None:
            wanted = "Answers are known where a bound of |net(x) - f(x)| is proved, without conditions"
            got = f"a certificate that is {certificate.status}"
            raise CertificateError(wanted, got, "Compile a formula with require='proved', or ask for more effort")
        return cls(network, target, box, dtype, certificate.bound, effort)

    def error(self, points: Array) -> Array:
        """|net - f| (P,) at points (P, D), in float64: to tell where to look, not for a bound."""
        return np.asarray(np.abs(self.outputs(points) - seen_at(self.target, points)).max(axis=1))

    def outputs(self, points: Array) -> Array:
        """The network (P, K) at points, in float64."""
        with np.errstate(all="ignore"):
            return apply(self.network, points[:, None, :]).reshape(len(points), -1)

    def bound_on(self, box: Box) -> float:
        """The smaller of the bound on all of the box and one on a part of it."""
        if box is self.box:
            return self.bound
        try:
            return min(self.bound, Subject.proved(self.network, self.target, box, self.dtype, self.effort).bound)
        except OutOfTimeError:
            raise
        except AttnforgeError:
            return self.bound

    def farthest(self, values: Values, box: Box, also: Array) -> Array:
        """The point (D,) of the box, of numbers of the dtype, with the largest value found, by looking and climbing."""
        rng, effort = np.random.default_rng(0), self.effort.beside(count_keys(self.network))
        points = np.concatenate([also, rng.uniform(box.lower, box.upper, (effort.points, len(box.lower)))])
        sides = box.upper - box.lower
        for _ in range(effort.rounds + 1):
            points = np.clip(round_to(points, self.dtype), box.lower, box.upper)
            best = points[np.nan_to_num(values(points), nan=-np.inf).argmax()]
            sides = sides / 2
            near = best + sides * rng.uniform(-0.5, 0.5, (max(1, effort.tries), len(best)))
            points = np.concatenate([best[None], near])
        return np.asarray(best)


@dataclass(frozen=True, eq=False)
class Witness:
    """A point at which an output, between two numbers, is at least so far from the piece of a cell that holds it.

    ``exact_only`` is true where the numbers enclose what exact arithmetic gives, and not every run in the dtype.
    """

    point: Array
    cell: int
    output: int
    between: tuple[float, float]
    distance: Fraction
    exact_only: bool


@dataclass(frozen=True, eq=False)
class Question:
    """Whether a network stays within t of pieces that are within ``radius`` of its target, on all of a box.

    ``bound`` is that of |net - f| there, ``witness`` a point where the network is far from the pieces; None where none
    is certain.
    """

    box: Box
    pieces: Pieces
    radius: float
    bound: float
    witness: Witness | None

    @property
    def most(self) -> float:
        """The network is no farther than this from the pieces, anywhere on the box."""
        return add_up(self.bound, self.radius)

    def holds(self, lower: Array, upper: Array) -> bool:
        """Whether outputs certainly lie strictly between the pieces with offsets ``lower`` and ``upper`` (C, K)."""
        most, offsets = Fraction(self.most), self.pieces.offsets.ravel()
        ends = zip(lower.ravel(), offsets, upper.ravel(), strict=True)
        return all(Fraction(low) + most < Fraction(at) < Fraction(high) - most for low, at, high in ends)

    def fails(self, lower: Array, upper: Array) -> bool:
        """Whether an output at the witness certainly does not lie strictly between them."""
        if self.witness is None:
            return False
        at, (low, high) = (self.witness.cell, self.witness.output), map(Fraction, self.witness.between)
        form = _form(self.pieces.slopes[at], self.witness.point)
        return low - form >= Fraction(upper[at]) or high - form <= Fraction(lower[at])


def question(subject: Subject, box: Box, cells: int, *, affine: bool) -> Question:
    """Of at most so many cells, affine functions or constants."""
    bound = subject.bound_on(box)
    pieces, _ = cut(subject.target, box, cells, affine=affine, dtype=subject.dtype, enough=NEAR * bound)
    radius = distance(subject.target, pieces, subject.effort, NEAR * bound)
    return Question(box, pieces, radius, bound, _witness(subject, pieces, box, bound))


def close_box(subject: Subject, cells: int) -> Box | None:
    """A box around the largest error seen, so small that affine pieces are as near to the target as the network is.

    None where numbers of the dtype are too far apart for that.
    """
    box = subject.box
    centre = subject.farthest(subject.error, box, box.middle[None])
    for halving in range(HALVINGS):
        half = (box.upper - box.lower) / 2 ** (halving + 1)
        lower, upper = (round_to(centre + sign * half, subject.dtype) for sign in (-1, 1))
        near = Box(np.maximum(box.lower, lower), np.minimum(box.upper, upper))
        _, spread = cut(subject.target, near, cells, affine=True, dtype=subject.dtype, enough=subject.bound)
        if spread <= subject.bound:
            return near if np.all((near.lower < near.upper) | (box.lower == box.upper)) else None
    return None


def _witness(subject: Subject, pieces: Pieces, box: Box, bound: float) -> Witness | None:
    """Where the network is certainly far from the pieces: as it runs, or at least in exact arithmetic."""

    def apart(points: Array) -> Array:
        return np.asarray(np.abs(subject.outputs(points) - pieces.at(points)).max(axis=1))

    corners = np.concatenate([pieces.lower, pieces.upper, pieces.lower / 2 + pieces.upper / 2])
    point = subject.farthest(apart, box, corners)
    for dtype in dict.fromkeys((subject.dtype, "float64")):
        found = _enclosed(subject, point, box, bound, dtype)
        away, cell, output = max(_apart(pieces, point, found), default=(Fraction(0), 0, 0))
        if away > 0:
            between = float(found.lower[output]), float(found.upper[output])
            return Witness(point, cell, output, between, away, dtype != subject.dtype)
    return None


def _enclosed(subject: Subject, point: Array, box: Box, bound: float, dtype: str) -> Bounds:
    """The outputs (K,) at a point: of the run in a dtype, and in exact arithmetic.

    The weights are those of the subject's dtype. With a wider one, only what exact arithmetic gives is of use.
    """
    at, rows = Box(point, point), input_rows(subject.target, box)
    low, high = run_outputs(subject.network, rows, at, machine(dtype), subject.effort).range(point[None], point[None])
    run = Bounds(np.where(np.isnan(low), -np.inf, low)[0], np.where(np.isnan(high), np.inf, high)[0], True)
    with np.errstate(all="ignore"):
        variables = Models.variables(degrees(len(point), 1), point[None], point[None])
        low, high = target_models(subject.target, variables).range()
    return Bounds(low[0], high[0], True).wider(bound).common(run)


def _apart(pieces: Pieces, point: Array, found: Bounds) -> list[tuple[Fraction, int, int]]:
    """How far each output at least is from the piece of each cell that holds the point."""
    cells = np.flatnonzero(((pieces.lower <= point) & (point <= pieces.upper)).all(axis=1)).tolist()
    return [
        (max(Fraction(low) - at, at - Fraction(high)), cell, output)
        for cell in cells
        for output, (low, high) in enumerate(zip(found.lower, found.upper, strict=True))
        if np.isfinite(low) and np.isfinite(high)
        for at in (_form(pieces.slopes[cell, output], point) + Fraction(pieces.offsets[cell, output]),)
    ]


def _form(slopes: Array, point: Array) -> Fraction:
    """A linear form at a point, exactly."""
    return sum((Fraction(a) * Fraction(x) for a, x in zip(slopes, point, strict=True)), Fraction(0))
