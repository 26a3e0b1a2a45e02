r"""One head of two keys that computes v exp(l), v and l linear forms of its token (ours).

Own key, of score l and value $v e^M$, and a sink of score M and value 0:
$$ \mathrm{out} = e^M v\,\frac{e^l}{e^l + e^M} = \frac{v e^l}{1 + e^{l-M}}, \qquad
   -e^{l-M} \le \frac{\mathrm{out}}{v e^l} - 1 \le 0 . $$
For $l \le$ high the relative error is at most $e^{\mathrm{high}-M}$. The softmax subtracts M from l, which errs by u
(M - l) in a dtype of roundoff u, and so does, relatively, its exponential. The sum $e^{\mathrm{high}-M} + u M$ is
smallest where its derivative vanishes, at $e^{\mathrm{high}-M} = u$: M is the next whole number, which every dtype
holds. So in exact arithmetic the relative error is at most u, and a run adds about u (M + |l|).

The value $v e^M$ has to be a number of the dtype, which leaves high <= 672 in float64 and 71 in float32 for |v| <= 1. A
weight below the smallest normal number of the dtype may vanish, which is an error of $e^M |v|$ times that number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError, TargetError
from attnforge.expression import Apply, Variable
from attnforge.network import Head, Network, Rows
from attnforge.outward import Up, machine
from attnforge.targets import Box, Formula, Target
from attnforge.theorems.construction import Construction, Cost, Documentation, Law
from attnforge.theorems.registers import Input, columns, counted, one_hot, one_node, scaled, why_not, written

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ExponentialPlan:
    """The dtype, whose roundoff places the sink."""

    dtype: str = "float64"


class Exponential(Construction[ExponentialPlan]):
    """A product of an input and the exponential of another."""

    name = "exponential"
    function_class = "products v exp(l) of two inputs"
    rate = "exact to a roundoff u, 2 keys"
    conditions = "relative, for l <= high with |v| exp(high)/u a number of the dtype; rounding adds about u (M + |l|)"
    reference = "ours"
    documentation = Documentation(
        theorem="ours",
        hypotheses="l <= high; M >= high + ln(1/u)",
        bound="relative, for all v and l <= high: exp(high - M) <= u",
        heads="1",
        keys="2",
        width="4",
        example="af.constructions.exponential(af.Box([-1, -5], [1, 0]))",
    )
    law = Law(
        target=lambda: Formula("v*exp(l)", Box([-1, -1], [1, 0]), ("v", "l")),
        refused=lambda: Formula("v*exp(2*l)", Box([-1, -1], [1, 0]), ("v", "l")),
        tols=(1e-3, 1e-12),
        order=math.inf,
    )

    def accepts(self, target: Target) -> str | None:
        """Formulas that are one input times the exponential of another, and have no others."""
        return why_not(_factor_and_exponent, target)

    def size(self, target: Target, tol: float, dtype: str) -> ExponentialPlan:
        """No tolerance needs less than two keys."""
        return ExponentialPlan(dtype)

    def cost(self, target: Target, plan: ExponentialPlan) -> Cost:
        """Those of the network."""
        return counted(self.build(target, plan))

    def build(self, target: Target, plan: ExponentialPlan) -> Network:
        """Registers 1, inputs, product."""
        v, exponent = _factor_and_exponent(target)
        head = exponential_head(v.form, exponent.form, exponent.high, 3, plan.dtype)
        return one_node(head, np.zeros(4), self.name)

    def bound(self, target: Target, plan: ExponentialPlan) -> dict[str, float]:
        """``leakage``: what the own key is short of beside the sink."""
        v, exponent = _factor_and_exponent(target)
        short = Up.exp_of(2 * exponent.high - sink_level(exponent.high, plan.dtype))
        return {"leakage": float(Up.between(v.low, v.high) * short)}


def _factor_and_exponent(target: Target) -> tuple[Input, Input]:
    """The inputs v and l of v exp(l)."""
    if isinstance(target, Formula) and len(target.names) == 2:
        match target.tree:
            case Apply("*", (Variable(v), Apply("exp", (Variable(exponent),)))) | Apply(
                "*", (Apply("exp", (Variable(exponent),)), Variable(v))
            ) if v != exponent:
                return Input.of(target, v), Input.of(target, exponent)
    raise TargetError("An exponential head takes v*exp(l) of two inputs", target.describe(), "Use af.compile")


def exponential_head(v: Array, exponent: Array, high: float, column: int, dtype: str = "float64") -> Head:
    """A head that writes (v . r) exp(exponent . r) to a column.

    Args:
        v, exponent: forms (m,) of the registers.
        high: the exponent is no larger.
        column: the fresh register, in which both forms have no weight.
        dtype: what it runs in.

    >>> one, x, y = np.eye(4)[:3]
    >>> exponential_head(x, y, 0.0, column=3).memory_keys.tolist()
    [[0.0, 37.0]]
    """
    level, one = sink_level(high, dtype), one_hot(0, len(v))
    return Head(
        query=columns(exponent, one),
        output=written(column, len(v)),
        key=columns(one, np.zeros(len(v))),  # the own key: score l
        value=columns(_raised(v, level, dtype)),
        key_rows=Rows("own"),
        memory_keys=np.array([[0.0, level]]),
        memory_values=np.zeros((1, 1)),
    )


def sink_level(high: float, dtype: str) -> float:
    """M, the least whole number with exp(high - M) at most a roundoff of the dtype."""
    level = float(np.ceil(high - math.log(machine(dtype).roundoff)))
    if not level < math.log(machine(dtype).largest):  # refuses NaN, too
        raise _overflow(high, dtype)
    return level


def _raised(v: Array, level: float, dtype: str) -> Array:
    """The form v e^M."""
    value = scaled(v, math.exp(level))
    if np.abs(value).max() > machine(dtype).largest:
        raise _overflow(level + math.log(machine(dtype).roundoff), dtype)
    return value


def _overflow(high: float, dtype: str) -> RefusalError:
    requirement = f"v exp(l) must leave room for a roundoff u of {dtype}: v exp(high) / u must be one of its numbers"
    return RefusalError(requirement, f"high = {high:g}", "Narrow the domain, or use a wider dtype")
