"""The small-sharpness route with one head and with two, the interpolation route against half a step."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.anchors import hard
from attnforge.experiments.in_context.problems import problem
from attnforge.experiments.in_context.routes import by_sharpness, interpolated


def test_one_head_is_worse_than_two() -> None:
    task = problem("least squares", 50, 3)
    one, two = (by_sharpness(task, "float64", heads, 3) for heads in (1, 2))
    assert [row["chosen"] for row in one] == [False, False, False, True]
    assert float(two[-1]["error"] or 1) < float(one[-1]["error"] or 0) < 1e-9


def test_hard_links_are_half_a_step_off() -> None:
    found = interpolated("least squares", "hard", 13, 2, 0)  # anchors a step of 1 apart
    off = np.arange(11) / 21  # the residuals looked at, from an anchor to the middle
    expected = (off - 1 / (1 + np.exp(hard("float64") * (1 - 2 * off)))).max()  # two anchors share the weight
    assert found["error"] == pytest.approx(expected, abs=1e-6)
    assert "error" not in interpolated("logistic", "hard", 13, 2, 0)
