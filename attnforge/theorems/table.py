r"""One head through a table of points and values.

On a product grid of data the head holds a product grid of anchors, and its values are fitted axis by axis
(:mod:`attnforge.anchors.table_fit`): the data are met, and between them the output follows their cubic spline.
Scattered points choose anchors among themselves (:mod:`attnforge.anchors.scattered`), with the scores
$$ 2\beta\,u \cdot c_k - \beta|c_k|^2, \qquad u = (x - \mathrm{middle})/\mathrm{half} , $$
which differ from $-\beta|u - c_k|^2$ by a constant in k, and softmax does not see constants. Keys are $(c_k ; |c_k|^2)$
and queries $(2\beta u ; -\beta)$. Noisy points need not be met: their values are those of a ridge regression
(:mod:`attnforge.anchors.smoothing`).

A table says nothing between its points, so nothing is stated there: the error at the listed points is all. Functions
and formulas, where this construction is asked for by name, are listed on a grid, which is made finer until the head is
within the tolerance at fresh points too; the certificate is then about the function.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.anchors.cells import product
from attnforge.anchors.fresh_points import fresh
from attnforge.anchors.scattered import ScatteredFit, fit_scattered
from attnforge.anchors.smoothing import SmoothedFit, fit_smoothed
from attnforge.anchors.table_fit import TableFit, fit_table
from attnforge.effort import check_time
from attnforge.errors import RefusalError, ToleranceError
from attnforge.network import Attention, Claims, Head, Linear, Network, Term
from attnforge.network.apply import CHUNK, count_pairs
from attnforge.outward import machine, round_to
from attnforge.targets import Box, Target, TruncatedLinear
from attnforge.targets.table import Grid, Table
from attnforge.theorems.construction import Construction, Cost, Documentation, Law
from attnforge.theorems.max_affine import flat_values
from attnforge.theorems.tensor_grid import refuse_unless_function
from attnforge.theorems.tensor_heads import FittedPlan, TensorHead, heads_cost, heads_network

Array = npt.NDArray[np.float64]

MOST_INPUTS = 8  # of a function, which is sampled on a grid
LAVISH, MANY = 20, 100_000  # anchors a point, and in all, beyond which a grid is no good idea: many short axes
GEOMETRIC = 1.25  # the ratio of two falls of log(error) is 2 if they are geometric, 1 if the error falls like a power
COARSEST, FINEST, SAMPLES = 9, 1025, 2**18  # samples an axis, doubled from the first to the second, and in all
FRESH = 4000  # points at which a head through samples is judged


@dataclass(frozen=True, eq=False)
class TablePlan(FittedPlan):
    """A head on a grid, or one over scattered anchors."""

    scattered: ScatteredFit | None = None


def _sampled_sine() -> Table:
    """sin(3x) at 33 points."""
    x = np.linspace(0.0, 1.0, 33)
    return Table(x, np.sin(3 * x))


class TableHead(Construction[TablePlan]):
    """One head over anchors on the grid of the data, or among scattered points."""

    name = "table"
    function_class = "tables of points and values; by name a function's samples, of up to eight inputs"
    rate = "geometric for smooth data; as many anchors as data for rough ones"
    conditions = "at the listed points, of which nothing is stated in between"
    reference = "approximate approximations, after Maz'ya and Schmidt"
    documentation = Documentation(
        theorem="ours",
        hypotheses="listed points and values; by name, a function, listed on a grid",
        bound="none: the largest error at the listed points; of a function, an enclosure",
        heads="1",
        keys="product of p_a, or the chosen points",
        width="d + 1",
        example="af.compile(([k / 20 for k in range(21)], [(k / 20) ** 0.5 for k in range(21)]), tol=1e-3)",
    )
    law = Law(
        target=_sampled_sine,
        refused=lambda: TruncatedLinear([1.0], 0.0, -1, 1, Box(-2, 2)),
        tols=(1e-2, 1e-6),
        order=math.inf,
    )

    def accepts(self, target: Target) -> str | None:
        """Tables; functions and formulas of up to eight inputs, which are sampled."""
        return None if isinstance(target, Table) else refuse_unless_function(target, MOST_INPUTS)

    def offers(self, target: Target) -> str | None:
        """Tables: a function is better fitted where the fit chooses its own points."""
        return self.accepts(target) if isinstance(target, Table) else "the target is not a table"

    def size(self, target: Target, tol: float, dtype: str) -> TablePlan:
        """Fit: the fewest anchors found whose error at the listed points is at most tol."""
        if not isinstance(target, Table):
            return _sampled_plan(target, tol, dtype)
        if target.grid is not None:
            return _grid_plan(target, target.grid, tol, dtype)
        return _scattered_plan(target, tol, dtype, machine(dtype).roundoff)

    def smoothed(
        self,
        table: Table,
        weights: Array,
        *,
        anchors: int | None,
        alpha: float | None,
        sharpness: float | None,
        dtype: str,
    ) -> TablePlan:
        """Values by ridge regression with weights of the points, not to be met: see :mod:`attnforge.anchors.smoothing`.

        What is None is chosen by leaving points out, one at a time.
        """
        values, roundoff = table.table_values.reshape(len(table.points), -1), machine(dtype).roundoff
        asked: dict[str, Any] = {"anchors": anchors, "alpha": alpha, "sharpness": sharpness, "roundoff": roundoff}
        fit = fit_smoothed(table.points, values, weights, **asked)
        return TablePlan((), _explain_smoothed(fit, len(table.points)), dtype, scattered=fit.head)

    def cost(self, target: Target, plan: TablePlan) -> Cost:
        """Keys and values of every anchor."""
        inputs = target.domain.shape[0]
        if plan.scattered is None:
            return heads_cost(plan.heads, inputs)
        anchors, outputs = plan.scattered.values.shape
        return Cost.of(anchors, anchors * (inputs + 2 + outputs) + (inputs + 1) * (2 * inputs + 3) + outputs**2)

    def build(self, target: Target, plan: TablePlan) -> Network:
        """The weights."""
        inputs = target.domain.shape[0]
        if plan.scattered is None:
            return heads_network(plan.heads, inputs, self.name, plan.dtype)
        encode = Linear((Term(np.eye(inputs, inputs + 1)),), np.eye(1, inputs + 1, inputs))
        head = _scattered_head(plan.scattered, self.name, plan.dtype)
        return Network((encode, Attention((head,))), inputs, 1, construction=self.name)

    def bound(self, target: Target, plan: TablePlan) -> dict[str, float]:
        """Nothing is known beyond the listed points."""
        return {"fit": math.inf}


def _sampled_plan(target: Target, tol: float, dtype: str) -> TablePlan:
    """Half of tol for the fit to the samples; twice as many of them an axis until the other half covers the rest."""
    box, values = target.domain, flat_values(target)
    points = fresh(box.lower, box.upper, FRESH, 0)
    wanted, count, seen = values(points), COARSEST, list[float]()
    while count <= FINEST and count ** len(box.lower) <= SAMPLES and not _in_vain(seen, count, tol):
        axes = [np.linspace(a, b, count) for a, b in zip(box.lower, box.upper, strict=True)]
        samples = Grid(tuple(axes), values(product(axes)).reshape(*(len(axis) for axis in axes), -1))
        fit = fit_table(axes, samples.values, tol / 2, machine(dtype).roundoff)
        plan = TablePlan((TensorHead.on_inputs(fit.axes, fit.values),), _explain_grid(fit, samples), dtype)
        network = heads_network(plan.heads, len(axes), TableHead.name, dtype)
        seen.append(_missed(network, points, wanted))
        if seen[-1] <= tol:
            return plan
        count = 2 * count - 1
    requirement = f"A head through samples of {target.describe()} must be within tol={tol:g} between them"
    got = f"{seen[-1]:.3g} with {(count + 1) // 2} samples an axis"
    raise ToleranceError(requirement, got, "Ask for a larger tol, or use tensor_grid, which chooses its own points")


def _missed(network: Network, points: Array, wanted: Array) -> float:
    """The largest error at points, while there is time: chunks of them are what a run would hold at once."""
    step, largest = max(1, CHUNK // count_pairs(network, 1, 0)), 0.0
    for i in range(0, len(points), step):
        check_time("judging samples")
        found = network(points[i : i + step, None])[:, 0]
        largest = max(largest, float(np.abs(found - wanted[i : i + step]).max()))
    return largest


def _in_vain(seen: Sequence[float], count: int, tol: float) -> bool:
    """Whether errors that fall like a power of the samples, as at a kink, will not reach tol by the finest.

    With each doubling the logarithm of their ratio doubles where they fall geometrically, and stays where they do not.
    """
    if len(seen) < 3:
        return False
    first, second, third = (math.log(error) for error in seen[-3:])
    doublings = 1 + math.floor(math.log2((FINEST - 1) / (count - 1)))
    geometric = third - second < GEOMETRIC * min(0.0, second - first)
    return not geometric and third + doublings * (third - second) > math.log(tol)


def _grid_plan(table: Table, grid: Grid, tol: float, dtype: str) -> TablePlan:
    """On the grid of the data; scattered where many short axes would need far more anchors than there are points."""
    roundoff, inputs = machine(dtype).roundoff, len(grid.axes)
    try:
        fit = fit_table(grid.axes, grid.values, tol, roundoff)
    except RefusalError:
        if inputs == 1:
            raise
        return _scattered_plan(table, tol, dtype, roundoff)
    if fit.anchors > max(MANY, LAVISH * len(table.points)):
        try:
            return _scattered_plan(table, tol, dtype, roundoff)
        except ToleranceError:
            pass  # the grid is large, and reaches tol
    head = TensorHead.on_inputs(fit.axes, fit.values)
    return TablePlan((head,), _explain_grid(fit, grid), dtype)


def _scattered_plan(table: Table, tol: float, dtype: str, roundoff: float) -> TablePlan:
    fit = fit_scattered(table.points, table.table_values.reshape(len(table.points), -1), tol, roundoff)
    return TablePlan((), _explain_scattered(fit, len(table.points)), dtype, scattered=fit)


def _explain_grid(fit: TableFit, grid: Grid) -> str:
    counts = " x ".join(str(len(axis)) for axis in fit.axes)
    data = " x ".join(str(len(axis)) for axis in grid.axes)
    kind = "graded anchors" if fit.is_graded else "anchors"
    near = f"between the data within {fit.departure:.2g} of their spline along an axis"
    return f"{counts} {kind} with values fitted to {data} data; {near}"


def _explain_scattered(fit: ScatteredFit, points: int) -> str:
    held = f"a fit to four fifths of them misses the others by up to {fit.held_out:.2g}"
    return f"{fit.anchors} anchors chosen among {points} scattered points, with fitted values; {held}"


def _explain_smoothed(fit: SmoothedFit, points: int) -> str:
    values = f"values by ridge regression, alpha = {fit.alpha:.2g}"
    left = f"root mean square error {fit.left_out:.3g} at points left out one at a time"
    return f"{fit.head.anchors} anchors chosen among {points} points, {values}; {left}"


def _scattered_head(fit: ScatteredFit, construction: str, dtype: str) -> Head:
    inputs, outputs = fit.centres.shape[1], fit.values.shape[1]
    squares = (fit.centres**2).sum(axis=1)
    high = round_to(squares, dtype)
    offsets = [squares] if np.array_equal(high, squares) else [high, round_to(squares - high, dtype)]
    query = np.zeros((inputs + 1, inputs + len(offsets)))
    query[:inputs, :inputs] = np.diag(2 * fit.beta / fit.half)
    query[-1, :inputs] = -2 * fit.beta * fit.middle / fit.half
    query[-1, inputs:] = -fit.beta
    keys = np.column_stack([fit.centres, *offsets])
    inside = np.abs(fit.centres).max(axis=1) <= 1 + 1e-9
    roles = tuple("anchor" if within else "ghost" for within in inside.tolist())
    claims = Claims(construction, fit.sharpness, fit.positions, roles)
    return Head(query, np.eye(outputs), memory_keys=keys, memory_values=fit.values, claims=claims)
