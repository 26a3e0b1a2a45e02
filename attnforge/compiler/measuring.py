"""The public ``measure`` and ``attack``: the largest error that can be found, by running the compiled network."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from attnforge.certification.enclosure.boxes import bounds_on_boxes
from attnforge.compiler.budget import budget
from attnforge.compiler.runnable import Runnable, check_runnable
from attnforge.compiler.targets import compared_with
from attnforge.effort import Effort, until
from attnforge.errors import DomainError, TargetError
from attnforge.measurement import Attack, Measurement, search
from attnforge.measurement import attack as hunt
from attnforge.measurement.attack import check_end
from attnforge.measurement.search import root_mean_square
from attnforge.progress import Progress
from attnforge.targets import Target
from attnforge.targets.table import Table

if TYPE_CHECKING:
    from attnforge.compiler.compiled import Compiled

LOOKED = 25  # times the points of an effort: the estimate beside a proof is a quick one, this is not
CHUNK = 20_000  # listed points evaluated at a time
SECONDS = 20.0  # of an attack
BOUNDING = 0.25  # of the seconds of an attack, for what rounding may add anywhere
SLIGHT = 0.01  # of the error: rounding below this is not told more closely on the boxes of an attack


def measure(
    compiled: Compiled,
    target: Any = None,
    points: int | None = None,
    *,
    seed: int = 0,
    seconds: float | None = None,
    brief: bool = False,
    effort: str | Effort | None = None,
    timeout: float | None = None,
    progress: Progress = False,
) -> Measurement:
    """The largest |net(x) - f(x)| found on random points, risky places and by climbing: a lower bound of the error.

    A table is compared at all its listed points, and nowhere else: there the error is the largest there is.

    Args:
        compiled: what to run, in its own dtype.
        target: what to compare with; its own target by default.
        points: how many random points, 100,000 unless the effort says otherwise; tables have their own.
        seed: of the random points.
        seconds: about how long the target may be evaluated; fewer points are looked at where it is slow.
        brief: of sequences, evaluate about as many tokens as points of a function, and so fewer sequences.
        effort: ``"low"``, ``"normal"``, ``"high"`` or an ``af.Effort``: how many points, and how long to climb.
        timeout: seconds; fewer points are looked at where they would take longer.
        progress: True shows how far it is; a callable is told (fraction, text).
    """
    check_runnable("measure", compiled)
    against = _points_of(compared_with(compiled.target, target))
    with budget(effort, timeout, progress=progress) as given:
        used, report = given.effort, given.watch.step("measuring")
        if points is None:
            points = LOOKED * used.points
        limit = math.inf if seconds is None else seconds
        return largest_error(compiled, against, used, points, seed=seed, seconds=limit, brief=brief, progress=report)


def _points_of(target: Target) -> Target:
    """The target, unless it takes examples: these are no points of a box."""
    if target.layout == "prompt":
        remedy = f"Compare {target.call} with net.target, the {target.exact}; {target.certify} bounds the difference"
        raise TargetError("Errors are looked for among points of a box", target.describe(), remedy)
    return target


def largest_error(
    compiled: Runnable,
    against: Target,
    effort: Effort,
    points: int | None = None,
    *,
    seed: int = 0,
    seconds: float = math.inf,
    brief: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Measurement:
    """The largest error found with an effort; ``points`` and ``seconds`` as for :func:`measure`."""
    if isinstance(against, Table):
        return _at_listed_points(compiled, against, progress)
    many = effort.points if points is None else points
    run, network = compiled.at_points, compiled.network
    limits: dict[str, Any] = {"points": many, "seconds": seconds, "brief": brief, "effort": effort}
    return search(run, against, network, seed=seed, progress=progress, **limits)


def attack(
    compiled: Compiled,
    target: Any = None,
    *,
    seconds: float | None = SECONDS,
    evaluations: int | None = None,
    seed: int = 0,
    effort: str | Effort | None = None,
    progress: Progress = False,
) -> Attack:
    """Try to beat the bound: search as :func:`measure` does, then climb the error by its gradient from many starts.

    The error that counts is that of the network as it runs, in its dtype. For one layer of heads over constant keys and
    a formula of up to four inputs, proved bounds on boxes tell where no larger error can be: these parts of the domain
    are left out, and the result says how large they are and how large an error the rest may hold. It ends early
    where that is no larger than the error found.

    Args:
        compiled: what to run, in its own dtype.
        target: what to compare with; its own target by default.
        seconds: about how long; None: no limit, then `evaluations` is needed.
        evaluations: at most so many; without a limit of seconds, the same seed then finds the same point.
        seed: of all that is random.
        effort: ``"low"``, ``"normal"``, ``"high"`` or an ``af.Effort``: of the search at the beginning.
        progress: True shows how much of the budget is spent; a callable is told (fraction, text).

    >>> import attnforge as af
    >>> net = af.compile("sin(3*x)", {"x": (-1, 1)}, tol=1e-4)
    >>> found = attack(net, seconds=None, evaluations=2000)
    >>> found.error <= net.certificate.bound, found.evaluations <= 2000
    (True, True)
    """
    check_runnable("attack", compiled)
    against = _points_of(compared_with(compiled.target, target))
    if isinstance(against, Table):
        remedy = "Use measure, which compares at all of them"
        raise TargetError("An attack needs a domain to move in", "a table, known at its listed points only", remedy)
    check_end(seconds, evaluations)
    seen = compiled.certificate.estimate
    enough = SLIGHT * seen.error if seen is not None else 0.0
    with budget(effort, seconds, progress=progress) as given:
        with until(None if seconds is None else BOUNDING * seconds):
            bounds = bounds_on_boxes(compiled.network, against, against.domain, compiled.dtype, enough)
        return hunt(
            compiled.at_points,
            against,
            compiled.network,
            dtype=compiled.dtype,
            bounds=bounds,
            seconds=seconds,
            evaluations=evaluations,
            effort=given.effort,
            seed=seed,
            progress=given.watch.step("attacking"),
        )


def _at_listed_points(compiled: Runnable, table: Table, progress: Callable[[float], None] | None) -> Measurement:
    """The error at every listed point: the largest over the outputs, where it is, and the root mean square."""
    if table.domain.shape != compiled.domain.shape:
        got = f"points of shape {table.domain.shape}"
        raise DomainError(f"The network takes points of shape {compiled.domain.shape}", got, "Choose a fitting table")
    errors = np.empty(len(table.points))
    for i in range(0, len(errors), CHUNK):
        wanted = table.table_values[i : i + CHUNK]
        missed = np.abs(compiled.at_points(table.points[i : i + CHUNK]).reshape(wanted.shape) - wanted)
        errors[i : i + CHUNK] = missed.reshape(len(wanted), -1).max(axis=1)
        if progress:
            progress(min(1.0, (i + CHUNK) / len(errors)))
    worst = int(errors.argmax())
    return Measurement(float(errors[worst]), table.points[worst], root_mean_square(errors), len(errors))
