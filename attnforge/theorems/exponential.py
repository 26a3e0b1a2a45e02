r"""One head of two keys that computes v exp(l), v and l linear forms of its token (ours).

Own key, of score l and value v, and a sink of score M and value 0; the output map multiplies by $e^M$:
$$ \mathrm{out} = e^M v\,\frac{e^l}{e^l + e^M} = \frac{v e^l}{1 + e^{l-M}}, \qquad
   -e^{l-M} \le \frac{\mathrm{out}}{v e^l} - 1 \le 0 . $$
For $l \le$ high the relative error is at most $e^{\mathrm{high}-M}$. The softmax subtracts M from l, which errs by u
(M - l) in a dtype of roundoff u, and so does, relatively, its exponential. The sum $e^{\mathrm{high}-M} + u M$ is
smallest where its derivative vanishes, at $e^{\mathrm{high}-M} = u$: M is the next whole number, which every dtype
holds. So in exact arithmetic the relative error is at most u, and a run adds about u (M + |l|).

The factor stands in the output map and not in the value, since weight times value is at most $u|v|$ and the product
is the result itself: only $e^M$ has to be a number of the dtype, which leaves high <= 672 in float64 and 71 in float32.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from attnforge.balls import machine
from attnforge.errors import RefusalError
from attnforge.network import Head, Rows
from attnforge.theorems.registers import columns, one_hot, written

Array = npt.NDArray[np.float64]


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
        output=written(column, len(v), math.exp(level)),
        key=columns(one, np.zeros(len(v))),  # the own key: score l
        value=columns(v),
        key_rows=Rows("own"),
        memory_keys=np.array([[0.0, level]]),
        memory_values=np.zeros((1, 1)),
    )


def sink_level(high: float, dtype: str) -> float:
    """M, the least whole number with exp(high - M) at most a roundoff of the dtype."""
    level = float(np.ceil(high - math.log(machine(dtype).roundoff)))
    if not level < math.log(machine(dtype).largest):  # refuses NaN, too
        requirement = f"exp(l) must leave room for a roundoff of {dtype}: exp(high) / u must be one of its numbers"
        raise RefusalError(requirement, f"high = {high:g}", "Narrow the domain, or use a wider dtype")
    return level
