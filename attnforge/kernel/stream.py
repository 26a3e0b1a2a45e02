r"""A residual stream in whatever basis: what is written along which directions, and what others read of that.

Sources are the constant 1, number 0, the inputs, and the numbers $X_s$ that heads compute before their output maps. In
exact arithmetic the stream is $z = \sum_s X_s D_s$: directions $D_s$ are rows of maps from inputs and of output maps,
taken through the linear maps since. A run's stream, with its own $X_s$, departs from that by at most ``error``, entry
by entry: every map and every sum of a residual rounds, later maps carry that on. So products of a network's own weights
say what a head reads of every source, whether the stream has a column for each of them, another basis, or fewer
dimensions than there are sources.

**Rounding.** A sum of k products errs by at most $\gamma_k \sum |z||w|$ in any order, k the roundings behind it, and by
what :func:`attnforge.outward.sum_rounding` makes of the signs of the products; the smaller is taken. A residual is one
summand more.

**Reading.** Let $\hat y = z U$, exactly, be k numbers that somebody chooses to read of the stream; any U will do. What
they are is known from the sources,
$$ |\hat y - X^T W| \le |X|^T |D U - W| + |\varepsilon|^T |U| , $$
and a head's matrix M reads them and little else, $z M = \hat y C + c_0 + \text{rest}$ for any numbers C and $c_0$:
$$ |\text{rest}| \le |X|^T |D (M - U C) - e_0 c_0^T| + |\varepsilon|^T |M - U C| . $$
What the stream errs by along U is thereby one error of $\hat y$, which query and value share, and what M reads beside
it is noise. The run rounds $z M$ by $\gamma_k \sum_j |z_j||M_j|$; where a column of U reads one feature j alone, with
weight u, then $|z_j| = |\hat y|/|u|$, which may be known to be small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.errors import CertificateError, RefusalError
from attnforge.kernel.rounding import count_roundings, gammas, power_of_two
from attnforge.network import Layer, Linear
from attnforge.outward import Balls, Machine, Up, sum_rounding
from attnforge.outward.arrays import TINY, UNIT, two_product, two_sum

Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

REMEDY = "Prove it as a whole, on cells"
SMALL = 2.0**-900  # what products below lack may itself underflow


@dataclass(frozen=True, eq=False)
class Sources:
    """Bounds (S,) of all numbers of a run that may be in a stream, the constant first; infinite ones of unknown."""

    low: Array
    high: Array

    @property
    def size(self) -> Up:
        """Of their absolute values."""
        return Up.between(self.low, self.high)

    def sums(self, weights: Up) -> Up:
        """Bounds (..., r) of sums of the sources times weights (..., S, r) of these sizes."""
        known = np.isfinite(self.low) & np.isfinite(self.high)
        missing = np.any(weights.values[..., ~known, :], axis=-2)
        sizes = Up(np.where(known, self.size.values, 0.0))
        found = (sizes[None] @ weights)[..., 0, :]
        return Up(np.where(missing, np.inf, found.values))

    def ends(self, weights: Balls) -> tuple[Array, Array]:
        """Bounds (r,) of the sums themselves, of known sources."""
        low, high = np.where(np.isfinite(self.low), self.low, 0.0), np.where(np.isfinite(self.high), self.high, 0.0)
        middle, radius = Balls.exact(low / 2 + high / 2), Balls.between(low, high).rad
        found = (Balls(middle.mid, radius)[None] @ weights)[0]
        size = self.sums(Up.of(weights)).values
        below, above = np.nextafter(found.mid - found.rad, -np.inf), np.nextafter(found.mid + found.rad, np.inf)
        known = np.isfinite(size)
        return np.where(known, np.maximum(below, -size), -np.inf), np.where(known, np.minimum(above, size), np.inf)


@dataclass(frozen=True, eq=False)
class Stream:
    """Directions (s, m) of the sources ``rows`` (s,) that are in it, the constant first; a run's error (m,)."""

    rows: Numbers
    directions: Balls
    error: Up
    machine: Machine

    @classmethod
    def of_inputs(cls, inputs: int, machine: Machine) -> Stream:
        """The inputs as they are, sources 1 to ``inputs``."""
        directions = Balls.exact(np.eye(1 + inputs, inputs, -1))
        return cls(np.arange(1 + inputs), directions, Up.zeros(inputs), machine)

    def ends(self, sources: Sources) -> tuple[Array, Array]:
        """Bounds (m,) of the stream's features in a run."""
        low, high = Sources(sources.low[self.rows], sources.high[self.rows]).ends(self.directions)
        off = self.error.values
        below, above = np.nextafter(low - off, -np.inf), np.nextafter(high + off, np.inf)
        return np.where(off == 0, low, below), np.where(off == 0, high, above)

    def size(self, sources: Sources) -> Up:
        """Of the features; a run in which they do not fit is refused."""
        return _fitting(Up.between(*self.ends(sources)), self.machine)

    def mapped(self, layer: Linear, sources: Sources) -> Stream:
        """After a linear map."""
        weights, constant = plain_map(layer)
        directions = product(self.directions, weights)
        directions.mid[0], directions.rad[0] = _plus(directions[0], constant)
        made = rounded_sums(self.ends(sources), weights, constant[None], self.machine)
        return replace(self, directions=directions, error=_times(self.error, weights) + made)

    def attended(self, rows: Numbers, outputs: Array, sources: Sources, residual: bool) -> Stream:
        """After heads whose numbers, sources ``rows``, are added along ``outputs`` (k, m)."""
        kept = self if residual else Stream(self.rows[:1], Balls.exact(np.zeros((1, outputs.shape[1]))),
                                            Up.zeros(outputs.shape[1]), self.machine)  # fmt: skip
        summands = [end[None] for end in kept.ends(sources)] if residual else [np.zeros((0, outputs.shape[1]))] * 2
        ends = sources.low[rows], sources.high[rows]
        made = rounded_sums(ends, outputs, summands, self.machine)
        directions = Balls(np.vstack([kept.directions.mid, outputs]),
                           np.vstack([kept.directions.rad, np.zeros(outputs.shape)]))  # fmt: skip
        return Stream(np.concatenate([kept.rows, rows]), directions, kept.error + made, self.machine)

    def forms_error(self, reading: Array, wanted: Balls, sources: Sources) -> Up:
        r"""How far (k,) numbers $zU$, U (m, k), may be from sums of all sources times weights (S, k)."""
        read = product(self.directions, reading)
        mid, rad = -wanted.mid, wanted.rad.copy()
        here = Balls(mid[self.rows], rad[self.rows]) + read
        mid[self.rows], rad[self.rows] = here.mid, here.rad
        return sources.sums(Up.of(Balls(mid, rad))) + (self.error[None] @ Up.of(reading))[0]


