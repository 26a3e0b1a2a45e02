"""A network against a table: at every listed point its exact output, by balls, and how far the run may be from it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from flint import arb

from attnforge.balls import lower, machine, upper
from attnforge.certification.checker.layers import run
from attnforge.certification.checker.search import Outcome, exactly
from attnforge.certification.checker.space import Space
from attnforge.certification.checker.taylor import Cell
from attnforge.certification.checker.values import Place
from attnforge.effort import time_is_up
from attnforge.errors import CertificateError
from attnforge.network import Network
from attnforge.targets import Table

TOLD = 64  # points between two reports


def at_listed_points(
    network: Network, target: Table, dtype: str, cells: int, progress: Callable[[float], None]
) -> Outcome:
    """The largest error over the listed points, from above (``reached``) and for certain (``seen``)."""
    values = target.table_values.reshape(len(target.points), -1)
    if network.features != target.points.shape[1] or network.tokens not in (None, 1):
        got = f"{network.tokens} tokens of {network.features} features"
        raise CertificateError("The network must read the table's inputs", got, "Rebuild it")
    found = Outcome()
    with exactly(1), np.errstate(all="ignore"):
        space = Space(target.domain.lower.tolist(), target.domain.upper.tolist())
        for i, (point, row) in enumerate(zip(target.points.tolist(), values.tolist(), strict=True)):
            if i >= cells or time_is_up():
                return found.and_(Outcome("undecided"))
            place = Place(space, Cell(tuple(point), tuple(point), 1), machine(dtype))
            outputs = run(place, network, 1, 0.0)[0]()
            for output, value in zip(outputs, row, strict=True):
                apart = abs(output.model.at[0] - arb(value))
                above, below = upper(apart) + output.off, lower(apart) - output.off
                found = found.and_(Outcome("confirmed", above, max(below, 0.0), tuple(point), 0))
            found = found.and_(Outcome(cells=1))
            if i % TOLD == 0:
                progress(i / len(values))
    return found
