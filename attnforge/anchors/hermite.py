r"""Rows of anchors whose values reproduce polynomials: inverse heat values, and how many anchors they need.

A head with anchors $c_k = m + k h$ and scores $c(2 k u - k^2)$, $u = (x-m)/h$, averages its values with a discrete
Gaussian of variance $\sigma^2 = h^2/(2c)$ about x. So the values of $e^{-(\sigma^2/2)\,\partial^2} p$ make it output p:
$$ e^{-(\sigma^2/2)\,\partial^2}\, t^n = \sum_{i \le n/2} \frac{n!}{i!\,(n-2i)!} (-\sigma^2/2)^i\, t^{n-2i} , $$
$t^2 - \sigma^2$, $t^3 - 3\sigma^2 t$, ... up to saturation and truncation (:mod:`attnforge.lemmas.saturation`). On a
product grid the weights factorise and so does the heat operator: one matrix per axis.

**The plan.** Let $\rho$ be half the domain's length in steps, p one of the monomials $(t/\rho)^j$, j up to n. Few steps
a domain (small $\rho$) save anchors inside and cost ghosts: the Gaussian is wide against the domain, so the values
outgrow p and cancel. The count is flat around its minimum, so a $\rho$ with little cancellation is almost free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from attnforge.errors import DomainError, RefusalError, ToleranceError
from attnforge.expression.polynomial import MAX_DEGREE, Polynomial
from attnforge.lemmas.saturation import reproduction
from attnforge.outward import ball, precision

Array = npt.NDArray[np.float64]

VALUE_BITS = 128  # the inverse heat polynomial's own cancellation costs at most a few digits of 38
MAX_ENTRIES = 2**20
UNIT = 2.0**-53
ROUNDINGS = 3  # of each term of the weighted sum: the exponential, the value, their product
MOST_CANCELLATION = 4.0  # sum of w |v| against the polynomial's own size: two bits of precision
HALF_LENGTHS = tuple(0.5 * 2 ** (i / 4) for i in range(23))  # rho from 0.5 to 23 steps
SOFTEST, HARDEST = 0.02, 2.0
SHARPNESS_GRAIN = 2.0**-10  # c is a multiple of this: the keys 2 c k and c k^2 are then exact


@dataclass(frozen=True)
class HermiteRow:
    r"""One axis: ``count`` anchors, ``spacing`` apart and symmetric about ``middle``.

    ``sharpness`` is $c = \beta h^2$, ``ghosts`` is how many steps the row reaches beyond each end of the domain,
    not necessarily a whole number.
    """

    middle: float
    spacing: float
    count: int
    sharpness: float
    ghosts: float

    @property
    def steps(self) -> Array:
        """The anchors' places from the middle in units of the spacing: integers, or halves if the count is even."""
        return np.arange(self.count, dtype=np.float64) - (self.count - 1) / 2

    @property
    def positions(self) -> Array:
        """The anchors."""
        return self.middle + self.spacing * self.steps


def centred(polynomial: Polynomial, middle: Sequence[float]) -> Array:
    r"""The coefficients of the polynomial in powers of $x - middle$, a dense tensor with one axis per variable.

    Powers of the distance from the middle of the domain cancel least. Computed with 128 bits and rounded once.

    >>> from attnforge.expression import parse
    >>> from attnforge.expression.polynomial import polynomial
    >>> centred(polynomial(parse("x^2"), ["x"]), [3.0])
    array([9., 6., 1.])
    """
    shape = tuple(degree + 1 for degree in polynomial.degrees)
    _check_entries(shape)
    if len(middle) != len(shape):
        requirement = "The middle needs one number per variable"
        raise DomainError(requirement, f"{len(middle)} for {len(shape)}", "Give the middle of every axis")
    with precision(VALUE_BITS):
        dense = [arb(0)] * math.prod(shape)
        for exponents, coefficient in polynomial.terms.items():
            dense[int(np.ravel_multi_index(exponents, shape))] = coefficient
        return _contract(dense, [_shift(point, size) for point, size in zip(middle, shape, strict=True)])