@dataclass(frozen=True, eq=False)
class Projection:
    r"""What matrices (h, m, r) of heads read: $\hat y C + c_0$, C (h, k, r), exactly within ``rest`` (h, r).

    A run rounds it by ``made`` (h, r) beside $|\hat y|$ times ``rates`` (h, k, r).
    """

    weights: Array
    constant: Array
    rest: Up
    made: Up
    rates: Up

    @classmethod
    def of(cls, stream: Stream, sources: Sources, matrices: Array, reading: Array, weights: Array) -> Projection:
        """Of matrices by heads that read numbers U (h, m, k) of the stream; $c_0$ is what is read of the constant."""
        beside = less_products(matrices, reading, weights)
        along = stream.directions @ beside
        constant, along.mid[:, 0] = along.mid[:, 0].copy(), 0.0
        here = Sources(sources.low[stream.rows], sources.high[stream.rows])
        rest = here.sums(Up.of(along)) + (stream.error[None] @ Up.of(beside))[..., 0, :]
        gamma = Up.of(gammas(count_roundings(matrices), stream.machine.roundoff))
        size, alone = stream.size(sources), _read_alone(reading)
        _fitting((size[None] @ Up.of(matrices))[..., 0, :], stream.machine)
        others = np.where(np.any(alone, axis=-1, keepdims=True), 0.0, matrices)
        lost = Up.of(2.0 * np.count_nonzero(matrices, axis=-2)) * stream.machine.underflow
        made = (size[None] @ Up.of(others))[..., 0, :] * gamma + lost
        with np.errstate(divide="ignore"):
            inverse = np.where(alone, np.nextafter(1.0 / np.abs(reading), np.inf), 0.0)
        rates = Up.of(np.swapaxes(inverse, -1, -2)) @ Up.of(matrices) * gamma[..., None, :]
        return cls(weights, constant, rest, made, rates)


def product(balls: Balls, matrix: Array) -> Balls:
    """Balls (s, m) times numbers (m, r), rounded only where float64 does: what is passed on is exact."""
    present, nonzero = balls.mid != 0, matrix != 0
    terms = present.astype(np.float64) @ nonzero.astype(np.float64)
    exact = power_of_two(balls.mid).all(axis=1, keepdims=True) | power_of_two(matrix).all(axis=0)
    roundings = np.maximum(terms - 1, 0) + np.where(exact, 0.0, 1.0) * (terms > 0)
    rates, mid = Up.of(roundings * UNIT) / np.nextafter(1.0 - roundings * UNIT, 0.0), balls.mid @ matrix
    lost = Up.of(np.where(np.abs(mid) < SMALL, terms, roundings)) * TINY
    sizes = Up.of(matrix)
    return Balls(mid, (Up.of(balls.rad) @ sizes + (Up.of(balls.mid) @ sizes) * rates + lost).values)


