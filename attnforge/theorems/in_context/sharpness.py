r"""How sharp: the truncation of the small-sharpness route against the rounding it divides by.

Residuals of size R are aggregated with an error of about $\tfrac13 R z^2$, $z = \beta R$ (of $\tanh z$: all residuals
equal), by two heads of $\tfrac{8}{15} R z^4$, and rounding adds $c\,u/\beta$, c a few roundings of sums of n terms. The
sum is least at
$$ \beta = \Big(\frac{3\,c\,u}{2 R^3}\Big)^{1/3} \quad\text{or}\quad
   \beta = \Big(\frac{15\,c\,u}{32 R^5}\Big)^{1/5} . $$
Where the link bounds residuals, R is that bound; else a quarter of the bound on the data: residuals shrink as the
iteration converges, and what larger ones do at first is forgotten. The identity link reads forms as large as they come:
it has the first formula with their bound. Gates are as sharp as the dtype can tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from attnforge.balls import machine
from attnforge.theorems.in_context.interpolation import Row

TYPICAL = 0.25  # size of residuals, of the bound on the data
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


def balanced(dtype: str, size: float, reach: float, extrapolated: bool) -> Sharpness:
    """The sharpness for residuals of some size, and links and gates of values up to ``reach``."""
    unit = ROUNDINGS * machine(dtype).accumulation
    single = (1.5 * unit / size**3) ** (1 / 3)
    double = (15 / 32 * unit / size**5) ** (1 / 5)
    residual = (1.5 * unit / reach**3) ** (1 / 3)
    return Sharpness(
        double if extrapolated else single, residual, 4.0 / (machine(dtype).roundoff * max(reach, 1.0)), extrapolated
    )
