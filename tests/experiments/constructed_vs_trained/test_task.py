"""The task is the authors', and least squares finds its forms."""

from __future__ import annotations

import numpy as np

from attnforge.experiments.constructed_vs_trained.task import Task, estimated

TASK = Task(0)


def test_the_task_is_the_authors() -> None:
    x, y = TASK.training()
    assert x.shape == (800, 50, 10)
    assert TASK.test()[0].shape == (200, 50, 10)
    assert -5 <= x.min() < -4.99 < 4.99 < x.max() <= 5
    form = np.einsum("bij,ij->bi", x, TASK.w) + TASK.t
    assert np.allclose(y, np.minimum(np.maximum(form, -25), 25))
    assert 0 < np.mean(np.abs(y) == 25) < 0.1
    assert not np.array_equal(x[:200], TASK.test()[0])
    assert np.array_equal(x, Task(0).training()[0])
    assert not np.array_equal(TASK.w, Task(1).w)


def test_least_squares_finds_the_forms_although_samples_are_clipped() -> None:
    w, t = estimated(*TASK.training())
    assert np.allclose(w, TASK.w, atol=1e-12)
    assert np.allclose(t, TASK.t, atol=1e-11)
    x, y = TASK.training()
    inside = np.abs(y) < 25
    off = np.abs(estimated(x, np.where(inside, y, 24.9))[0] - TASK.w)  # clipped samples taken for exact ones
    assert off.max() > 1e-3
