r"""One head that multiplies two linear forms of its token (ours).

Own key and k - 1 sinks. Let $z \in [-1, 1]$ be an affine function of u, and y = 3 + z. The own key has score 0 and
value $v/\kappa$, the sinks have value 0 and scores $\ln(g_i/g_0) + t \ln x_i$, $t = \alpha(y - 2)/2$, which are affine
in z. So
$$ \mathrm{out} = \frac{v/\kappa}{1 + \sum_{i \ge 1} (g_i/g_0)\,x_i^t} = \frac{(g_0/\kappa)\,v}{Q(t)}, \qquad
   \frac\alpha2 Q(t) = \frac{1 + \varepsilon}{y}, $$
by the Gauss-Radau rule of :mod:`attnforge.lemmas.reciprocal` for $1/y = \frac\alpha2\int_0^1 x^t x^{\alpha-1}dx$, whose
node at 1 is the own key and whose weights are positive, so that scores are their logarithms. With $\kappa = \alpha
g_0/2$ the output is $y v/(1 + \varepsilon)$, and $|\varepsilon|$ at most 2.1e-8, 6.9e-12 and 2.5e-15 for 5, 7 and 9
keys, proved, for every v.

**Any interval.** For u in [low, high] of midpoint $\mu$ and half-length $\rho$, let s be the sign of $\mu$,
$r = \max(\rho, |\mu|/3)$ and $z = (s u - |\mu|)/r$. Then $|z| \le 1$ and
$$ u v = s r\,(y v) - s\,(3r - |\mu|)\,v . $$
The second part is linear and is returned as a form of the registers. It vanishes for intervals within a factor of two,
$\rho \le |\mu|/3$, where the error is relative to u v itself; else the error is at most $4 r |v|
|\varepsilon|/(1-|\varepsilon|)$. An interval that is a point is no exception; where it is zero, nothing is written.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.errors import RefusalError, TargetError
from attnforge.expression import Apply, Variable
from attnforge.lemmas.reciprocal import BITS, FEWEST, MOST, reciprocal_error, reciprocal_rule
from attnforge.network import Head, Network, Rows
from attnforge.outward import Up, down, precision, up
from attnforge.targets import Box, Formula, Target
from attnforge.theorems.construction import Construction, Cost, Documentation, Law
from attnforge.theorems.registers import Input, columns, counted, one_hot, one_node, scaled, why_not, written

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MultiplierPlan:
    """How many keys, the own one included."""

    keys: int = 9


class Multiplier(Construction[MultiplierPlan]):
    """A product of two inputs."""

    name = "multiplier"
    function_class = "products x y of two inputs"
    rate = "about 54^-k, k keys"
    conditions = "2 to 10 keys; of 4 r max|y| for x in [c - r, c + r], r at least |c|/3; 9 keys are exact to 2.5e-15"
    reference = "ours"
    documentation = Documentation(
        theorem="ours",
        hypotheses="x in [c - r, c + r], r >= |c|/3",
        bound="sup over all y: 4 r |y| e/(1 - e), e = 6.9e-5, 2.1e-8, 6.9e-12, 2.5e-15 of 3, 5, 7, 9 keys",
        heads="1",
        keys="k",
        width="4",
        example="af.constructions.multiplier(keys=5)",
    )
    law = Law(
        target=lambda: Formula("x*y", Box([-1, -1], [1, 1]), ("x", "y")),
        refused=lambda: Formula("x^2*y", Box([-1, -1], [1, 1]), ("x", "y")),
        tols=(1e-3, 1e-7),
        order=math.inf,
    )

    def accepts(self, target: Target) -> str | None:
        """Formulas that are the product of two different inputs, and have no others."""
        return why_not(_factors, target)

    def size(self, target: Target, tol: float, dtype: str) -> MultiplierPlan:
        """The fewest keys whose bound is at most tol."""
        for keys in range(FEWEST, MOST + 1):
            plan = MultiplierPlan(keys)
            if sum(self.bound(target, plan).values()) <= tol:
                return plan
        requirement = f"A multiplier has at most {MOST} keys, with which it is exact to {reciprocal_error(MOST):.1g}"
        raise RefusalError(requirement, f"tol={tol:g}", "Ask for a larger tol")

    def cost(self, target: Target, plan: MultiplierPlan) -> Cost:
        """Those of the network."""
        return counted(self.build(target, plan))

    def build(self, target: Target, plan: MultiplierPlan) -> Network:
        """Registers 1, inputs, product."""
        u, v = _factors(target)
        return one_node(*multiplier_head(u.form, v.form, u.low, u.high, 3, plan.keys), self.name)

    def bound(self, target: Target, plan: MultiplierPlan) -> dict[str, float]:
        """``quadrature``: the error of the rule, times the largest product y v."""
        u, v = _factors(target)
        error, (_, reach) = reciprocal_error(plan.keys), _centre_and_reach(u.low, u.high)
        return {"quadrature": float(Up.between(v.low, v.high) * reach * 4.0 * error / down(1 - error))}


def _factors(target: Target) -> tuple[Input, Input]:
    """The two inputs of which the formula is the product."""
    if isinstance(target, Formula) and len(target.names) == 2:
        match target.tree:
            case Apply("*", (Variable(u), Variable(v))) if u != v:
                return Input.of(target, u), Input.of(target, v)
    raise TargetError("A multiplier takes the product of two inputs, x*y", target.describe(), "Use af.compile")


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
        output=written(column, len(u)),
        key=np.zeros((len(u), 2)),  # the own key: score 0
        value=columns(scaled(v, sign * reach / kappa)),
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
    """The midpoint c, rounded, and r: no smaller than |c| / 3, nor than how far either end lies from c."""
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise RefusalError("A factor lies in an interval", f"[{low}, {high}]", "Give its range")
    centre = low / 2 + high / 2
    exact = max(Fraction(high) - Fraction(centre), Fraction(centre) - Fraction(low))
    rounded = float(exact)
    return centre, max(rounded if rounded >= exact else up(rounded), abs(centre) / 3)


@lru_cache(maxsize=16)
def _sinks(keys: int) -> tuple[Array, Array, float]:
    """The sinks' scores, slope and offset in z, and kappa: each correctly rounded, or nearly so."""
    rule = reciprocal_rule(keys)
    with precision(BITS):
        half, own = arb(rule.alpha) / 2, rule.weights[0]
        slopes = [half * x.log() for x in rule.nodes[1:]]
        offsets = [(g / own).log() + slope for g, slope in zip(rule.weights[1:], slopes, strict=True)]
        return np.array([*map(float, slopes)]), np.array([*map(float, offsets)]), float(half * own)
