r"""How far the sum over examples that a block adds to w is from the exact gradient step, on given data.

Heads (beta, f) add $f\,\mathrm{out}(\beta)$, where with $\rho_i$ the residuals
$$ \frac{\mathrm{out}(\beta)}{\beta} = \frac{\frac1n\sum x_i \sinh(\beta\rho_i)/\beta}{\frac1n\sum\cosh(\beta\rho_i)}
   = a + \frac{A - a E}{1 + E}, \qquad a = \frac1n\sum\rho_i x_i, \quad
   A = \frac1n\sum x_i\rho_i\,\varphi(\beta\rho_i), \quad E = \frac1n\sum\psi(\beta\rho_i), $$
$\varphi(z) = \sinh z/z - 1$, $\psi(z) = \cosh z - 1$. So what is left of $\sum_h f_h\mathrm{out}_h + \eta a$ is
$(\sum f_h\beta_h + \eta)\,a + \sum f_h\beta_h (A_h - a E_h)/(1 + E_h)$: every part is computed to high relative
accuracy from the data, whatever the heads' sharpnesses and factors are. No order of extrapolation is assumed.

**Rounding.** A mean whose weights $p_i$ are off by relative $\eta_i$ is off by $\sum p_i \eta_i |v_i - \mathrm{out}|$.
The weighted sum over keys itself is accumulated in the order of the keys, in 1, 2, 4, 8 or 16 interleaved running sums,
at once or in blocks of 512 keys, and divided by the sum of weights in the end: every partial sum is off by half a unit
in its last place, and the data say which partial sums there are. They are far smaller than sums of sizes, for examples
of both signs, and because mirror images stand next to their examples (:mod:`attnforge.targets.in_context.features`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from operator import add

import numpy as np
import numpy.typing as npt

from attnforge.certification.in_context.links import BLOCK, NOTHING, softmax
from attnforge.certification.in_context.reading import Step
from attnforge.outward import Balls, Machine, Up, gamma, up
from attnforge.targets.in_context.features import places

Array = npt.NDArray[np.float64]

HUGE = 1e300  # sums of sizes so large have no bound: they might overflow
LANES = (1, 2, 4, 8, 16)  # running sums a kernel may keep side by side
EVALUATED = 64  # roundoffs within which sinh z / z - 1, cosh z - 1 and weights are evaluated
WIDEST = 16.0  # beyond, a roundoff of z is too many of sinh z
INFINITE = np.float64(np.inf).view(np.uint64)
TERMS = 15  # of a series whose ratio is at most 4/6, 4/20, 4/42, ..: what follows is below 2^-60 of it


@lru_cache(64)  # the same heads at every step
def gain_error(heads: tuple[tuple[float, float], ...], rate: float) -> Up:
    """|sum f beta + rate|, with the roundings of f and beta as products of weights: exact, then rounded up."""
    total = sum((Fraction(beta) * Fraction(f) for beta, f in heads), Fraction(rate))
    return _gains(heads).sum() * gamma(2) + up(float(abs(total)))


def _gains(heads: Sequence[tuple[float, float]]) -> Up:
    """|beta f| of every head."""
    return Up.of([beta for beta, _ in heads]) * Up.of([factor for _, factor in heads])


def truncation(heads: tuple[tuple[float, float], ...], rate: float, x: Array, residuals: Array) -> Up:
    """What is left (d, K) in exact arithmetic, for x (n, d) and residuals (n, K)."""
    rows, each = Balls.exact(x.T), Balls.exact(residuals)
    mean, n = rows @ each, Balls.exact(len(x)).inverse()
    betas, factors = (Balls.exact(np.repeat(part, residuals.shape[1])) for part in zip(*heads, strict=True))
    bend, rise = _bent(betas.mid * _side_by_side(each, len(heads)).mid)
    even = Balls.exact(np.ones((1, len(x)))) @ rise * n
    left = rows @ (_side_by_side(each, len(heads)) * bend) - _side_by_side(mean, len(heads)) * even
    left = factors * betas * (Balls.exact(1.0) + even).inverse() * left
    total = reduce(add, (left[:, k : k + residuals.shape[1]] for k in range(0, left.shape[1], residuals.shape[1])))
    most, largest = _averaged(x, Up.of(residuals)), Up.of(x).most(0)[:, None]
    found = Up.of(total * n) + gain_error(heads, rate) * most
    return found.least(sum(abs(f) for _, f in heads) * largest + rate * most)  # no mean is larger than what it averages


def _side_by_side(each: Balls, count: int) -> Balls:
    """Columns repeated, once a head."""
    return Balls(np.tile(each.mid, (1, count)), np.tile(each.rad, (1, count)))


def _bent(z: Array) -> tuple[Balls, Balls]:
    """Sinh z / z - 1 and cosh z - 1: all terms are positive, or z is at least 2 and little cancels."""
    small, safe = z * z, np.where(np.abs(z) < 2.0, 2.0, z)
    series = np.zeros_like(z)
    for j in range(TERMS, 0, -1):
        series = small / (2 * j * (2 * j + 1)) * (1 + series)
    bend, rise = np.where(np.abs(z) < 2.0, series, np.sinh(safe) / safe - 1), 2 * np.sinh(z / 2) ** 2
    share = np.where(np.abs(z) < WIDEST, gamma(EVALUATED), math.inf)
    return Balls(bend, share * bend), Balls(rise, share * rise)


def _averaged(x: Array, errors: Up) -> Up:
    """The mean (d, K) of |x_i| times what each example is off by, (n, K)."""
    return Up.of(x.T) @ errors / len(x)


def transmission(step: Step, x: Array, residuals: Array, errors: Up) -> Up:
    r"""What errors (n, K) of the residuals do to w, (d, K).

    $\partial\,\mathrm{out}_h/\partial\rho_i = \beta_h p_i (x_i - \mathrm{out}_h)$ with $p_i$ within $e^{\pm 2z}$ of
    $1/2n$; the common part of all heads is their gain. Averages run over examples and mirror images alike.
    """
    linear, rest = transmitted(step, (errors + residuals).most())
    return linear * _averaged(x, errors) + rest * Up.of(x).most(0)[:, None] * errors.mean(0)


def transmitted(step: Step, reach: Up) -> tuple[Up, Up]:
    """The factors of |x_i| and of the largest |x| there, for residuals up to ``reach``."""
    z, gains = Up.of([beta for beta, _ in step.heads]) * reach, _gains(step.heads)
    linear = gain_error(step.heads, 0.0) + (gains * (2 * z).expm1()).sum()
    return linear, (gains * (2 * z).exp() * z.sinh()).sum()


def variation(step: Step, rate: float, x: Array, residuals: Array, moved: Up) -> Up:
    r"""How much :func:`truncation` may change (d, K) where residuals and mirror images move by ``moved`` (n, K).

    The derivative of $\mathrm{out}/\beta$ by $\rho_i$,
    $\frac1n [x_i\cosh(\beta\rho_i) - \mathrm{out}\sinh(\beta\rho_i)]/(1 + E)$, departs from $x_i/n$ by at most
    $\frac1n[|x_i|(\cosh z - 1) + |\mathrm{out}|\sinh z]$, and $|\mathrm{out}| \le \max|x|\sinh z$.
    """
    z, gains = Up.of([beta for beta, _ in step.heads]) * (moved + residuals).most(), _gains(step.heads)
    linear = gain_error(step.heads, rate) + (gains * z.coshm1()).sum()
    return linear * _averaged(x, moved) + (gains * z.sinh() ** 2).sum() * Up.of(x).most(0)[:, None] * moved.mean(0)


def rounding(step: Step, machine: Machine, x: Array, residuals: Array, moved: Up, scored: Up, ahead: int) -> Up:
    """What the run of the heads adds (d, K), for residuals that may move by ``moved``, behind ``ahead`` other tokens.

    ``scored`` (n, K) are the sizes of what scores are computed from.
    """
    total = Up.zeros(x.shape[1], residuals.shape[1])
    for beta, factor in step.heads:
        heads = [_head(step, machine, x, abs(beta), r, moved, scored[:, k], ahead) for k, r in enumerate(residuals.T)]
        total = total + abs(factor) * Up(np.stack([each.values for each in heads], axis=1))
    return total


def _head(
    step: Step, machine: Machine, x: Array, beta: float, residuals: Array, moved: Up, scored: Up, ahead: int
) -> Up:
    """The rounding (d,) of one head's mean of x and -x; ``shift`` is by how much weights depart from those at hand.

    An example and its mirror image together weigh ``pairs`` of the ``mass`` of all.
    """
    shift, spread = (2 * beta * moved).expm1(), 2 * beta * (moved + np.abs(residuals).max())
    half, z, model = float(spread) / 2, beta * residuals, softmax(machine, ahead + 2 * len(x))
    first, images = np.exp(z - half), np.exp(-z - half)  # as the kernel sums them, up to its running maximum
    evaluated = gamma(EVALUATED + 4 * math.ceil(min(half, 1e6)))  # z and exponents are off by a roundoff each
    both, size = first + images, Up.of(x)
    mass = float(both.sum()) * (1 - gamma(2 * len(x) + 4) - evaluated)
    pairs = Up.of(both)[None] * (1.0 + Up.of(evaluated + gamma(1)))
    mean = Balls((first - images)[None], (evaluated + gamma(1)) * both[None]) @ Balls.exact(x)
    out = (Up.of(mean) + pairs @ size * (2 * shift)) / mass
    scores = beta * scored
    errors = scores * gamma(step.width + 4, machine.roundoff) + model.subtraction(spread, scores)
    errors = (errors + model.near_one(spread)).expm1()
    rounded = machine.roundoff if model.is_half else 0.0  # weights, before they meet the values
    disturbed = pairs * (errors * (1.0 + errors.most()) + rounded)
    departed = shift + errors.most() + evaluated + rounded
    ordered = np.empty((2 * len(x), x.shape[1]))
    for where, terms in zip(places(len(x)), (first[:, None] * x, -images[:, None] * x), strict=True):
        ordered[where] = terms
    summed = summation(ordered, ahead, machine, (2 * spread).exp(), departed)
    normalised = Up.of(gamma(model.keys + 8, machine.accumulation)) + model.blocks * model.exponential
    made = (disturbed @ size + disturbed.sum()[:, None] * out + summed) / mass
    return ((made + (normalised + gamma(4, machine.roundoff)) * out) * (1.0 + 2 * shift))[0]


def summation(terms: Array, ahead: int, machine: Machine, scale: Up | None, departed: Up = NOTHING) -> Up:
    """The rounding of the sum of terms (N, d) behind ``ahead`` zeros, for the orders that kernels add in.

    The sum of two numbers is off by at most half a unit in its last place. Terms of the run may be larger by a common
    factor up to ``scale``, and each depart from these by a share ``departed`` of itself; a partial sum of the run then
    departs by that share of all sizes, by the roundings before it, and by those of its evaluation here. Where kernels
    multiply terms by any number (None), each sum is off by a roundoff of itself.
    """
    anywhere, scale = scale is None, Up.of(1.0) if scale is None else scale
    size, count = Up.of(terms).sum(0) * scale, len(terms) + ahead + 8
    if not float(size.most() * (departed + 1.0) * float(count)) < HUGE:
        return Up.of(np.full(terms.shape[1], math.inf))
    run = Up.of(gamma(count, machine.accumulation))
    doubt = size * (departed + (1.0 + departed) * run + gamma(count))
    rows = np.concatenate([np.zeros((terms.shape[1], ahead)), terms.T * scale.values], axis=1)
    at_once = -(-rows.shape[1] // max(LANES)) * max(LANES)
    worst = _ordered(rows, at_once, machine, doubt, anywhere)
    if at_once > BLOCK:
        worst = worst.larger(_ordered(rows, BLOCK, machine, doubt, anywhere))
    return worst.most(0) + machine.accumulation * size  # of weight and value, where they are not fused with the sum


def _ordered(rows: Array, block: int, machine: Machine, doubt: Up, anywhere: bool) -> Up:
    """Roundings (lanes, d) of running sums, of adding up the lanes in any order, and of adding block to block."""
    (width, keys), lanes = rows.shape, np.array(LANES, dtype=np.float64)[:, None]
    blocks = -(-keys // block)
    full = np.zeros((width, blocks * block))
    full[:, :keys] = rows
    found = []
    for each in LANES:
        partial = np.cumsum(full.reshape(width, blocks, -1, each), axis=2)
        sizes = np.abs(partial).reshape(width, -1)[:, :keys] + doubt.values[:, None]  # as the doubt allows for
        real = _half_ulps(sizes, machine, anywhere).sum(axis=1)  # adding the zeros behind is exact
        found.append((real, np.abs(partial[:, :, -1]).sum(axis=(1, 2))))
    real, ends = (Up(np.stack(each)) * (1.0 + Up.of(gamma(keys))) for each in zip(*found, strict=True))
    running = Up.of(np.cumsum(full.reshape(width, blocks, block).sum(axis=2), axis=1)) + doubt[:, None]
    joined = (ends + doubt * (blocks * lanes)) * ((lanes - 1) * machine.accumulation)
    again = softmax(machine, keys).exponential + 2 * machine.accumulation  # to rescale, block after block
    added = Up(_half_ulps(running.values, machine, anywhere)).sum() + running[:, :-1].sum() * again
    total: Up = real + joined + added
    return total


def _half_ulps(sizes: Array, machine: Machine, anywhere: bool) -> Array:
    """Half a unit in the last place of numbers no larger than these, exactly; ``anywhere`` in a binade.

    Without the bits of its mantissa, those that infinity lacks, a float64 is the power of two below it.
    """
    powers = sizes if anywhere else (sizes.view(np.uint64) & INFINITE).view(np.float64)
    return powers * machine.accumulation
