r"""Several heads that share one row of anchors: what is counted twice at their borders.

Head q owns m anchors and holds r sentinels a side, sitting exactly on its neighbours' anchors and worth nothing. Let
w be the weights of the single head that holds all keys. Head q's own weights are $w / (1 - M_q)$, where $M_q$ is the
w-mass of the keys it lacks, so the sum of the heads is the single head plus $\sum_q \frac{M_q}{1-M_q} \sum_{own} w v$,
off by at most $\max|v|$ times
$$ X = \sum_q S_q \frac{M_q}{1 - M_q} , \qquad S_q = \text{w-mass of q's own anchors.} $$
Put the last own anchor of a head at 0, its right sentinels at 1..r, the keys it lacks at r+1 and beyond, y at u. Then
the share of own against sentinels and the mass lacking are at most
$$ \alpha(u) = \frac{\sum_{i\ge0} e^{-c(u+i)^2}}{\sum_{i\ge0} e^{-c(u+i)^2} + \sum_{g=1}^{r} e^{-c(u-g)^2}}, \qquad
   \mu(u) = \frac{\sum_{j>r} e^{-c(u-j)^2}}{\sum_{j>r} e^{-c(u-j)^2} + \sum_{g=0}^{r} e^{-c(u-g)^2}} . $$
$\alpha$ falls and $\mu$ rises with u (likelihood ratios are monotone), so on a cell [u1, u2] their product is at most
$\alpha(u_1)\mu(u_2)$. Left borders are mirror images, $u \to 1 - u$; borders repeat every m steps. The maximum is about
$e^{-2c}$ for r = 1, $e^{-4c}/4$ for r = 2, $e^{-8c}$ for r = 3.
"""

from __future__ import annotations

import math
from functools import lru_cache

from flint import arb

from attnforge.lemmas.leakage import SOFTEST, mass_beyond
from attnforge.outward import add_up, ball, precision, product_up, upper

CELLS = 16  # cells a step


@lru_cache(maxsize=1024)
def border(c: float, sentinels: int, own: int) -> float:
    """X for any number of heads with ``own`` anchors and ``sentinels`` a side, rounded up.

    >>> math.exp(-6) < border(3.0, 1, 48) < 1.5 * math.exp(-6)
    True
    """
    if c < SOFTEST:
        return math.inf
    with precision():
        reach = _reach(c, sentinels)
        cells = _products(c, sentinels, reach)
    folded = [0.0] * (own * CELLS)
    for index, value in cells.items():
        for place in (index, CELLS - 1 - index):  # the cell of 1 - u is the mirror image
            folded[place % len(folded)] = add_up(folded[place % len(folded)], value)
    return add_up(max(folded), _beyond_reach(c, sentinels, own, reach))


def border_estimate(c: float, sentinels: int) -> float:
    """The leading term of X, for searching a good c: e^(-c (r+1)^2 / 2), for even r e^(-c r (r+2) / 2) / 4."""
    if sentinels % 2:
        return math.exp(-c * (sentinels + 1) ** 2 / 2)
    return math.exp(-c * sentinels * (sentinels + 2) / 2) / 4


def _reach(c: float, sentinels: int) -> int:
    """Steps from a border beyond which the geometric bounds are below e^-60."""
    return math.ceil(60.0 / (2 * c * sentinels)) + sentinels + 1


def _products(c: float, sentinels: int, reach: int) -> dict[int, float]:
    """alpha(u1) mu(u2) on the cells [i, i + 1] / CELLS of [-reach, reach], rounded up."""
    sharpness = ball(c)
    points = range(-reach * CELLS, reach * CELLS + 1)
    own_share = [_own_share(sharpness, sentinels, arb(i) / CELLS, c) for i in points]
    lacking = [_lacking(sharpness, sentinels, arb(i) / CELLS, c) for i in points]
    pairs = zip(points, own_share[:-1], lacking[1:], strict=False)
    return {i: min(upper(share * mass), 1.0) for i, share, mass in pairs}


def _own_share(c: arb, sentinels: int, u: arb, soft: float) -> arb:
    """An upper bound of alpha: with the logarithm of the nearest own weight factored out."""
    nearest = max(0, round(-float(u.mid())))
    own = sum((_relative(c, u, -i, -nearest) for i in _around(nearest, soft)), _dropped(soft))
    others = sum((_relative(c, u, g, -nearest) for g in range(1, sentinels + 1)), arb(0))
    return own / (own + others)


def _lacking(c: arb, sentinels: int, u: arb, soft: float) -> arb:
    """An upper bound of mu."""
    first = sentinels + 1
    nearest = max(0, round(float(u.mid()) - first))
    places = [first + j for j in _around(nearest, soft)]
    lacking = sum((_relative(c, u, place, first + nearest) for place in places), _dropped(soft))
    held = sum((_relative(c, u, g, first + nearest) for g in range(sentinels + 1)), arb(0))
    return lacking / (lacking + held)


def _around(nearest: int, c: float) -> range:
    return range(max(0, nearest - _width(c)), nearest + _width(c) + 1)


def _width(c: float) -> int:
    """Keys a side that are summed one by one."""
    return math.ceil(math.sqrt(45.0 / c)) + 1


def _dropped(c: float) -> arb:
    """Keys k > width steps from the nearest weigh at most exp(-c (k^2 - k)) of it, less than exp(-c (k - 1)^2)."""
    return arb(product_up(2.0, mass_beyond(c, _width(c))))


def _relative(c: arb, u: arb, place: int, origin: int) -> arb:
    """exp(-c (u - place)^2) / exp(-c (u - origin)^2), whose exponent is linear in u."""
    return (-c * (place - origin) * (place + origin - 2 * u)).exp()


def _beyond_reach(c: float, sentinels: int, own: int, reach: int) -> float:
    """All borders further than ``reach``: alpha <= T exp(-c(2ur - r^2)), mu <= T exp(-c((r+1)^2 - 2(r+1)u))."""
    total = add_up(1.0, mass_beyond(c, 1))
    with precision():
        decay = (-2 * ball(c) * sentinels).exp()
        first = (-ball(c) * (2 * reach * sentinels - sentinels * sentinels)).exp()
        return product_up(4.0, total, upper(first / (1 - decay**own)))
