r"""Sums of terms of few inputs, and heads that read few inputs each: the error of every term, added up.

Heads and summands that share inputs, directly or through others, form a group. With $e_g$ the heads of a group less its
summands, and any constants $\kappa_g$,
$$ \Big|\sum_g e_g\Big| \le \sum_g \sup |e_g - \kappa_g| + \Big|\sum_g \kappa_g\Big| , $$
an equality where $\kappa_g$ is the middle of the range of $e_g$: about there it is taken. The run adds up the products
of all heads in one sum of N terms: beside what every group's run does, $\gamma_N$ of their absolute values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.certification.checker.layers import one_map
from attnforge.certification.checker.questions import BeyondReachError, questions
from attnforge.certification.checker.rounding import SLACK
from attnforge.certification.checker.search import Outcome, Question, Verdict, exactly, largest
from attnforge.certification.checker.values import anywhere, between, combine
from attnforge.expression.evaluate import evaluate
from attnforge.expression.simplify import plus
from attnforge.expression.tree import Constant, Node, variables
from attnforge.network import Attention, Head, Linear, Network, Term
from attnforge.outward import gamma, machine, upper
from attnforge.targets import Box, Formula
from attnforge.targets.structure.summands import summands

Array = npt.NDArray[np.float64]
Maps = list[tuple[Array, Array]]  # matrices and constants

POINTS = 512  # at which the range of a group's error is measured, to place it around zero


@dataclass(frozen=True, eq=False)
class _Group:
    """Inputs, the heads that read them, and their summands."""

    inputs: tuple[int, ...]
    heads: tuple[Head, ...]
    tree: Node


def compare_sums(
    network: Network, target: Formula, bound: float, dtype: str, cells: int, progress: Callable[[float], None]
) -> Outcome:
    """Whether the run stays within the bound, group by group."""
    before, last = _layers(network)
    groups = list(_groups(before, last, target))
    if not groups or not _stay_finite(before, target, dtype):
        raise BeyondReachError(f"Heads read inputs, by features that fit {dtype}", "none, or larger ones")
    total, middles, count = arb(_lost(last, dtype)), arb(0), 0
    for done, group in enumerate(groups):
        middle, question = _question(group, before, target, bound, dtype)
        found = largest(question, bound / 256 / len(groups), (cells - count) // (len(groups) - done))
        total, middles, count = total + found.reached, middles + middle, count + found.cells
        progress((done + 1) / len(groups))
    reached = upper(total + abs(middles))
    verdict: Verdict = "confirmed" if reached <= bound else "undecided"
    return Outcome(verdict, reached, cells=count)


def _layers(network: Network) -> tuple[Maps, Attention]:
    """Linear maps of features, then heads over constant keys, and nothing else."""
    *before, last = network.layers
    maps = [affine for each in before if (affine := one_map(each)) is not None]
    plain = 0 < len(maps) == len(before) and network.context is None
    if not plain or not isinstance(last, Attention) or last.residual:
        raise BeyondReachError("Sums of many inputs are checked where heads follow linear maps", "other layers")
    if any(head.key_rows is not None or head.memory_values is None for head in last.heads):
        raise BeyondReachError("Sums of many inputs are checked where heads have constant keys", "other keys")
    return maps, last


def _groups(before: Maps, last: Attention, target: Formula) -> Iterator[_Group]:
    parts = summands(target.tree)
    needs = [{target.names.index(name) for name in variables(part)} for part in parts]
    reads = [_reads(before, head) for head in last.heads]
    found: list[set[int]] = []
    for inputs in (*needs, *reads):
        joined = inputs.union(*(each for each in found if each & inputs))
        found = [each for each in found if not each & inputs] + ([joined] if joined else [])
    for i, inputs in enumerate(found):  # constants go to the first
        heads = (head for head, own in zip(last.heads, reads, strict=True) if own & inputs or not (own or i))
        trees = (part for part, own in zip(parts, needs, strict=True) if own & inputs or not (own or i))
        yield _Group(tuple(sorted(inputs)), tuple(heads), plus(*trees, Constant(0.0)))


def _reads(before: Maps, head: Head) -> set[int]:
    """The inputs that reach a head's scores through weights other than zero."""
    reached = np.any(head.query != 0, axis=1)
    for weight, _ in reversed(before):
        reached = np.any((weight != 0) & reached, axis=1)
    return set(np.flatnonzero(reached).tolist())


def _question(group: _Group, before: Maps, target: Formula, bound: float, dtype: str) -> tuple[float, Question]:
    """About the middle of the range of the group's error, and the question how far it is from there."""
    rows = list(group.inputs)
    if not group.heads:
        raise BeyondReachError("Every summand has a head that reads its inputs", "one without")
    (first, shift), *others = before
    layers = [Linear((Term(weight),), constant[None]) for weight, constant in ((first[rows], shift), *others)]
    network = Network((*layers, Attention(group.heads)), len(rows), 1)
    names, box = tuple(target.names[i] for i in rows), Box(target.domain.lower[rows], target.domain.upper[rows])
    points = box.lower + (box.upper - box.lower) * np.random.default_rng(0).random((POINTS, len(rows)))
    with np.errstate(all="ignore"):
        values = evaluate(group.tree, dict(zip(names, points.T, strict=True)))
        errors = network(points[:, None])[:, 0, 0] - values
    middle = float(errors.min() / 2 + errors.max() / 2)
    middle = middle if math.isfinite(middle) else 0.0
    (question,) = questions(network, Formula(plus(group.tree, Constant(middle)), box, names), bound, dtype)
    return middle, question


def _stay_finite(before: Maps, target: Formula, dtype: str) -> bool:
    """Whether no feature overflows: then those of other groups, times zero, are zero."""
    with exactly(0):
        place = anywhere(machine(dtype))
        row = [between(place, a, b) for a, b in zip(target.domain.lower, target.domain.upper, strict=True)]
        for weight, shift in before:
            row = [combine(place, row, *each) for each in zip(weight.T.tolist(), shift.tolist(), strict=True)]
        return all(value.off < math.inf for value in row)


def _lost(last: Attention, dtype: str) -> float:
    """What the dtype makes of the sum of all heads' products: a mean as it runs is at most twice the largest value."""
    model, mass = machine(dtype), 0.0
    for head in last.heads:
        values = np.abs(np.asarray(head.memory_values))
        if not len(values) * model.accumulation < 2.0**-4:
            return math.inf
        mass += float(((2 * values.max(axis=0) + 8 * len(values) * model.underflow) @ np.abs(head.output)).max())
    count = sum(len(head.output) for head in last.heads)
    lost = gamma(count, model.roundoff) * mass * SLACK + 2 * count * model.underflow
    return lost if mass * SLACK < model.largest else math.inf
