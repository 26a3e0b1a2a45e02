r"""Several heads, each disturbed on its own: what rounding does at their borders.

Heads with m own anchors and r sentinels a side, in the setting of :mod:`.border`. Head q sees y moved by at most
$\eta$ (in steps) and every score off by at most d, or $d + D z$ when y lies z steps beyond its last key. The heads'
rounding is not shared, so the complementary weights at a border no longer match. Write a head's output as
$\bar y \sigma_q + \sum_{own} w (V - \bar y)$, $\bar y = \mathrm{clamp}(y)$, $\sigma_q$ its own share, and let v bound
all values.

*Near* heads, those with y between their first and last key, are at most $N = \lfloor (m + 2r - 1)/m \rfloor + 1$.
Disturbed scores move a share by $(e^{2d} - 1)\sigma(1 - \sigma) \le (e^{2d} - 1)/4$ and a weighted distance by
$(e^{2d} - 1)\,E|k - y|$; moving y changes a weighted sum at the rate $2c\,\mathrm{Cov}(\cdot, k)$. With
$E|k - y| \le \frac12 + 2\sum (i+1)e^{-ci^2} =: M_1$ and $E|k - y|^2 \le \frac12 + 2\sum (i+1)^2 e^{-ci^2} =: M_2$ each
near head errs by at most
$$ v\,[(e^{2d} - 1)/4 + 2c\eta M_1] + h\,[(e^{2d} - 1) M_1 + 2c\eta M_2] . $$
*Far* heads, z steps away, hold at most $T e^{-cr^2 - 2crz}$ on their own anchors, $T = 1 + \sum e^{-ci^2}$, and their
weights change by a factor of at most $e^{x + 2Dz}$, $x = 2d + 4c\eta(m + 2r)$. If $2D \le cr$, summing over heads m
steps apart and using $e^{x + 2Dz} - 1 \le e^{crz}(e^x - 1 + 2Dz)$ and $ze^{-crz} \le \frac{2}{ecr}e^{-crz/2}$, both
sides together err by at most
$$ 2vT\,e^{-cr^2}\,\frac{(e^x - 1) + \frac32 D/(cr)}{1 - e^{-crm/2}} . $$
Beyond the ends of the row the end head is disturbed by at most $h\,[(e^x - 1) + \frac32 D/c]\sum (i+1) e^{-ci^2}$,
likewise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from attnforge.lemmas.leakage import mass_beyond, moment_beyond
from attnforge.lemmas.softmax import ratio_excess
from attnforge.outward import add_up, ball, precision, product_up, upper


@dataclass(frozen=True)
class Disturbance:
    """How far a head's run departs from its exact form: scores (d), their growth (D, a step), position (eta, steps)."""

    scores: float
    growth: float
    position: float


def heads_disturbance(
    c: float, sentinels: int, own: int, found: Disturbance, furthest: float, largest: float, h: float
) -> float:
    """The whole error of the statement above, for values at most ``largest`` and steps of length h, rounded up.

    ``found.position`` is eta where y lies in the row's interval, ``furthest`` anywhere on the domain (far heads).
    """
    if 2 * found.growth > c:
        return math.inf
    excess, shift = ratio_excess(found.scores), product_up(2.0, c, found.position)
    first = add_up(0.5, product_up(2.0, moment_beyond(c, 1)))
    second = add_up(0.5, product_up(2.0, moment_beyond(c, 2)))
    share = add_up(excess / 4, product_up(shift, first))
    distance = add_up(product_up(excess, first), product_up(shift, second))
    near = (own + 2 * sentinels - 1) // own + 1
    total = product_up(near, add_up(product_up(largest, share), product_up(h, distance)))
    away = Disturbance(found.scores, found.growth, furthest)
    return add_up(total, _far(c, sentinels, own, away, largest, h))


def _far(c: float, sentinels: int, own: int, found: Disturbance, largest: float, h: float) -> float:
    moved = add_up(found.scores, product_up(2.0, c, found.position, own + 2 * sentinels))
    excess = ratio_excess(moved)
    with precision():
        decay = 1 - (-ball(c) * sentinels * own / 2).exp()
        weight = upper((-ball(c) * sentinels**2).exp() / decay)
    sides = add_up(excess, 1.5 * found.growth / (c * sentinels))
    ends = product_up(h, moment_beyond(c, 1), add_up(excess, 1.5 * found.growth / c))
    return add_up(product_up(2.0, largest, add_up(1.0, mass_beyond(c, 1)), weight, sides), ends)
