r"""One head that takes the square root of a linear form down to 0 (ours).

Substituting $s = \sinh x(\xi)$, x odd, in the Gaussian integral, and taking the trapezoidal rule of step h,
$$ \sqrt{\frac\pi z} = \int_{-\infty}^{\infty} e^{-z s^2} ds
   \approx h \sum_{j} \cosh(x_j)\,x'_j\,e^{-z \sinh^2 x_j} = h \Bigl(1 + \sum_{j \ge 1} g_j e^{-z t_j}\Bigr), \qquad
   g_j = 2\cosh(x_j)\,x'_j, \quad t_j = \sinh^2 x_j , $$
by symmetry. The right-hand side is the denominator of a softmax: n constant keys with scores $\ln g_j - z t_j$, affine
in z, of which the first has the value $\sqrt\pi/h$ and the others 0, write
$$ \mathrm{out} = \frac{\sqrt\pi/h}{1 + \sum_j g_j e^{-z t_j}} \approx \sqrt z . $$
All weights are positive: a run rounds as if it added positive numbers.

**Error.** With x = $\xi$ the integrand is bounded by $e^{z(1-c)/2} e^{-zc\sinh^2 x}\cosh x$ on the line of imaginary
part y, $c = \cos 2y > 0$, since $2\sinh^2(x + iy) = \cosh(2x + 2iy) - 1$. So, by Poisson's formula, the rule errs
relatively by at most $2e^{z(1-c)/2}c^{-1/2}/(e^{2\pi y/h} - 1)$, nearly $e^{-\pi^2/2h}$. Keys left out beyond $x_n$
weigh less than the integral does from there: relatively $\operatorname{erfc}(\sqrt z \sinh x_n)$, which moves the
output by at most $\frac{\sqrt\pi}2/\sinh x_n$, the most at z = 0. Both are about $\epsilon$ with $n = x_n/h =
2\ln^2(1/\epsilon)/\pi^2$ keys. But where z is small, about $1/\sinh^2 x$, the relative error may be as large as
$\epsilon \sinh x$: the step may grow with x, which halves the number. Here $x = \sinh(b\xi)/b$; h and b are those
with the least error on a grid of z, and what that is everywhere is proved of each head from its numbers.

The scale of z is free: z runs through [0, 4] for the form's [0, size]. Below 0, where a run may be by its error, the
output goes on smoothly. All values are less by half the output at 0, the only place where the error is one-sided.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError
from attnforge.network import Head
from attnforge.theorems.registers import columns, one_hot, written

Array = npt.NDArray[np.float64]

LARGEST = 4.0  # z at the end of the range
COUNTS = range(6, 97, 2)  # keys; with the last the error is 1e-12
STEPS, GROWTHS = np.geomspace(0.1, 0.9, 60), (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6)
POINTS = np.concatenate([[0.0], np.geomspace(1e-24, LARGEST, 600)])


@dataclass(frozen=True, eq=False)
class RootRule:
    """Scores ``logarithms - z rates`` (n,), the first 0; ``value`` of the first key, ``shift`` of all; the error.

    The error is relative to the root of the largest z, and the largest on a grid.
    """

    rates: Array
    logarithms: Array
    value: float
    shift: float
    error: float


@lru_cache(maxsize=len(COUNTS))
def root_rule(keys: int) -> RootRule:
    """The rule of that many keys with the least error.

    >>> [f"{root_rule(keys).error:.0e}" for keys in (8, 16, 32)]
    ['1e-03', '6e-05', '4e-07']
    """
    return min((_rule(keys, h, b) for h in STEPS.tolist() for b in GROWTHS), key=lambda rule: rule.error)


def _rule(keys: int, h: float, b: float) -> RootRule:
    at = h * np.arange(keys)
    x = np.sinh(b * at) / b
    if not x[-1] < 100.0:  # beyond float64: no rule
        return RootRule(x, x, math.nan, math.nan, math.inf)
    rates, logarithms = np.sinh(x) ** 2, np.log(2 * np.cosh(x) * np.cosh(b * at))
    logarithms[0] = 0.0
    value = math.sqrt(math.pi) / h
    off = value / np.exp(logarithms - np.multiply.outer(POINTS, rates)).sum(axis=1) - np.sqrt(POINTS)
    shift = float(off.max() + off.min()) / 2
    return RootRule(rates, logarithms, value, shift, float(off.max() - off.min()) / 2 / math.sqrt(LARGEST))


def root_head(form: Array, size: float, tol: float, column: int) -> Head:
    """A head that writes the root of a form to a column, within tol.

    Args:
        form: (m,), of the registers.
        size: the form lies in [0, size].
        tol: as large as errors may be.
        column: the fresh register, in which the form has no weight.

    >>> root_head(np.array([0.0, 1.0, 0.0]), 2.0, 1e-4, column=2).memory_size
    16
    """
    enough = bisect_left(COUNTS, True, key=lambda keys: root_rule(keys).error * math.sqrt(size) <= tol)
    if enough == len(COUNTS):
        requirement, got = f"A root has at most {COUNTS[-1]} keys", f"tol={tol:.1e} for arguments to {size:.3g}"
        raise RefusalError(requirement, got, "Raise tol")
    rule = root_rule(COUNTS[enough])
    values = np.full(len(rule.rates), -rule.shift)
    values[0] += rule.value
    return Head(
        query=columns(form, one_hot(0, len(form))),
        output=written(column, len(form)),
        memory_keys=columns(-rule.rates * (LARGEST / size), rule.logarithms),
        memory_values=values[:, None] * math.sqrt(size / LARGEST),
    )
