r"""Sums of terms of few inputs, and heads that read few inputs each: the error of every term, added up.

Heads and summands that share inputs, directly or through others, form a group. With $e_g$ the heads of a group less its
summands, and any constants $\kappa_g$,
$$ \Big|\sum_g e_g\Big| \le \sum_g \sup |e_g - \kappa_g| + \Big|\sum_g \kappa_g\Big| , $$
an equality where $\kappa_g$ is the middle of the range of $e_g$: about there it is taken. The run adds up the products
of all heads in one sum of N terms: beside what every group's run does, $\gamma_N$ of their absolute values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.balls import gamma, machine, upper
from attnforge.certification.checker.formula import FormulaOn
from attnforge.certification.checker.layers import linear
from attnforge.certification.checker.listed import attained
from attnforge.certification.checker.questions import BeyondReachError, questions
from attnforge.certification.checker.rounding import SLACK
from attnforge.certification.checker.search import Outcome, Question, Verdict, exactly, largest
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, ZERO, Cell
from attnforge.certification.checker.values import Place, between
from attnforge.network import Attention, Head, Linear, Network, Term
from attnforge.targets import Box, Formula
from attnforge.targets.expression.evaluate import evaluate
from attnforge.targets.expression.simplify import plus
from attnforge.targets.expression.tree import Constant, Node, variables
from attnforge.targets.structure.summands import summands

Array = npt.NDArray[np.float64]

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
    """Whether the run stays within the bound: first at some points, for a witness, then group by group."""
    before, last = _layers(network)
    groups = list(_groups(before, last, target))
    if not groups or not _stay_finite(before, target, dtype):
        raise BeyondReachError(f"Heads read inputs, by features that fit {dtype}", "none, or larger ones")
    looked = attained(network, target, dtype, bound, partial(_value, target))
    if looked.seen > bound:
        return replace(looked, verdict="refuted", reached=0.0)
    total, middles, count = arb(_lost(last, dtype)), arb(0), 0
    for done, group in enumerate(groups):
        middle, question = _question(group, before, target, bound, dtype)
        found = largest(question, bound / 256 / len(groups), (cells - count) // (len(groups) - done))
        total, middles, count = total + found.reached, middles + middle, count + found.cells
        progress((done + 1) / len(groups))
    reached = upper(total + abs(middles))
    verdict: Verdict = "confirmed" if reached <= bound else "undecided"
    return Outcome(verdict, reached, looked.seen, looked.at, looked.cells + count)


def _layers(network: Network) -> tuple[tuple[Linear, ...], Attention]:
    """Linear maps of features, then heads over constant keys, and nothing else."""
    *before, last = network.layers
    maps = [isinstance(each, Linear) and _map(each) is not None for each in before]
    if not isinstance(last, Attention) or not maps or not all(maps) or last.residual or network.context is not None:
        raise BeyondReachError("Sums of many inputs are checked where heads follow linear maps", "other layers")
    if any(head.key_rows is not None or head.memory_values is None for head in last.heads):
        raise BeyondReachError("Sums of many inputs are checked where heads have constant keys", "other keys")
    return tuple(each for each in before if isinstance(each, Linear)), last


def _map(layer: Linear) -> Array | None:
    """The matrix of a layer that is one map of features."""
    match layer.terms:
        case (Term(map=np.ndarray() as weight, mix=None),) if weight.ndim == 2:
            return weight
    return None


def _groups(before: tuple[Linear, ...], last: Attention, target: Formula) -> Iterator[_Group]:
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


def _reads(before: tuple[Linear, ...], head: Head) -> set[int]:
    """The inputs that reach a head's scores through weights other than zero."""
    reached = np.any(head.query != 0, axis=1)
    for layer in reversed(before):
        weight = _map(layer)
        assert weight is not None
        reached = np.any((weight != 0) & reached, axis=1)
    return set(np.flatnonzero(reached).tolist())


def _question(
    group: _Group, before: tuple[Linear, ...], target: Formula, bound: float, dtype: str
) -> tuple[float, Question]:
    """About the middle of the range of the group's error, and the question how far it is from there."""
    rows, first = list(group.inputs), _map(before[0])
    if not group.heads or first is None:
        raise BeyondReachError("Every summand has a head that reads its inputs", "one without")
    lifted = replace(before[0], terms=(Term(first[rows]),))
    network = Network((lifted, *before[1:], Attention(group.heads)), len(rows), 1)
    names, box = tuple(target.names[i] for i in rows), Box(target.domain.lower[rows], target.domain.upper[rows])
    points = box.lower + (box.upper - box.lower) * np.random.default_rng(0).random((POINTS, len(rows)))
    with np.errstate(all="ignore"):
        values = evaluate(group.tree, dict(zip(names, points.T, strict=True)))
        errors = network(points[:, None])[:, 0, 0] - values
    middle = float(errors.min() / 2 + errors.max() / 2)
    middle = middle if math.isfinite(middle) else 0.0
    (question,) = questions(network, Formula(plus(group.tree, Constant(middle)), box, names), bound, dtype)
    return middle, question


def _stay_finite(before: tuple[Linear, ...], target: Formula, dtype: str) -> bool:
    """Whether no feature overflows: then those of other groups, times zero, are zero."""
    with exactly(0):
        place = Place(Space((), ()), Cell((), (), 0), machine(dtype))
        row = [between(place, a, b) for a, b in zip(target.domain.lower, target.domain.upper, strict=True)]
        rows = [lambda: row]
        for layer in before:
            rows = linear(place, layer, rows)
        return all(value.off < math.inf for value in rows[0]())


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


def _value(target: Formula, point: Sequence[float]) -> list[arb]:
    """The formula at a point."""
    at = tuple(point)
    inputs = {name: Form({i: ONE}, ZERO) for i, name in enumerate(target.names)}
    return [FormulaOn(inputs, Space(at, at), Cell(at, at, 1))(target.tree).at[0]]
