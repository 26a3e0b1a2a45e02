r"""How sharp: the truncation of the small-sharpness route against the rounding it divides by.

Residuals of size R are aggregated with an error of at most about $\tfrac13 R z^2$, $z = \beta R$ (of $\tanh z$: all
residuals equal), by two heads of $\tfrac{8}{15} R z^4$, a part $1/\kappa$ of it where residuals are of both signs, and
rounding adds $c\,u/\beta$, c a few roundings of sums of n terms. The sum is least at
$$ \beta = \Big(\frac{3\,\kappa\,c\,u}{2 R^3}\Big)^{1/3} \quad\text{or}\quad
   \beta = \Big(\frac{15\,\kappa\,c\,u}{32 R^5}\Big)^{1/5} . $$
R is typical of residuals once the iteration has come close, for what larger ones do at first is forgotten: half of what
the link bounds them by, a quarter of the bound on the data, or 0.4 where nothing is known: data of unit variance, of
which five sixths are explained.

c is what a proof charges a sum over some hundred examples, more than a run loses: its largest entry for normal data.
$\kappa$ lies between 1 and $\sqrt n$, the latter where odd powers of residuals are uncorrelated with the examples. Of
labels they are not: the third power of $y - p$ leans to the side of the smaller probability; six is between. Of numbers
they are, if noise is symmetric; for some hundred examples, sixteen in place of six is as if residuals were smaller by
$(6/16)^{1/5}$, and so small they are taken to be where nothing is known. (Where the data have a bound, all prompts are
certified, and the worst counts.)

The identity link serves residuals up to the $\delta$ they are cut to, and loses half a roundoff: the first formula with
$\kappa c = 1$. Gates are as sharp as the dtype can tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from attnforge.lemmas.link_row import Row
from attnforge.outward import machine

TYPICAL = 0.25  # size of residuals, of the bound on the data
ROUNDINGS = 8.0  # that the certificate of a sum over some hundred examples charges
AVERAGED, UNCORRELATED = 6.0, 16.0  # by which truncation stays below its bound
UNKNOWN = 0.4 * (AVERAGED / UNCORRELATED) ** 0.2  # size of residuals where there is no bound on the data


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


def balanced(dtype: str, size: float, reach: float, extrapolated: bool, delta: float = 1.0) -> Sharpness:
    """The sharpness for residuals of some size, gates of values up to ``reach``, and residuals cut to ``delta``."""
    unit, roundoff = machine(dtype).accumulation, machine(dtype).roundoff
    single = (1.5 * AVERAGED * ROUNDINGS * unit / size**3) ** (1 / 3)
    double = (15 / 32 * AVERAGED * ROUNDINGS * unit / size**5) ** (1 / 5)
    residual = (1.5 * unit / delta**3) ** (1 / 3)
    return Sharpness(double if extrapolated else single, residual, 4.0 / (roundoff * max(reach, 1.0)), extrapolated)
