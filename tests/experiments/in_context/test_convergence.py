"""Factors a step."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.experiments.in_context.convergence import factor_a_step


def test_factors_leave_out_the_floor() -> None:
    steps = np.arange(1, 41)
    distances = np.maximum(0.5**steps, 1e-9)
    assert factor_a_step(steps, distances, 1e-9).value == pytest.approx(0.5)
    assert factor_a_step(steps, distances, 0.0).value > 0.55
