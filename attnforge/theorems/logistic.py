r"""One head of two keys that computes a logistic function of a linear form, exactly.

Two constant keys with scores l and 0 and values a + b and b:
$$ \mathrm{out} = \frac{(a + b)e^l + b}{e^l + 1} = a\,\sigma(l) + b, \qquad \sigma(l) = \frac1{1 + e^{-l}} . $$
There is nothing to approximate; a run adds roundings alone. $\tanh x = 2\sigma(2x) - 1$ has the values 1 and -1, and
$1/(1 + e^x) = \sigma(-x)$.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.network import Head
from attnforge.theorems.registers import columns, written

Array = npt.NDArray[np.float64]


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
