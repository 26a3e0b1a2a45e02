r"""One head that multiplies two linear forms of its token (ours).

Own key and k - 1 sinks. Let $z \in [-1, 1]$ be an affine function of u, and y = 3 + z. The own key has score 0 and
value v, the sinks have value 0 and scores $\ln(g_i/g_0) + t \ln x_i$, $t = \alpha(y - 2)/2$, which are affine in z. So
$$ \mathrm{out} = \frac{v}{1 + \sum_{i \ge 1} (g_i/g_0)\,x_i^t} = \frac{g_0\,v}{Q(t)}, \qquad
   \frac\alpha2 Q(t) = \frac{1 + \varepsilon}{y}, $$
by the Gauss-Radau rule of :mod:`attnforge.lemmas.reciprocal` for $1/y = \frac\alpha2\int_0^1 x^t x^{\alpha-1}dx$, whose
node at 1 is the own key and whose weights are positive, so that scores are their logarithms. The output map multiplies
by $1/\kappa = 2/(\alpha g_0)$: what is written is $y v/(1 + \varepsilon)$, with $|\varepsilon|$ at most 2.1e-8, 6.9e-12
and 2.5e-15 for 5, 7 and 9 keys, proved, for every v.

**Any interval.** For u in [low, high] of midpoint $\mu$ and half-length $\rho$, let s be the sign of $\mu$,
$r = \max(\rho, |\mu|/3)$ and $z = (s u - |\mu|)/r$. Then $|z| \le 1$ and
$$ u v = s r\,(y v) - s\,(3r - |\mu|)\,v . $$
The second part is linear and is returned as a form of the registers. It vanishes for intervals within a factor of two,
$\rho \le |\mu|/3$, where the error is relative to u v itself; else the error is at most $4 r |v|
|\varepsilon|/(1-|\varepsilon|)$. An interval that is a point is no exception; where it is zero, nothing is written.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.balls import precision
from attnforge.errors import RefusalError
from attnforge.lemmas.reciprocal import BITS, reciprocal_rule
from attnforge.network import Head, Rows
from attnforge.theorems.registers import columns, one_hot, scaled, written

Array = npt.NDArray[np.float64]


def multiplier_head(u: Array, v: Array, low: float, high: float, column: int, keys: int = 9) -> tuple[Head, Array]:
    """A head, and a form of the registers: what the head writes to ``column`` plus the form is (u . r) (v . r).

    Args:
        u, v: forms (m,) of the registers.
        low, high: between which u . r lies.
        column: the fresh register, in which both forms have no weight.
        keys: k, own key included, from 2 to 10.

    >>> one, x, y = np.eye(4)[:3]
    >>> head, form = multiplier_head(x, y, -1.0, 1.0, column=3)
    >>> head.memory_keys.shape, form.tolist()
    ((8, 2), [0.0, 0.0, -3.0, 0.0])
    """
    centre, reach = _centre_and_reach(low, high)
    sign, one = (-1.0 if centre < 0 else 1.0), one_hot(0, len(u))
    slopes, offsets, kappa = _sinks(keys)
    z = scaled(sign * u - abs(centre) * one, 1.0, reach or 1.0)
    head = Head(
        query=columns(z, one),
        output=written(column, len(u), sign * reach / kappa),
        key=np.zeros((len(u), 2)),  # the own key: score 0
        value=columns(v),
        key_rows=Rows("own"),
        memory_keys=columns(slopes, offsets),
        memory_values=np.zeros((keys - 1, 1)),
    )
    return head, scaled(v, -factor_shift(low, high))


def factor_shift(low: float, high: float) -> float:
    """What the head adds to u: it writes (u . r + shift) (v . r)."""
    centre, reach = _centre_and_reach(low, high)
    return (-1.0 if centre < 0 else 1.0) * (3 * reach - abs(centre))


def _centre_and_reach(low: float, high: float) -> tuple[float, float]:
    """The midpoint and r = max(half-length, |midpoint| / 3)."""
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise RefusalError("A factor lies in an interval", f"[{low}, {high}]", "Give its range")
    centre = low / 2 + high / 2
    return centre, max(high / 2 - low / 2, abs(centre) / 3)


@lru_cache(maxsize=16)
def _sinks(keys: int) -> tuple[Array, Array, float]:
    """The sinks' scores, slope and offset in z, and kappa: each correctly rounded, or nearly so."""
    rule = reciprocal_rule(keys)
    with precision(BITS):
        half, own = arb(rule.alpha) / 2, rule.weights[0]
        slopes = [half * x.log() for x in rule.nodes[1:]]
        offsets = [(g / own).log() + slope for g, slope in zip(rule.weights[1:], slopes, strict=True)]
        return np.array([*map(float, slopes)]), np.array([*map(float, offsets)]), float(half * own)
