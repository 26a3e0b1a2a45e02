r"""How sharp: the truncation of the small-sharpness route against the rounding it divides by.

An aggregation head errs by about $\tfrac23 R z^2$ (two heads: $S\,4 R z^4$), $z = \beta R$, and by $c\,u/\beta$ from
rounding, c a few roundings of sums of n terms. The sum is least at
$$ \beta = \Big(\frac{3\,c\,u}{4 R^3}\Big)^{1/3} \quad\text{or}\quad \beta = \Big(\frac{c\,u}{16\,S R^5}\Big)^{1/5} : $$
in float64 near $10^{-5}$ or $10^{-3}$, in float32 near $10^{-2}$ or $10^{-1}$. The identity link, $\beta^2R^3/3$
against $c\,u/\beta$, has the first form. Gates are as sharp as the dtype can tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from attnforge.balls import machine
from attnforge.lemmas.small_sharpness import STRETCH
from attnforge.theorems.in_context.interpolation import Row

ROUNDINGS = 8.0  # of a typical sum: rounding errors of n terms largely cancel


@dataclass(frozen=True)
class Sharpness:
    """Of the aggregation, of the identity link, and of gates; ``extrapolated``: two heads aggregate (Richardson).

    ``row`` are the anchors that links are interpolated on, where they are.
    """

    aggregation: float
    residual: float
    gate: float
    extrapolated: bool
    row: Row | None = None


def balanced(dtype: str, reach: float, link_reach: float, largest: float, extrapolated: bool) -> Sharpness:
    """The sharpness for residuals up to ``reach``, links of values up to ``link_reach``, gates up to ``largest``."""
    unit = ROUNDINGS * machine(dtype).accumulation
    single = (0.75 * unit / reach**3) ** (1 / 3)
    double = (unit / (16 * STRETCH * reach**5)) ** (1 / 5)
    residual = (1.5 * unit / link_reach**3) ** (1 / 3)
    return Sharpness(
        double if extrapolated else single, residual, 4.0 / (machine(dtype).roundoff * largest), extrapolated
    )
