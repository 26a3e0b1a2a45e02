"""Whether the numbers that a run makes of its tokens stay within the range of the dtype."""

from __future__ import annotations

import numpy as np

from attnforge.certification.in_context.reading import Interpolated, Pair, Step
from attnforge.errors import RefusalError
from attnforge.outward import Machine
from attnforge.targets.in_context.features import Features

ACCUMULATED = 2.0**127  # scores of all dtypes but float64 are float32 numbers
ONES = ("unit", "first", "mirrored", "state")


def check_range(
    step: Step, features: Features, machine: Machine, x: float, y: float, w: float, residual: float
) -> None:
    """Raise where a query, a key, a score, a value or what is written may overflow, for tokens of these sizes."""
    sizes = {"x": x, "plain": x, "y": y, "w": w, "residual": residual + y}
    if isinstance(step.link, Pair):
        sizes["residual"] += max(abs(step.link.high), abs(step.link.low))
    if isinstance(step.link, Interpolated):
        sizes["scaled"] = 2 * abs(step.link.scale) * w
    held = np.abs(features.constants()).max(axis=0)
    for name, size in (dict.fromkeys(ONES, 1.0) | sizes).items():
        held[features.slices[name]] = size
    with np.errstate(over="ignore", invalid="ignore"):
        for head in step.weights:
            query, key, value = (
                0.0 if each is None else held @ np.abs(each) for each in (head.query, head.key, head.value)
            )
            if head.memory_keys is not None and head.memory_values is not None:
                key = np.maximum(key, np.abs(head.memory_keys).max(axis=0))
                value = np.maximum(value, np.abs(head.memory_values).max(axis=0))
            largest = max(float(np.max(each)) for each in (query, key, value, value @ np.abs(head.output)))
            score = float(np.sum(query * key))
            most = ACCUMULATED if machine.bytes < 8 else machine.largest
            if not (largest < machine.largest / 2 and score < most / 2):
                got = f"one of about {max(largest, score):.3g}"
                raise RefusalError(f"All numbers of a run must fit {machine.name}", got, "Use a wider dtype")
