r"""What rounding makes of features times a matrix.

A column adds up the products with its weights that are not zero. Of a register that exactly holds a label one such
product is not zero, and it is exact, being a product with 1; products by powers of two are exact, too. So a column of k
summands rounds k - 1 sums, and the products once if any of them is rounded: $\gamma_{k-1}$ or $\gamma_k$ of the sum of
sizes, whatever the order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.certification.programs.held import State
from attnforge.outward import Machine, Up, gamma

Array = npt.NDArray[np.float64]


def roundings(state: State, weights: Array, further: Array) -> tuple[Array, Array]:
    """Roundings (r,) behind each column of features times weights (m, r), and how many summands may underflow.

    ``further`` (r,) are summands beside the products.
    """
    terms = np.asarray(further != 0, dtype=np.float64)
    inexact, small = np.zeros(weights.shape[1], dtype=bool), np.zeros(weights.shape[1])
    for each in state:
        rows = weights[each.register.features]
        if not rows.any() or (each.is_exact and not each.is_written):
            continue
        if each.is_exact and each.is_labels:
            terms = terms + rows.any(axis=0)
            continue
        present = np.count_nonzero(rows, axis=0)
        terms, small = terms + present, small + present
        inexact |= ~np.all(is_power_of_two(rows), axis=0)
    return np.maximum(terms - 1, 0) + inexact, small


def rounding(state: State, weights: Array, machine: Machine, further: Up | None = None) -> Up:
    """How far a run may be from features times weights, (r,), where the features are as they are in the run.

    ``further`` (r,) bounds a summand beside the products.
    """
    more = Up.zeros(weights.shape[1]) if further is None else further
    counts, small = roundings(state, weights, more.values)
    factors = np.array([gamma(int(count), machine.roundoff) for count in counts])
    return (state.sizes(weights) + more) * Up.of(factors) + Up.of(small) * machine.underflow


def is_power_of_two(values: Array) -> npt.NDArray[np.bool_]:
    """Factors whose products are exact; zero is one of them."""
    return np.isin(np.abs(np.frexp(values)[0]), (0.0, 0.5))
