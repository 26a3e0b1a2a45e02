"""Stacks of blocks against exact iteration."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.experiments.in_context.drift import along_the_stack, certified_drift, factor_a_step, sized
from attnforge.experiments.in_context.problems import problem
from attnforge.in_context import LeastSquares


def test_along_the_stack() -> None:
    task = problem("ridge", 50, 3)
    first, last = along_the_stack(task, "float64", 60, [1, 60])
    assert first["step"] == 1
    assert 0 < float(first["drift"] or 0) < 1e-11
    assert float(last["drift"] or 1) < float(last["bound"] or 0) < 1e-6
    start = np.linalg.norm(task.iterates(1)[0] - task.minimiser()) / np.linalg.norm(task.minimiser())
    assert first["exact_distance"] == pytest.approx(start)
    assert float(last["distance"] or 1) < 1e-11 < float(first["distance"] or 0)


def test_bounds_in_float32_and_those_that_do_not_exist() -> None:
    task = problem("Huber", 50, 3)
    (row,) = along_the_stack(task, "float32", 100, [100])
    assert 1e-8 < float(row["drift"] or 0) < float(row["bound"] or 0) < 1e-2
    diverging = LeastSquares(steps=3, learning_rate=100.0).build(task.x.shape[1])
    assert certified_drift(diverging, task) is None


def test_sizes() -> None:
    found = sized("logistic", 20, 2, 10, 2, 0)
    assert float(found["drift"] or 1) < 1e-9


def test_factors_leave_out_the_floor() -> None:
    steps = np.arange(1, 41)
    distances = np.maximum(0.5**steps, 1e-9)
    assert factor_a_step(steps, distances, 1e-9).value == pytest.approx(0.5)
    assert factor_a_step(steps, distances, 0.0).value > 0.55