def hermite_values(coefficients: npt.ArrayLike, axes: Sequence[HermiteRow]) -> Array:
    r"""The inverse heat polynomial at the product of the rows' anchors: shape (count_1, ..., count_D).

    ``coefficients[e_1, ..., e_D]`` belongs to $\prod_j (x_j - middle_j)^{e_j}$. Computed with 128 bits and rounded
    once, so each value is accurate by itself, next to ghosts many times its size.

    >>> row = HermiteRow(middle=0.0, spacing=0.5, count=3, sharpness=0.25, ghosts=0.0)
    >>> hermite_values([0.0, 0.0, 1.0], [row])
    array([-0.25, -0.5 , -0.25])
    """
    tensor = np.asarray(coefficients, dtype=np.float64)
    if tensor.ndim != len(axes) or tensor.ndim == 0 or not np.isfinite(tensor).all():
        requirement = "`coefficients` must be finite, with one dimension per axis"
        raise RefusalError(requirement, f"shape {tensor.shape} for {len(axes)} axes", "Take them from `centred`")
    _check_entries(tuple(row.count for row in axes))
    with precision(VALUE_BITS):
        entries = [ball(value) for value in tensor.ravel()]
        return _contract(entries, [_inverse_heat(row, size) for row, size in zip(axes, tensor.shape, strict=True)])


def coefficient_size(coefficients: npt.ArrayLike, half_lengths: Sequence[float]) -> float:
    r"""$\sum_e |b_e| \prod_j a_j^{e_j}$: what to divide a tolerance by before asking for a plan.

    With a row per axis that reproduces $(t/a)^j$ to tol, the head reproduces the polynomial to about this times D tol.

    >>> coefficient_size([0.0, -1.0, 0.0, 1.0], [2.0])
    10.0
    """
    sizes = np.abs(np.asarray(coefficients, dtype=np.float64))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is infinite, or NaN
        for half in reversed(half_lengths):
            sizes = sizes @ float(half) ** np.arange(sizes.shape[-1])
    return float(sizes)


def hermite_plan(lower: float, upper: float, degree: int, tol: float) -> HermiteRow:
    r"""A row that reproduces polynomials of this degree on [lower, upper] to ``tol``.

    The polynomials are $\sum_j b_j (t/a)^j$ with $\sum_j |b_j| \le 1$, t the distance from the middle and a half the
    length. Half of ``tol`` is for saturation and truncation, where the lemma proves it; half for float64's rounding,
    estimated as three units times the sum of w |v|. Among the plans whose values cancel little the one with the fewest
    anchors is taken, and of those the one that cancels least.

    >>> row = hermite_plan(-1.0, 1.0, 3, 2e-15)
    >>> row.count, row.middle
    (29, 0.0)
    """
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        requirement = "`upper` must exceed `lower`, both finite"
        raise DomainError(requirement, f"lower={lower}, upper={upper}", "Give an interval")
    if not 0 <= degree <= MAX_DEGREE:
        remedy = "Fit the values instead, or split the polynomial"
        raise RefusalError(f"`degree` must lie between 0 and {MAX_DEGREE}", str(degree), remedy)
    if not (math.isfinite(tol) and tol > 0):
        raise ToleranceError("`tol` must be positive and finite", repr(tol), "Ask for an error such as 1e-8")
    plan = _plan(max(degree, 1), min(tol, 1.0))
    middle = lower / 2 + upper / 2
    spacing = max(upper - middle, middle - lower) / plan.half_length
    return HermiteRow(middle, spacing, plan.count, plan.sharpness, plan.ghosts)


@dataclass(frozen=True)
class _Plan:
    """A row in units of its spacing, and the cancellation of its values."""

    half_length: float
    count: int
    sharpness: float
    cancellation: float

    @property
    def ghosts(self) -> float:
        return (self.count - 1) / 2 - self.half_length

    @property
    def rounding(self) -> float:
        return ROUNDINGS * UNIT * self.cancellation


@lru_cache(maxsize=1024)
def _plan(degree: int, tol: float) -> _Plan:
    plans = [_plan_for(half_length, degree, tol / 4) for half_length in HALF_LENGTHS]
    gentle = [plan for plan in plans if plan.cancellation <= MOST_CANCELLATION]
    precise = [plan for plan in gentle if plan.rounding <= tol / 2]
    if not precise:
        least = 2 * min(plan.rounding for plan in plans)
        requirement = f"In float64 a row of anchors reproduces degree {degree} to {least:.1e} at best"
        raise ToleranceError(requirement, f"tol={tol:g}", f"Ask for tol >= {1.1 * least:.1e}")
    return _proved(min(precise, key=lambda plan: (plan.count, plan.cancellation)), degree, tol / 2)


def _plan_for(half_length: float, degree: int, part: float) -> _Plan:
    """The sharpest head that saturates at ``part``, with the fewest anchors that truncate at ``part``."""
    c = _sharpest(half_length, degree, part)
    count = math.ceil(2 * half_length) + 1
    while _truncation(half_length, (count - 1) / 2 - half_length, c, degree) > part:
        count += 1
    return _Plan(half_length, count, c, _cancellation(half_length, count, c, degree))


