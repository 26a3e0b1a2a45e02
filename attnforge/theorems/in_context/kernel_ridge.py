r"""Kernel ridge regression: one softmax head a step multiplies by the kernel matrix.

Every example attends to all of them, itself included, with scores
$s_{ij} = x_i \cdot x_j/h^2 - |x_j|^2/(2h^2) - |x_i|^2/(2h^2) = \ln K_{ij}$, and to a **sink**, a constant key of
score M and value 0. Values are the coefficients, so that
$$ e^M\,\mathrm{out}_i = \frac{\sum_j K_{ij}\,a_j}{1 + e^{-M}\sum_j K_{ij}} = (K a)_i\,(1 - \theta_i), \qquad
   0 \le \theta_i \le n\,e^{-M} : $$
the sink outbids all examples together, and the softmax no longer normalises. A linear map of every token by itself
then makes the step, $a \leftarrow (1 - \eta\alpha)\,a + \eta y - \eta K a$, and clears the product.

**How deep the sink.** Weights are $e^{s - M}$, whose exponents lose $(M - s)u$ to rounding: M is no larger than it
takes to bring $n e^{-M}$ down to the roundoff u, $M = \ln(n/u)$.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from attnforge.network import Attention, Head, Layer, Linear, Network, Rows, Term
from attnforge.outward import machine
from attnforge.targets.in_context import KernelSystem

Array = npt.NDArray[np.float64]

MANY = 2**16  # examples that the sink is made for where their number is not given


def network(target: KernelSystem, dtype: str) -> Network:
    """All steps: the same head every time, and a linear map that holds the step size.

    >>> net = network(KernelSystem(1.0, 1.0, 1, (0.5,) * 50, (1.0, 3.0)), "float64")
    >>> len(net.heads), net(np.array([[0.0, 0.0, 1.0, 2.0, 0.0, 0.0], [9.0, 81.0, 1.0, 4.0, 0.0, 0.0]]))[:, 4].round(9)
    (50, array([1., 2.]))
    """
    multiply = Attention((_kernel(target, dtype),), residual=True)
    steps = {rate: _step(target, rate) for rate in target.rates}
    layers: list[Layer] = []
    for rate in target.rates:
        layers += [multiply, steps[rate]]
    return Network(tuple(layers), target.width, target.examples, construction="in_context")


def _kernel(target: KernelSystem, dtype: str) -> Head:
    """Writes K a into the workspace."""
    d, half = target.features, -0.5 / target.bandwidth**2
    sink = round(math.log((target.examples or MANY) / machine(dtype).roundoff), 1)
    one, square = target.place("one"), target.place("square")
    query, key = np.zeros((target.width, d + 3)), np.zeros((target.width, d + 3))
    query[:d, :d], key[:d, :d] = np.eye(d) / target.bandwidth**2, np.eye(d)
    query[one, d], key[square, d] = half, 1.0
    query[square, d + 1], key[one, d + 1] = half, 1.0
    query[one, d + 2] = sink
    value, output = np.zeros((target.width, 1)), np.zeros((1, target.width))
    value[target.place("a"), 0], output[0, target.place("product")] = 1.0, math.exp(sink)
    deep = np.zeros((1, d + 3))
    deep[0, d + 2] = 1.0
    return Head(query, output, Rows(), key, value, Rows(), deep, np.zeros((1, 1)))


def _step(target: KernelSystem, rate: float) -> Linear:
    """From the product K a to the next coefficients."""
    y, a, product = (target.place(name) for name in ("y", "a", "product"))
    made = np.eye(target.width)
    made[a, a], made[y, a], made[product, a], made[product, product] = 1.0 - rate * target.alpha, rate, -rate, 0.0
    return Linear((Term(made),))
