"""Stacks of blocks: how far from exact iteration and from the minimiser they are, for prompts of several sizes.

What they say: a block is a step, steps converge, errors do not add up, bounds hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.experiments.experiment import Finding, Row
from attnforge.experiments.in_context.problems import DTYPES, EXAMPLES, FEATURES, KINDS, Problem, problem
from attnforge.experiments.panels import curve
from attnforge.experiments.slope import Slope, fit_base, fit_slope
from attnforge.experiments.table import Array, Table, change, markdown

ONE_STEP, CONVERGED = 1e-10, 1e-9  # of |step| and |w*|: what float64 must keep to for the claims to be called confirmed
SIZED = ("least squares", "logistic")  # regressions whose prompts have several sizes
MARKS = 28  # numbers of steps at which rows are taken, equally far apart on a logarithmic axis
FLOOR = 1e-17  # zeros are drawn here: logarithmic axes have none


def along_the_stack(task: Problem, dtype: str, steps: int, marks: Sequence[int] | None = None) -> list[Row]:
    """Distances after some of the steps: to exact iteration, to the minimiser, of a block from a step, certified."""
    net = task.network(steps, dtype)
    found, exact, minimiser = task.attention(net), task.iterates(steps), task.minimiser()
    stepped = task.step(np.concatenate([task.start[None], found[:-1]]))
    size, moved = norm(minimiser), norm(stepped[0])
    return [
        {
            "step": count,
            "drift": float(np.abs(found[count - 1] - exact[count - 1]).max()),
            "bound": certified_drift(net.with_steps(count), task),
            "block_error": _largest_norm((found - stepped)[:count]) / moved,
            "distance": norm(found[count - 1] - minimiser) / size,
            "exact_distance": norm(exact[count - 1] - minimiser) / size,
        }
        for count in marks or _marks(steps)
    ]


def sized(kind: str, examples: int, features: int, steps: int, draws: int, seed: int) -> Row:
    """Largest drift and error of a block over some prompts of one size; the bound of the worst."""
    found = [
        along_the_stack(problem(kind, examples, features, seed=1000 * seed + draw), "float64", steps, [steps])[0]
        for draw in range(draws)
    ]
    worst = max(found, key=lambda row: float(row["drift"] or 0.0))
    return {name: worst[name] for name in ("drift", "bound", "block_error")}


def certified_drift(net: Any, task: Problem) -> float | None:
    """The proved bound of the drift on these examples; None where there is none, or only infinity."""
    try:
        bound = float(net.certify(task.x, task.y).bound)
    except af.RefusalError:
        return None
    return bound if np.isfinite(bound) else None


def norm(weights: Array) -> float:
    """Euclidean, of all weights (d, K) together."""
    return float(np.linalg.norm(weights))


def _largest_norm(weights: Array) -> float:
    """Of the weights (d, K) of every step (steps, d, K), the largest."""
    return float(np.linalg.norm(weights.reshape(len(weights), -1), axis=1).max())


def _marks(steps: int) -> list[int]:
    return sorted({round(count) for count in np.geomspace(1, steps, MARKS)})


def stack(table: Table, kind: str, dtype: str) -> Table:
    """The rows of one regression, step by step."""
    return table.where(part="steps", kind=kind, dtype=dtype).ordered("step")


def finals(table: Table, column: str, dtype: str) -> dict[str, float]:
    """A column after all steps, by regression.

    >>> rows = [{"part": "steps", "kind": "ridge", "dtype": "float64", "step": s, "drift": 0.1 * s} for s in (2, 1)]
    >>> finals(Table.of(rows), "drift", "float64")
    {'ridge': 0.2}
    """
    found = {kind: stack(table, kind, dtype).numbers(column) for kind in KINDS}
    return {kind: float(values[-1]) for kind, values in found.items() if len(values)}


def findings(table: Table) -> list[Finding]:
    """The paper's claim of one step, the question of many that it leaves open, and our bound."""
    return [_one_step(table), _converges(table), _settles(table), _certified(table)]


def _one_step(table: Table) -> Finding:
    double, single = (finals(table, "block_error", dtype) for dtype in DTYPES)
    second, worst = sorted(double.values())[-2:]
    evidence = (
        f"largest error of a block, anywhere along the stack: float64 {_worst(double)}, all others at most "
        f"{second:.1e}; float32 {_worst(single)}"
    )
    to = f"all {len(double)} regressions, to {ONE_STEP:g} of the first step"
    return Finding.judged(f"one block is one step of gradient descent: {to}", worst <= ONE_STEP, evidence)