def _proved(plan: _Plan, degree: int, tol: float) -> _Plan:
    """The plan, with an anchor more if the estimates fell short of the lemma."""
    taylor = [math.comb(degree, order) / plan.half_length**order for order in range(degree + 1)]
    while sum(reproduction(plan.sharpness, plan.ghosts, plan.count, taylor).values()) > tol:
        plan = _Plan(plan.half_length, plan.count + 1, plan.sharpness, plan.cancellation)
    return plan


def _sharpest(half_length: float, degree: int, part: float) -> float:
    r"""The largest c found by bisection with $2 e^{-\pi^2/c} [(1 + \pi/(c\rho))^n - 1] \le part$, rounded down.

    This is the lemma's $\sum_l \binom{n}{l} \rho^{-l} S_l(c)$ to leading order.
    """

    def fits(c: float) -> bool:
        growth = (1 + math.pi / (c * half_length)) ** degree - 1
        return 2 * math.exp(-(math.pi**2) / c) * growth <= part

    low, high = SOFTEST, HARDEST
    if fits(high):
        return high
    while high - low > SHARPNESS_GRAIN / 4:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return math.floor(low / SHARPNESS_GRAIN) * SHARPNESS_GRAIN


def _truncation(half_length: float, ghosts: float, c: float, degree: int) -> float:
    r"""The lemma's $\sum_l \binom{n}{l} \rho^{-l} T_l$ to leading order: $\bar H$ is additive like a monomial."""
    if 2 * c * (ghosts + 1) ** 2 < degree:
        return math.inf
    dropped = ghosts + 1 + np.arange(8, dtype=np.float64)
    sizes = _heat(half_length + dropped, c, degree, sign=1) / half_length**degree
    return float(math.sqrt(c / math.pi) * np.sum(np.exp(-c * dropped**2) * sizes))


def _cancellation(half_length: float, count: int, c: float, degree: int) -> float:
    """The largest sum of w |v| for t^degree, in the middle of the domain, half way and at its end."""
    steps = np.arange(count, dtype=np.float64) - (count - 1) / 2
    sizes = np.abs(_heat(steps, c, degree, sign=-1)) / half_length**degree
    weights = np.exp(-c * (np.array([[0.0], [0.5], [1.0]]) * half_length - steps) ** 2)
    return max(1.0, float(np.max(weights @ sizes / weights.sum(axis=1))))


def _heat(t: Array, c: float, degree: int, sign: int) -> Array:
    """The heat polynomial (sign 1) or its inverse (sign -1) of t^degree, t in steps, in plain floating point."""
    return np.asarray(sum(ways * (sign / (4 * c)) ** i * t ** (degree - 2 * i) for i, ways in _pairings(degree)))


def _pairings(degree: int) -> list[tuple[int, int]]:
    """(i, n! / (i! (n - 2i)!)) for i up to n / 2."""
    top = math.factorial(degree)
    return [(i, top // (math.factorial(i) * math.factorial(degree - 2 * i))) for i in range(degree // 2 + 1)]


def _inverse_heat(row: HermiteRow, size: int) -> arb_mat:
    """Anchors by powers: the inverse heat polynomial of t^n at every anchor, for n below ``size``."""
    spacing, half_variance = ball(row.spacing), ball(row.spacing) ** 2 / (4 * ball(row.sharpness))

    def entry(t: arb, degree: int) -> arb:
        return sum((ways * (-half_variance) ** i * t ** (degree - 2 * i) for i, ways in _pairings(degree)), arb(0))

    places = [spacing * ball(step) for step in row.steps]
    return arb_mat([[entry(t, degree) for degree in range(size)] for t in places])


def _shift(point: float, size: int) -> arb_mat:
    """Powers of t by powers of x = point + t."""
    base = ball(point)
    return arb_mat(
        [[math.comb(n, i) * base ** (n - i) if i <= n else arb(0) for n in range(size)] for i in range(size)]
    )


def _contract(entries: Sequence[arb], matrices: Sequence[arb_mat]) -> Array:
    """Apply matrix j along axis j of a row-major tensor: always to the last axis, which then moves to the front."""
    for matrix in reversed(matrices):
        size = matrix.ncols()
        entries = (matrix * arb_mat(len(entries) // size, size, list(entries)).transpose()).entries()
    return np.array([float(value.mid()) for value in entries]).reshape([matrix.nrows() for matrix in matrices])


def _check_entries(shape: tuple[int, ...]) -> None:
    if math.prod(shape) > MAX_ENTRIES:
        remedy = "Write the polynomial as a sum of products of fewer variables"
        raise RefusalError(f"A tensor may have at most {MAX_ENTRIES} entries", str(math.prod(shape)), remedy)
