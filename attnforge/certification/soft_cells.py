r"""A soft head over the cells of a product grid against a formula: its error by enclosure, and what rounding adds.

Scores $c\sum_a (2 u_a\kappa_a - \kappa_a^2)$ are sums over the axes, so weights are products, and jets on boxes
(:mod:`.enclosure.several_inputs`) are cheap, if the keys show it: their column of $|\kappa|^2$ mixes all axes. Here it
is replaced by one column an axis, with the same query. In exact arithmetic the head stays the same, because only exact
sums are taken apart: columns that meet the same query are added up, and a column is split only if it is, number for
number, a sum of functions of one axis each. Rounding is that of the head as it runs, on a coarse division of the box.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from attnforge.balls import Machine
from attnforge.certification.enclosure.affine_heads import read_heads
from attnforge.certification.enclosure.run import MemoryRun, evenly, rounding
from attnforge.certification.enclosure.several_inputs import supremum_box
from attnforge.effort import NORMAL, Effort
from attnforge.errors import CertificateError
from attnforge.network import Attention, Head, Network
from attnforge.targets import Box, Formula

Array = npt.NDArray[np.float64]

SHARE = {1: 1.0, 2: 1.0, 3: 0.8, 4: 0.25}  # of the boxes of a proof, by inputs: up to three quarters of a minute
MOST_KEYS = {1: 2000, 2: 4000, 3: 6000, 4: 7000}  # more are cells that so many boxes cannot tell apart


def is_soft_provable(network: Network, inputs: int) -> bool:
    """Whether the network is one head over a product grid small enough for its bumps to be looked at."""
    if len(network.heads) != 1 or network.tokens != 1 or network.context_layers or inputs not in MOST_KEYS:
        return False
    head = network.heads[0]
    return head.key_rows is None and 0 < head.memory_size <= MOST_KEYS[inputs] and separated(head, inputs) is not None


def bound_soft_cells(
    network: Network, target: Formula, domain: Box, machine: Machine, effort: Effort = NORMAL
) -> dict[str, float]:
    """``fit``: the supremum of |head - formula| in exact arithmetic; ``rounding``: what the run adds."""
    encode, (head,) = read_heads(network)
    apart = separated(head, len(target.names))
    if apart is None or head.output.shape != (1, 1):
        raise CertificateError("Keys are a product grid, each with one value", "other keys", "Rebuild the network")
    exact = replace(network, layers=(*encode, Attention((apart,))))
    lower, upper = domain.lower, domain.upper
    boxes = math.ceil(SHARE[lower.size] * effort.boxes)
    found = supremum_box(exact, target.tree, target.names, lower, upper, cells=boxes, workers=effort.processes)
    run = MemoryRun(encode, (head,), machine)
    return {"fit": found.bound, "rounding": rounding(run, *evenly(lower, upper), 0.01 * found.bound)}


def separated(head: Head, inputs: int) -> Head | None:
    """The same head with keys whose columns each follow one axis; None where its numbers do not allow it.

    >>> keys = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [2.0, 0.0, 4.0], [2.0, 1.0, 5.0]])
    >>> head = Head(np.eye(3), np.eye(1), memory_keys=keys, memory_values=np.ones((4, 1)))
    >>> separated(head, 2).memory_keys[:, 2:].T.tolist()
    [[0.0, 0.0, 4.0, 4.0], [0.0, 1.0, 0.0, 1.0]]
    """
    gathered = _gathered(head)
    if gathered is None:
        return None
    query, keys = gathered
    places = [np.unique(column, return_inverse=True)[1].ravel() for column in keys[:, :inputs].T]
    sizes = tuple(int(place.max()) + 1 for place in places)
    if len(places) < inputs or math.prod(sizes) != len(keys):
        return None
    order = np.ravel_multi_index(tuple(places), sizes)
    if len(np.unique(order)) != len(keys):
        return None
    queries, columns = [query[:, :inputs]], [keys[:, :inputs]]
    for feature in range(inputs, keys.shape[1]):
        table = np.empty(len(keys))
        table[order] = keys[:, feature]
        parts = _additive(table.reshape(sizes))
        if parts is None:
            return None
        columns.append(np.column_stack([part[place] for part, place in zip(parts, places, strict=True)]))
        queries.append(np.repeat(query[:, feature : feature + 1], inputs, axis=1))
    return replace(head, query=np.hstack(queries), memory_keys=np.hstack(columns), claims=None)


def _gathered(head: Head) -> tuple[Array, Array] | None:
    """Query and keys with columns of equal queries added up; None where a sum would round."""
    keys = np.asarray(head.memory_keys)
    query, first, group = np.unique(head.query, axis=1, return_index=True, return_inverse=True)
    found = []
    for number in np.argsort(first):
        total = reduce(_exact_sum, keys[:, group.ravel() == number].T)
        if np.any(np.isnan(total)):
            return None
        found.append(total)
    return query[:, np.argsort(first)], np.column_stack(found)


def _additive(table: Array) -> list[Array] | None:
    """Functions of one axis each whose sum the table is, exactly; None if it is no such sum."""
    corner = table.ravel()[0]
    parts = []
    for axis in range(table.ndim):
        along = np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1)[:, 0]
        parts.append(along if axis == 0 else _exact_sum(along, np.full_like(along, -corner)))
    shaped = [part.reshape([-1 if i == axis else 1 for i in range(table.ndim)]) for axis, part in enumerate(parts)]
    return parts if np.array_equal(reduce(_exact_sum, shaped), table) else None


def _exact_sum(a: Array, b: Array) -> Array:
    """The sum where float64 holds it (Knuth's test), else NaN."""
    total = a + b
    back = total - a
    lost = (a - (total - back)) + (b - back)
    return np.where(lost == 0.0, total, np.nan)
