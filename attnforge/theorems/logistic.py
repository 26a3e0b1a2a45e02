r"""One head of two keys that computes a logistic function of a linear form, exactly.

Two constant keys with scores l and 0 and values a + b and b:
$$ \mathrm{out} = \frac{(a + b)e^l + b}{e^l + 1} = a\,\sigma(l) + b, \qquad \sigma(l) = \frac1{1 + e^{-l}} . $$
There is nothing to approximate; a run adds roundings alone. $\tanh x = 2\sigma(2x) - 1$ has the values 1 and -1, and
$1/(1 + e^x) = \sigma(-x)$.

If the first key is the token's own and its value is l, the output is $l\,\sigma(l)$, the SiLU of l.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.errors import TargetError
from attnforge.expression import Apply, Constant, Node, linear_form
from attnforge.network import Head, Network, Rows
from attnforge.targets import Box, Formula, Target
from attnforge.theorems.construction import Construction, Cost, Documentation, Law
from attnforge.theorems.registers import columns, counted, one_hot, one_node, scaled, why_not, written

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LogisticPlan:
    """There is nothing to choose."""


class Logistic(Construction[LogisticPlan]):
    """A logistic function of one linear form."""

    name = "logistic"
    function_class = "sigmoid(w.x + t), tanh(w.x + t), 1/(1 + exp(w.x + t))"
    rate = "exact, 2 keys"
    conditions = "none; a run adds roundings"
    reference = "the softmax of two scores"
    documentation = Documentation(
        theorem="none: the softmax of two scores",
        hypotheses="none",
        bound="0 for all x",
        heads="1",
        keys="2",
        width="d + 2",
        example="af.constructions.logistic([3.0, -1.0], 0.5, domain=af.Box(-2, 2))",
    )
    law = Law(
        target=lambda: Formula("sigmoid(x - 2*y)", Box([-1, -1], [1, 1]), ("x", "y")),
        refused=lambda: Formula("tanh(x^2)", Box([-1], [1])),
        tols=(1e-3, 1e-12),
        order=math.inf,
    )

    def accepts(self, target: Target) -> str | None:
        """Formulas that are a sigmoid, a tanh or 1/(1 + exp) of one linear form."""
        return why_not(_read, target)

    def size(self, target: Target, tol: float, dtype: str) -> LogisticPlan:
        """Two keys."""
        return LogisticPlan()

    def cost(self, target: Target, plan: LogisticPlan) -> Cost:
        """Those of the network."""
        return counted(self.build(target, plan))

    def build(self, target: Target, plan: LogisticPlan) -> Network:
        """Registers 1, inputs, the logistic function."""
        form, scale, offset = _read(target)
        return one_node(logistic_head(form, len(form) - 1, scale, offset), np.zeros(len(form)), self.name)

    def bound(self, target: Target, plan: LogisticPlan) -> dict[str, float]:
        """Nothing but the rounding of a run."""
        return {"leakage": 0.0}


def _read(target: Target) -> tuple[Array, float, float]:
    """The form, the scale and the offset of scale * sigmoid(form) + offset."""
    if isinstance(target, Formula):
        argument, factor, scale, offset = _pattern(target.tree)
        found = None if argument is None else linear_form(argument, target.names)
        if found is not None:
            weights = np.array([float(z.mid()) for z in (found.offset, *found.weights, arb(0))])
            return scaled(weights, factor), scale, offset
    requirement = "A logistic head takes a sigmoid, a tanh or 1/(1 + exp) of one linear form"
    raise TargetError(requirement, target.describe(), "Use af.compile")


def _pattern(tree: Node) -> tuple[Node | None, float, float, float]:
    """The argument L, and numbers with which the expression is scale * sigmoid(factor * L) + offset."""
    one = Constant(1.0)
    match tree:
        case Apply("sigmoid", (argument,)):
            return argument, 1.0, 1.0, 0.0
        case Apply("tanh", (argument,)):
            return argument, 2.0, 2.0, -1.0
        case Apply("/", (first, Apply("+", (left, right)))) if first == one and one in (left, right):
            match left if right == one else right:
                case Apply("exp", (argument,)):
                    return argument, -1.0, 1.0, 0.0
    return None, 1.0, 1.0, 0.0


def logistic_head(form: Array, column: int, scale: float = 1.0, offset: float = 0.0) -> Head:
    """A head that writes scale * sigmoid(form . r) + offset to a column.

    Args:
        form: (m,), of the registers.
        column: the fresh register, in which the form has no weight.
        scale, offset: 2 and -1 make a tanh of half the form.

    >>> logistic_head(np.array([0.0, 2.0, 0.0]), column=2, scale=2.0, offset=-1.0).memory_values.tolist()
    [[1.0], [-1.0]]
    """
    return Head(
        query=columns(form),
        output=written(column, len(form)),
        memory_keys=np.array([[1.0], [0.0]]),
        memory_values=np.array([[scale + offset], [offset]]),
    )


def silu_head(form: Array, column: int) -> Head:
    """A head that writes l * sigmoid(l), l = form . r, to a column.

    >>> silu_head(np.array([0.0, 1.0, 0.0]), column=2).memory_values.tolist()
    [[0.0]]
    """
    return Head(
        query=columns(form),
        output=written(column, len(form)),
        key=columns(one_hot(0, len(form))),
        value=columns(form),
        key_rows=Rows("own"),
        memory_keys=np.zeros((1, 1)),
        memory_values=np.zeros((1, 1)),
    )
