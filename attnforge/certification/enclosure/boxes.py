"""Proved bounds of |run - formula| on boxes of one's own choice, for those who search for the worst point.

A box whose bound does not exceed an error already found holds no larger one, and need not be searched.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from attnforge.certification.enclosure.affine_heads import read_heads
from attnforge.certification.enclosure.factors import factor_head
from attnforge.certification.enclosure.fitted import is_enclosed
from attnforge.certification.enclosure.run import MemoryRun, evenly, rounding
from attnforge.certification.enclosure.several_inputs import ErrorOnBoxes
from attnforge.effort import check_time
from attnforge.errors import CertificateError, RefusalError
from attnforge.network import Network, check_architecture, rounded
from attnforge.outward import Up, machine
from attnforge.targets import Box, Formula, Target

Array = npt.NDArray[np.float64]
Bounds = Callable[[Array, Array], Array]

PAIR = 2e-7  # seconds that a look at a cell and a key takes, about
CELLS = 256  # at first, on which rounding is bounded; those that matter are cut there


def bounds_on_boxes(
    network: Network, target: Target, domain: Box, dtype: str = "float64", enough: float = 0.0
) -> Bounds | None:
    r"""A function from C boxes, (C, D) lower and (C, D) upper ends, to bounds (C,) of |run - formula| on each.

    It covers one layer of heads over constant keys with one output and formulas of up to four inputs, whatever the
    network claims to be; None for anything else. A bound is the supremum of the error in exact arithmetic (Taylor
    models, Bernstein coefficients, :mod:`.several_inputs`) plus the most that rounding in ``dtype`` adds anywhere on
    the domain (:mod:`.run`), which is not told more closely than ``enough``; infinity where the box is too large. Also
    None where time does not suffice to bound the rounding.

    >>> import attnforge as af
    >>> net = af.compile("x^2", {"x": (-1, 1)}, 1e-3)
    >>> bounds = bounds_on_boxes(net.network, net.target, net.domain)
    >>> halves = bounds(np.array([[0.5], [0.75]]), np.array([[0.5625], [0.8125]]))
    >>> halves.shape, bool((halves <= 1e-2).all())
    ((2,), True)
    """
    if not isinstance(target, Formula) or not is_enclosed(target) or network.features != domain.lower.size:
        return None
    try:
        run = rounded(network, dtype)
        encode, heads = read_heads(run)
        if check_architecture(run) != 1:
            return None
        factors = tuple(factor_head(encode, head, network.features) for head in heads)
        cells, keys = evenly(domain.lower, domain.upper, CELLS), sum(head.memory_size for head in heads)
        check_time("bounding roundings", PAIR * CELLS * keys)
        with np.errstate(over="ignore", invalid="ignore"):
            added = rounding(MemoryRun(encode, heads, machine(dtype)), *cells, enough)
    except (CertificateError, RefusalError):  # another architecture, numbers that do not fit the dtype, or no time
        return None
    error = ErrorOnBoxes(factors, target.tree, target.names, domain.upper - domain.lower)

    def bounds(lower: Array, upper: Array) -> Array:
        return (Up.of(error.on(lower, upper).bound) + added).values

    return bounds