def _converges(table: Table) -> Finding:
    double, single = (finals(table, "distance", dtype) for dtype in DTYPES)
    steps = int(table.where(part="steps").numbers("step").max())
    factors = {kind: _factors(table, kind) for kind in double}
    apart = max(abs(mine.value - exact.value) for mine, exact in factors.values())
    slowest = max(factors, key=lambda kind: factors[kind][0].value)
    evidence = (
        f"after {steps:,} blocks |w - w*| / |w*| is at most {_worst(double)} in float64 and {_worst(single)} in "
        f"float32; it falls by a constant factor a block, at slowest {factors[slowest][0]} ({slowest}), within "
        f"{apart:.1e} of the factor of exact iteration"
    )
    falls = all(mine.high < 1 for mine, _ in factors.values())
    claim = f"T stacked blocks converge to the minimiser (left open): to {CONVERGED:g} of |w*|, geometrically"
    return Finding.judged(claim, falls and max(double.values()) <= CONVERGED, evidence)


def _settles(table: Table) -> Finding:
    """Errors of one sign that add up would give the drift the slope 1 in the number of steps, random ones 1/2."""
    kinds = finals(table, "drift", "float64")
    slopes = {kind: fit_slope(*stack(table, kind, "float64").points("step", "drift")) for kind in kinds}
    steepest = max(slopes, key=lambda kind: slopes[kind].value)
    evidence = f"steepest growth of the drift with the number of blocks: slope {slopes[steepest]} ({steepest})"
    claim = "errors of the blocks do not add up: drift grows slower than the square root of their number"
    return Finding.judged(claim, all(each.high < 0.5 for each in slopes.values()), evidence)


def _certified(table: Table) -> Finding:
    rows = table.having("drift", "bound")
    ratio = rows.ratios("drift", "bound")
    lacking = len(table.where(part="steps").having("drift")) - len(rows.where(part="steps"))
    evidence = f"{len(rows)} rows, largest drift / bound {ratio.max():.2g}, median {np.median(ratio):.1e}"
    evidence += f"; {lacking} rows have no finite bound (float32)" if lacking else ""
    return Finding.judged("no drift above its certified bound", np.all(ratio <= 1), evidence)


def _worst(values: Mapping[str, float]) -> str:
    kind = max(values, key=lambda each: values[each])
    return f"{values[kind]:.1e} ({kind})"


def _factors(table: Table, kind: str) -> tuple[Slope, Slope]:
    """Of attention in float64 and of exact iteration, on the same steps."""
    rows = stack(table, kind, "float64")
    steps, mine = rows.points("step", "distance")
    floor = float(mine.min())
    exact = np.where(mine > 10 * floor, rows.numbers("exact_distance"), 0.0)
    return factor_a_step(steps, mine, floor), factor_a_step(steps, exact, 0.0)


def factor_a_step(steps: npt.ArrayLike, distances: npt.ArrayLike, floor: float) -> Slope:
    """The factor q of distances ~ C q^step, with its interval, from those at least ten times above the floor.

    >>> print(factor_a_step([1, 2, 3, 4], [0.5, 0.25, 0.125, 1e-9], 1e-9))
    0.500 (95 % CI 0.500 to 0.500)
    """
    distance = np.asarray(distances, dtype=np.float64)
    return fit_base(steps, np.where(distance > 10 * floor, distance, 0.0))  # of zeros a fit takes no notice


def summary(table: Table) -> str:
    """One line a regression, after all steps."""
    header = ["regression", "factor a step", "exact", "to the minimiser", "drift", "certified", "drift, float32"]
    distance, drift, bound = (finals(table, column, "float64") for column in ("distance", "drift", "bound"))
    single = finals(table, "drift", "float32")
    lines = [
        [
            kind,
            *(f"{factor.value:.4f}" for factor in _factors(table, kind)),
            *(f"{each[kind]:.1e}".replace("nan", "none") for each in (distance, drift, bound, single)),
        ]
        for kind in KINDS
    ]
    return markdown(header, lines)


def by_size(table: Table) -> Finding:
    """How drift depends on either size."""
    parts = []
    for kind in SIZED:
        sizes = {column: rows.points(column, "drift") for column, rows in _by_size(table, kind).items()}
        spans = [
            f"{change(drift, '.1e')} for {column} = {change(size, ',.0f')}" for column, (size, drift) in sizes.items()
        ]
        blocks = table.where(part="size", kind=kind).numbers("block_error").max()
        parts.append(f"{kind} {', '.join(spans)}, blocks to {blocks:.1e}")
    return Finding("drift against the size of the prompt, float64", "measured", "; ".join(parts))


def _by_size(table: Table, kind: str) -> dict[str, Table]:
    """The rows of one regression by the size that grows."""
    rows = table.where(part="size", kind=kind)
    return {"n": rows.where(d=FEATURES).ordered("n"), "d": rows.where(n=EXAMPLES).ordered("d")}


def size_curves(table: Table) -> list[Any]:
    """Drift against either size."""
    return [
        curve(f"{kind}, {column}", rows, column, "drift", floor=FLOOR)
        for kind in SIZED
        for column, rows in _by_size(table, kind).items()
    ]
