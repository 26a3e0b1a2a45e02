r"""The small-sharpness route (ours): a barely sharp softmax over examples and their mirror images is a sum of products.

**Aggregation.** A state token with query $\beta$ meets keys $\rho_i$ and, from the mirror images, $-\rho_i$, with
values $x_i$ and $-x_i$:
$$ \mathrm{out} = \frac{\sum_i \sinh(\beta\rho_i)\,x_i}{\sum_i \cosh(\beta\rho_i)}
   = \beta\,\frac1n\sum_i \rho_i x_i + O(\beta^3) . $$
With $\rho_i = w \cdot x_i - y_i$, read off directly by the query $\beta(w, -1)$, that is the least-squares gradient:
one head. Two heads, at $\beta$ and $2\beta$, cancel the next order (Richardson).

**Links.** A token's own residual comes from the state tokens as keys. *Identity*: keys $(w, -1)$ and 0 with values
$\pm\frac12$ give $\frac12\tanh(\beta s) = \frac12\beta s + O(\beta^3)$ at the query $2\beta$. *Logistic*: keys w
and 0 with values $\pm\frac12$ give $\sigma(w \cdot x) - \frac12$, exactly, and odd in x. *Softmax*: the K state
tokens with values $e_k$, exactly. *Exponential*: key w with value 1 beside a sink of score S with value 0 gives
$e^{w \cdot x - S}(1 - O(e^{w \cdot x - S}))$. The last two are not odd: one head serves the examples, another the
mirror images, with the opposite sign; a key that outbids all others silences each on the other's tokens.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from attnforge.network import Head, Rows
from attnforge.targets.in_context.features import Features

Array = npt.NDArray[np.float64]

SILENCE = 1e4  # a score that outbids, or is outbid by, all others in every dtype
SINK = 40.0  # e^-40 = 4e-18: what the sink leaves is exponential to roundoff


def state_rows(features: Features) -> Rows:
    """The state tokens."""
    return Rows.some(range(features.states))


def direct_gradient(features: Features, beta: float, factor: float) -> Head:
    """Adds factor times out to w, where out / beta is the least-squares gradient: reads data and state at once."""
    query = features.matrix(("w", beta), ("unit", -beta), ("state", -SILENCE))
    key = features.matrix(("x", 1.0), ("y", 1.0), ("state", 1.0))
    return _summing(features, query, key, factor)


def aggregation(features: Features, beta: float, factor: float) -> Head:
    """Adds factor times out to w, where out / beta is the mean of (residual - y) x."""
    query = features.matrix(("unit", beta), ("state", -SILENCE))
    rest = features.matrix(("residual", 1.0), ("y", -1.0), into=features.outputs)
    key = np.concatenate([rest, features.matrix(("state", 1.0))], axis=1)
    return _summing(features, query, key, factor)


def _summing(features: Features, query: Array, key: Array, factor: float) -> Head:
    """A head of the state tokens over the examples: state tokens as keys are silenced."""
    value, output = features.matrix(("x", 1.0)), features.writing("w", factor)
    return Head(query, output, state_rows(features), key, value, Rows())


def richardson(make: Callable[[float, float], Head], beta: float, factor: float) -> tuple[Head, Head]:
    """Two heads whose sum is factor times the derivative at zero sharpness, up to the fourth order.

    With out / beta = g + c beta^2 + .., (4/3) out(beta)/beta - (1/3) out(2 beta)/(2 beta) is g.
    """
    return make(beta, 4.0 / 3.0 * factor / beta), make(2.0 * beta, -factor / 3.0 / (2.0 * beta))


def identity_link(features: Features, beta: float) -> Head:
    """Writes tanh(beta (w.x - y)) / beta, odd in the example: a logistic link of small sharpness.

    It reads w alone, not its mirror image: what rounding makes of their sum would never be corrected.
    """
    query = features.matrix(("x", 2.0 * beta), ("y", -2.0 * beta))
    key, value = features.matrix(("w", 1.0), ("unit", 1.0)), features.matrix(("unit", 0.5))
    zero, half = np.zeros((1, features.inputs + features.outputs)), np.array([[-0.5]])
    return Head(query, features.writing("residual", 2.0 / beta), Rows(), key, value, Rows.some([0]), zero, half)


def logistic_link(features: Features) -> Head:
    """Writes sigma(w.x) - 1/2, odd in the example; labels are y - 1/2."""
    query, key = features.matrix(("x", 1.0)), features.matrix(("w", 1.0))
    value = features.matrix(("unit", 0.5))
    zero, half, output = np.zeros((1, features.inputs)), np.array([[-0.5]]), features.writing("residual", 1.0)
    return Head(query, output, Rows(), key, value, Rows.some([0]), zero, half)


def softmax_link(features: Features, sign: float) -> Head:
    """Writes the softmax of w_k.x on the examples (sign 1), or its negative on the mirror images (sign -1)."""
    return _one_sided(features, sign, -SILENCE, 1.0, Rows.some(range(features.outputs)))


def exponential_link(features: Features, sign: float) -> Head:
    """Writes exp(w.x) on the examples (sign 1), or its negative on the mirror images (sign -1)."""
    return _one_sided(features, sign, SINK, float(np.exp(SINK)), Rows.some([0]))


def _one_sided(features: Features, sign: float, rival: float, factor: float, rows: Rows) -> Head:
    """State tokens as keys beside a constant key of score ``rival``, or on the other side's tokens of any score."""
    on, off = ("first", "mirrored") if sign > 0 else ("mirrored", "first")
    last = features.matrix((on, rival), (off, SILENCE), into=1)
    query = np.concatenate([features.matrix(("plain", 1.0)), last], axis=1)
    key = np.concatenate([features.matrix(("w", 1.0)), np.zeros((features.width, 1))], axis=1)
    keys = np.zeros((1, features.inputs + 1))
    keys[0, -1] = 1.0
    nothing = np.zeros((1, features.outputs))
    output = features.writing("residual", sign * factor)
    return Head(query, output, Rows(), key, features.matrix(("unit", 1.0)), rows, keys, nothing)
