"""Stacks of blocks: how far from exact iteration and from the minimiser they are, for prompts of several sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import attnforge as af
from attnforge.experiments.experiment import Row
from attnforge.experiments.in_context.problems import KINDS, Problem, problem
from attnforge.experiments.table import Array, Table

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
