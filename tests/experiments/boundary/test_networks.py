"""Errors near the end by single networks, and networks changed by hand."""

import numpy as np
import pytest

import attnforge as af
from attnforge.experiments.boundary.networks import fitted_errors, shifted, transition_errors
from attnforge.network import without_keys


def test_a_jump_at_the_end_is_harmless_but_for_ghosts():
    # The jump is a single point. Cells do not see it; ghosts, reflected about it, are worth 2 * 1 - (-1) = 3.
    errors = {row["method"]: row["error"] for row in transition_errors("jump", 0.0, 0.0, 64)}
    assert errors["hard cells"] < 1e-12
    assert errors["tuned cells, no ghosts"] < 1e-12
    assert errors["tuned cells, ghosts"] == pytest.approx(2.0, abs=1e-6)


def test_fitted_heads_keep_their_tolerance_at_the_end():
    row = fitted_errors("tanh", 0.1, 0.5, 64)
    assert row["end"] <= row["error"] <= 1e-6


def test_without_ghosts_only_cells_are_left():
    net = af.constructions.max_affine("x", {"x": (0, 1)}, cells=4)
    (head,) = without_keys(net.network, "ghost").heads
    assert head.memory_values[:, 0].tolist() == [0.125, 0.375, 0.625, 0.875]
    assert set(head.claims.roles) == {"cell"}
    # At the end the half of a Gaussian row pulls inwards: sum of w_i (i + 1/2) h, w_i ~ exp(-c (i + 1/2)^2).
    place = np.arange(4) + 0.5
    weights = np.exp(-head.claims.sharpness * place**2)
    expected = 1 - weights @ place / weights.sum() / 4
    assert without_keys(net.network, "ghost")(np.ones((1, 1, 1)))[0, 0, 0] == pytest.approx(expected, rel=1e-12)


def test_sentinels_shifted_by_nothing_change_nothing():
    net = af.constructions.multihead_truncated_linear([1.0], 0.0, 0, 1, tokens=8, heads=3)
    y = np.linspace(0, 1, 101)[:, None, None]
    assert np.array_equal(shifted(net.network, 0.0)(y), net.network(y))
    assert np.abs(shifted(net.network, 0.5)(y) - net.network(y)).max() > 0.1
