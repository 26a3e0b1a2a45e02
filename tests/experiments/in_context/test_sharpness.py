"""The small-sharpness route with one head and with two."""

from __future__ import annotations

from attnforge.experiments.in_context.problems import problem
from attnforge.experiments.in_context.sharpness import by_sharpness


def test_one_head_is_worse_than_two() -> None:
    task = problem("least squares", 50, 3)
    one, two = (by_sharpness(task, "float64", heads, 3) for heads in (1, 2))
    assert [row["chosen"] for row in one] == [False, False, False, True]
    assert float(two[-1]["error"] or 1) < float(one[-1]["error"] or 0) < 1e-9
