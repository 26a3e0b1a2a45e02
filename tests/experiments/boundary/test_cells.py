"""Errors near the end: single networks."""

import pytest

from attnforge.experiments.boundary.cells import fitted_errors, transition_errors


def test_a_jump_at_the_end_is_harmless_but_for_ghosts():
    # The jump is a single point. Cells do not see it; ghosts, reflected about it, are worth 2 * 1 - (-1) = 3.
    errors = {row["method"]: row["error"] for row in transition_errors("jump", 0.0, 0.0, 64)}
    assert errors["hard cells"] < 1e-12
    assert errors["tuned cells, no ghosts"] < 1e-12
    assert errors["tuned cells, ghosts"] == pytest.approx(2.0, abs=1e-6)


def test_fitted_heads_keep_their_tolerance_at_the_end():
    row = fitted_errors("tanh", 0.1, 0.5, 64)
    assert row["end"] <= row["error"] <= 1e-6