def less_products(matrices: Array, left: Array, right: Array) -> Balls:
    """Matrices (h, m, r) less products of (h, m, k) and (h, k, r), with what float64 lacks: zero where they agree."""
    total, radius = matrices, Up.zeros(*matrices.shape)
    for i in range(left.shape[-1]):
        one, lost = two_product(left[..., i, None], right[..., None, i, :])
        total, missing = two_sum(total, -one)
        tiny = (one != 0) & (np.abs(one) < SMALL) | (one == 0) & (left[..., i, None] != 0) & (
            right[..., None, i, :] != 0
        )
        radius = radius + Up.of(lost) + Up.of(missing) + Up.of(np.where(tiny, SMALL, 0.0))
    return Balls(total, radius.values)


def _read_alone(reading: Array) -> npt.NDArray[np.bool_]:
    """The entries (h, m, k) of U that are the only ones of their columns; of each feature the first."""
    alone = (reading != 0) & (np.count_nonzero(reading, axis=-2, keepdims=True) == 1)
    return np.asarray(alone & (np.cumsum(alone, axis=-1) == 1))


def _plus(row: Balls, constant: Array) -> tuple[Array, Array]:
    found = row + Balls.exact(constant)
    return found.mid, found.rad


def _times(sizes: Up, weights: Array) -> Up:
    return (sizes[None] @ Up.of(weights))[0]


def _fitting(sizes: Up, machine: Machine) -> Up:
    if not np.all(sizes.values < machine.largest):
        got = f"{float(sizes.most()):.3g}"
        raise RefusalError(f"Every number of the run must fit {machine.name}", got, "Use a wider dtype")
    return sizes


def rounded_sums(
    ends: tuple[Array, Array], weights: Array, summands: Array | Sequence[Array], machine: Machine
) -> Up:  # fmt: skip
    """What a run makes (r,) of sums of numbers between these ends (m,) times weights (m, r), in any order.

    ``summands`` are one more number (1, r) of each sum, or ends of it, or none.
    """
    if not (np.isfinite(ends[0]) & np.isfinite(ends[1])).all():
        raise RefusalError("What a stream is made of is bounded before it is read", "unknown numbers", REMEDY)
    low, high = (end[:, None] for end in ends)
    below, above = (summands, summands) if isinstance(summands, np.ndarray) else summands
    products = np.stack([weights * low, weights * high])
    most, least = np.nextafter(products.max(axis=0), np.inf), np.nextafter(-products.min(axis=0), np.inf)
    present = weights != 0
    positive = np.vstack([np.where(present, np.maximum(most, 0.0), 0.0), np.maximum(above, 0.0)])
    negative = np.vstack([np.where(present, np.maximum(least, 0.0), 0.0), np.maximum(-below, 0.0)])
    size = _fitting(Up.between(positive, negative).sum(-2), machine)
    roundings = count_roundings(weights) + np.any((below != 0) | (above != 0), axis=0)
    rates = Up.of(gammas(roundings, machine.roundoff))
    found = sum_rounding(Up.of(positive), Up.of(negative), machine.roundoff).least(size * rates)
    return found + _lost(weights, roundings) * machine.underflow


def _lost(weights: Array, roundings: Array) -> Up:
    """How often something may underflow: each product, and each sum; not where one number is passed on."""
    plain = power_of_two(weights) & ((weights == 0) | (np.abs(weights) >= 1))
    passed_on = (roundings == 0) & plain.all(axis=0)
    return Up.of(np.where(passed_on, 0.0, 2.0 * np.count_nonzero(weights, axis=0) + 1.0))


def plain_map(layer: Layer) -> tuple[Array, Array]:
    """The matrix of a linear map of features, the same for every token, and its constant (m',)."""
    term = layer.terms[0] if isinstance(layer, Linear) and len(layer.terms) == 1 else None
    weights = None if term is None or term.mix is not None else term.map
    if not isinstance(layer, Linear) or weights is None or weights.ndim != 2:
        raise CertificateError("Linear maps of a stream map features, of all tokens alike", "another layer", REMEDY)
    constant = np.zeros((1, weights.shape[1])) if layer.constant is None else layer.constant
    if len(constant) != 1:
        raise CertificateError("A constant of a stream is the same at every token", f"{len(constant)} rows", REMEDY)
    return weights, constant[0]
