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

import numpy as np
import numpy.typing as npt

from attnforge.balls import Machine, gamma
from attnforge.certification.in_context.links import LARGEST, exponential, near_one
from attnforge.certification.in_context.reading import Step
from attnforge.targets.in_context.features import places

Array = npt.NDArray[np.float64]

BLOCK = 512  # keys that PyTorch's fused kernel sums before it rescales
HUGE = 1e300  # sums of sizes so large have no bound: they might overflow
LANES = (1, 2, 4, 8, 16)  # running sums a kernel may keep side by side


def gain_error(heads: Sequence[tuple[float, float]], rate: float) -> float:
    """|sum f beta + rate|, with the roundings of f and beta as products of weights: exact, then rounded up."""
    total = sum((Fraction(beta) * Fraction(f) for beta, f in heads), Fraction(rate))
    return float(abs(total)) * (1 + 2.0**-50) + 2.0**-52 * sum(abs(beta * f) for beta, f in heads)


def truncation(heads: Sequence[tuple[float, float]], rate: float, x: Array, residuals: Array) -> Array:
    """What is left (d, K) in exact arithmetic, for x (n, d) and residuals (n, K)."""
    n = len(x)
    mean = x.T @ residuals / n
    total, size = np.zeros_like(mean), np.zeros_like(mean)
    for beta, factor in heads:
        z = beta * residuals
        bend, rise = residuals * _sinhc(z), (2 * np.sinh(z / 2) ** 2).mean(axis=0)
        scale = factor * beta
        total += scale * (x.T @ bend / n - mean * rise) / (1 + rise)
        size += abs(scale) * (np.abs(x).T @ np.abs(bend) / n + np.abs(mean) * rise)
    most = np.abs(x).T @ np.abs(residuals) / n
    found = np.abs(total) + gain_error(heads, rate) * most + gamma(4 * n + 64) * size
    largest = np.abs(x).max(axis=0)[:, None]  # no mean is larger than what it averages
    return np.asarray(np.fmin(found, sum(abs(f) for _, f in heads) * largest + rate * most))


def _sinhc(z: Array) -> Array:
    """Sinh z / z - 1."""
    small = np.abs(z) < 0.05
    safe = np.where(small, 1.0, z)
    series = z**2 / 6 * (1 + z**2 / 20 * (1 + z**2 / 42 * (1 + z**2 / 72)))
    return np.asarray(np.where(small, series, np.sinh(safe) / safe - 1))


def transmission(step: Step, x: Array, residuals: Array, errors: Array) -> Array:
    r"""What errors (n, K) of the residuals do to w, (d, K).

    $\partial\,\mathrm{out}_h/\partial\rho_i = \beta_h p_i (x_i - \mathrm{out}_h)$ with $p_i$ within $e^{\pm 2z}$ of
    $1/2n$; the common part of all heads is their gain. Averages run over examples and mirror images alike.
    """
    reach = float((np.abs(residuals) + errors).max())
    average = np.abs(x).T @ errors / len(x)
    gains = [beta * factor for beta, factor in step.heads]
    linear, rest = abs(sum(gains)), 0.0
    for (beta, _), gain in zip(step.heads, gains, strict=True):
        z = min(abs(beta) * reach, 300.0)
        linear += abs(gain) * math.expm1(2 * z)
        rest += abs(gain) * math.exp(2 * z) * math.sinh(z)
    largest = np.abs(x).max(axis=0)[:, None]
    return np.asarray(linear * average + rest * largest * errors.mean(axis=0))


def variation(step: Step, rate: float, x: Array, residuals: Array, moved: Array) -> Array:
    r"""How much :func:`truncation` may change (d, K) where residuals and mirror images move by ``moved`` (n, K).

    The derivative of $\mathrm{out}/\beta$ by $\rho_i$,
    $\frac1n [x_i\cosh(\beta\rho_i) - \mathrm{out}\sinh(\beta\rho_i)]/(1 + E)$, departs from $x_i/n$ by at most
    $\frac1n[|x_i|(\cosh z - 1) + |\mathrm{out}|\sinh z]$, and $|\mathrm{out}| \le \max|x|\sinh z$.
    """
    reach, linear, rest = float((np.abs(residuals) + moved).max()), gain_error(step.heads, rate), 0.0
    for beta, factor in step.heads:
        z = min(abs(beta) * reach, 300.0)
        linear += abs(beta * factor) * (math.cosh(z) - 1 + 2.0**-52)
        rest += abs(beta * factor) * math.sinh(z) ** 2
    largest = np.abs(x).max(axis=0)[:, None]
    return np.asarray(linear * (np.abs(x).T @ moved / len(x)) + rest * largest * moved.mean(axis=0))


def rounding(
    step: Step, machine: Machine, x: Array, residuals: Array, moved: float, scored: Array, ahead: int
) -> Array:
    """What the run of the heads adds (d, K), for residuals that may move by ``moved``, behind ``ahead`` other tokens.

    ``scored`` (n, K) are the sizes of what scores are computed from.
    """
    total = np.zeros((x.shape[1], residuals.shape[1]))
    for beta, factor in step.heads:
        if not 2 * abs(beta) * moved < LARGEST:
            return np.full_like(total, math.inf)
        for k in range(residuals.shape[1]):
            total[:, k] += abs(factor) * _head(step, machine, x, abs(beta), residuals[:, k], moved, scored[:, k], ahead)
    return total


