"""A network at points, all those of a table or one: its exact output, by balls, and how far the run may be from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from flint import arb

from attnforge.certification.checker.formula import FormulaOn
from attnforge.certification.checker.layers import run
from attnforge.certification.checker.questions import trees_of
from attnforge.certification.checker.search import Outcome, exactly
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, ZERO, Cell
from attnforge.certification.checker.values import Place
from attnforge.effort import time_is_up
from attnforge.errors import CertificateError
from attnforge.network import Network
from attnforge.outward import lower, machine, upper
from attnforge.targets import Formula, Formulas, ReluNetwork, Table

Exact = Callable[[Sequence[float]], Sequence[arb]]  # a target's values at a point

POINTS, LOOKED_AT = 64, 2  # random ones, at the worst of which a false bound may show
TOLD = 64  # points between two reports


def at_point(network: Network, dtype: str, point: Sequence[float], values: Sequence[arb]) -> Outcome:
    """The largest error of a token's outputs, from above (``reached``) and for certain (``seen``)."""
    found, at = Outcome(cells=1), tuple(point)
    with exactly(1):
        place = Place(Space(at, at), Cell(at, at, 1), machine(dtype))
        for output, value in zip(run(place, network, 1, 0.0)[0](), values, strict=True):
            apart = abs(output.model.at[0] - value)
            above, below = upper(apart) + output.off, lower(apart) - output.off
            found = found.and_(Outcome("confirmed", above, max(below, 0.0), at))
    return found


def attained(
    network: Network, target: ReluNetwork | Formula | Formulas, dtype: str, bound: float, exact: Exact
) -> Outcome:
    """The largest error that the run cannot fall below at random points of the domain, and where.

    Points are judged by float64 first; balls decide about the worst of them, if the bound is in question there.
    """
    low, high = np.atleast_2d(target.domain.lower), np.atleast_2d(target.domain.upper)
    if network.tokens not in (None, len(low)):
        got = f"{network.tokens}"
        raise CertificateError(f"The network must take the target's {len(low)} tokens", got, "Rebuild it")
    tokens = np.arange(-(-POINTS // len(low)) * len(low)) % len(low)  # points of every token's own box
    shares = np.random.default_rng(0).random((len(tokens), low.shape[1]))
    points = np.clip(low[tokens] * (1 - shares) + high[tokens] * shares, low[tokens], high[tokens])
    with np.errstate(all="ignore"):
        outputs = network(points.reshape(-1, network.tokens or 1, low.shape[1])).reshape(len(points), -1)
        apart = np.abs(outputs - target.values(points).reshape(outputs.shape)).max(axis=-1)
    order, found = np.argsort(np.where(np.isnan(apart), np.inf, apart))[::-1][:LOOKED_AT], Outcome()
    for point in points[order[~(apart[order] <= bound)]].tolist():
        with exactly(1):
            found = found.and_(at_point(network, dtype, point, exact(point)))
    return found


def formulas_at(target: Formula | Formulas, point: Sequence[float]) -> list[arb]:
    """The formulas at a point."""
    at = tuple(point)
    inputs = {name: Form({i: ONE}, ZERO) for i, name in enumerate(target.names)}
    return [FormulaOn(inputs, Space(at, at), Cell(at, at, 1))(tree).at[0] for tree in trees_of(target)]


def at_listed_points(
    network: Network, target: Table, dtype: str, cells: int, progress: Callable[[float], None]
) -> Outcome:
    """The largest error over the listed points, from above and for certain."""
    values = target.table_values.reshape(len(target.points), -1)
    if network.features != target.points.shape[1] or network.tokens not in (None, 1):
        got = f"{network.tokens} tokens of {network.features} features"
        raise CertificateError("The network must read the table's inputs", got, "Rebuild it")
    found = Outcome()
    for i, (point, row) in enumerate(zip(target.points.tolist(), values.tolist(), strict=True)):
        if i >= cells or time_is_up():
            return found.and_(Outcome("undecided"))
        found = found.and_(at_point(network, dtype, point, [arb(value) for value in row]))
        if i % TOLD == 0:
            progress(i / len(values))
    return found