def _head(
    step: Step, machine: Machine, x: Array, beta: float, residuals: Array, moved: float, scored: Array, ahead: int
) -> Array:
    z, shift = beta * residuals, math.expm1(2 * beta * moved)  # of weights, relative
    spread = 2 * (float(np.abs(z).max()) + beta * moved)
    unnormalised = np.exp(np.concatenate([z, -z]) - spread / 2)  # as the kernel sums them, up to its running maximum
    mass = float(unnormalised.sum())
    weights = unnormalised / mass
    terms = weights[:, None] * np.concatenate([x, -x])
    out = np.abs(terms.sum(axis=0)) + (2 * shift + gamma(len(terms) + 8)) * np.abs(terms).sum(axis=0)
    blocks = math.ceil((ahead + len(terms)) / BLOCK)
    errors = gamma(step.width + 4, machine.roundoff) * beta * scored + machine.accumulation * spread
    errors = errors + near_one(machine, np.array(spread))
    disturbed = np.concatenate([errors, errors]) * weights
    away = np.abs(np.concatenate([x, -x])) + out
    half = machine.accumulation != machine.roundoff  # weights are rounded to a half type before they meet the values
    ordered = np.empty_like(terms)
    ordered[np.concatenate(places(len(x)))] = mass * terms
    departed = shift + 1.01 * float(errors.max()) + (machine.roundoff if half else 0.0)
    scale = math.exp(2 * spread) if 2 * spread < LARGEST else math.inf
    summed = summation(ordered, ahead, machine, scale, departed) / mass
    found = 1.01 * (disturbed @ away) + summed
    normalised = gamma(len(terms) + ahead + 8, machine.accumulation) + blocks * exponential(machine)
    found = found + (normalised + gamma(4, machine.roundoff)) * out
    if half:
        found = found + machine.roundoff * (weights @ away)
    return np.asarray(found * (1 + 2 * shift))


def summation(terms: Array, ahead: int, machine: Machine, scale: float | None, departed: float = 0.0) -> Array:
    """The rounding of the sum of terms (N, d) behind ``ahead`` zeros, for the orders that kernels add in.

    The sum of two numbers is off by at most half a unit in its last place. Terms of the run may be larger by a common
    factor up to ``scale``, and each depart from these by a share ``departed`` of itself; a partial sum of the run then
    departs by that share of all sizes, by the roundings before it, and by those of its evaluation here. Where kernels
    multiply terms by any number (None), each sum is off by a roundoff of itself.
    """
    anywhere, scale = scale is None, 1.0 if scale is None else scale
    padded, size = np.concatenate([np.zeros((ahead, terms.shape[1])), terms]), np.abs(terms).sum(axis=0)
    count = len(padded) + 8
    if not float(size.max()) * scale * (1 + departed) * count < HUGE:
        return np.full(terms.shape[1], math.inf)
    doubt = 1.01 * scale * (departed + gamma(count, machine.accumulation) + gamma(count)) * size
    worst = np.zeros(terms.shape[1])
    for lanes in LANES:
        for block in {BLOCK, -(-len(padded) // lanes) * lanes}:
            worst = np.maximum(worst, _ordered(padded, lanes, block, machine, scale, doubt, anywhere))
    products = machine.accumulation * scale * size  # of weight and value, where they are not fused with the sum
    return np.asarray((worst + products) * (1 + 2.0**-20))


def _ordered(
    padded: Array, lanes: int, block: int, machine: Machine, scale: float, doubt: Array, anywhere: bool
) -> Array:
    """Roundings of running sums in lanes, of adding up the lanes in any order, and of adding block to block."""
    rows = -(-len(padded) // block) * block
    full = np.zeros((rows, padded.shape[1]))
    full[: len(padded)] = padded
    partial = np.cumsum(full.reshape(rows // block, block // lanes, lanes, -1), axis=1)
    ends = scale * np.abs(partial[:, -1]) + doubt
    running = np.cumsum(partial[:, -1].sum(axis=1), axis=0)
    real = partial.reshape(rows, -1)[: len(padded)]  # adding the zeros behind is exact
    total = sum(_half_ulps(scale * np.abs(sums) + doubt, machine, anywhere).sum(axis=0) for sums in (real, running))
    joined = (lanes - 1) * machine.accumulation * ends.sum(axis=(0, 1))
    rescaled = (scale * np.abs(running[:-1]) + doubt).sum(axis=0)  # by an exponential, block after block
    return np.asarray(total + joined + (exponential(machine) + 2 * machine.accumulation) * rescaled)


def _half_ulps(sizes: Array, machine: Machine, anywhere: bool) -> Array:
    """Half a unit in the last place of numbers as large as these, a little more at most; ``anywhere`` in a binade."""
    if anywhere:
        return np.asarray(machine.accumulation * (1 + 2.0**-20) * sizes)
    exponents = np.frexp(sizes * (1 + 2.0**-20))[1] - 1
    found = np.ldexp(machine.accumulation, exponents) * (sizes != 0)
    return np.where(np.isfinite(sizes), found, math.inf)
